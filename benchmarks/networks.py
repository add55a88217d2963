"""Rows with a model: perceptron, GPT, ViT and recurrent networks, for inference and for training steps with their optimizers."""

from registry import inference, training, workload


@workload("mlp_infer", note="512-2048-2048-512 GELU network, batch 32, inference")
def _(lib, inputs, wrap):
    nn = lib.nn
    model = inputs.fill(nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 2048), nn.GELU(), nn.Linear(2048, 512)))
    return inference(lib, wrap(model.eval()), inputs.floats(32, 512))


@workload("mlp_train", note="784-512-256-10 ReLU network, cross entropy, SGD, batch 128; one step")
def _(lib, inputs, wrap):
    nn = lib.nn
    model = inputs.fill(nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10)))
    x, y, f = inputs.floats(128, 784), inputs.integers(10, 128), wrap(model)
    return training(lib.optim.SGD(model.parameters(), lr=0.01), lambda: nn.functional.cross_entropy(f(x), y))


def block_class(lib, width, heads, causal=True):
    """A transformer layer that normalises first; attention over (batch, positions, width)."""
    nn, F = lib.nn, lib.nn.functional

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

        def forward(self, x):
            B, S, C = x.shape
            q, k, v = self.qkv(x).view(B, S, 3, heads, C // heads).permute(2, 0, 3, 1, 4).unbind(0)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            return self.proj(y.transpose(1, 2).reshape(B, S, C))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.attention, self.norm2 = nn.LayerNorm(width), Attention(), nn.LayerNorm(width)
            self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            return x + self.out(F.gelu(self.fc(self.norm2(x))))

    return Block


def gpt(lib, inputs, vocabulary, width, heads, layers, context):
    nn, F, Block = lib.nn, lib.nn.functional, block_class(lib, width, heads)

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

        def forward(self, tokens, targets=None):
            x = self.tokens(tokens) + self.positions(lib.arange(tokens.shape[1]))
            for block in self.blocks:
                x = block(x)
            logits = self.head(self.norm(x))
            if targets is None:
                return logits
            return F.cross_entropy(logits.view(-1, vocabulary), targets.view(-1))

    return inputs.fill(GPT())


MEDIUM = {"vocabulary": 1024, "width": 384, "heads": 6, "layers": 6, "context": 256}
DEMO = {"vocabulary": 256, "width": 256, "heads": 4, "layers": 4, "context": 128}


@workload("gpt_infer", note="GPT of 6 layers and width 384, 4 x 256 tokens, inference", dtype="float32")
@workload("gpt_infer_bf16", note="the same GPT in bfloat16", dtype="bfloat16")
def _(lib, inputs, wrap, dtype):
    model = gpt(lib, inputs, **MEDIUM).eval().to(getattr(lib, dtype))
    return inference(lib, wrap(model), inputs.integers(1024, 4, 256))


@workload("gpt_train", note="a training step of the same GPT with AdamW", batch=4, sizes=MEDIUM)
@workload(
    "demo_gpt_train",
    unit="tokens/s",
    work=16 * 128,
    batch=16,
    sizes=DEMO,
    note="training the demo's GPT (4 layers, width 256), AdamW, 16 x 128",
)
def _(lib, inputs, wrap, batch, sizes):
    model, high, length = gpt(lib, inputs, **sizes), sizes["vocabulary"], sizes["context"]
    x, y, f = inputs.integers(high, batch, length), inputs.integers(high, batch, length), wrap(model)
    return training(lib.optim.AdamW(model.parameters(), lr=3e-4), lambda: f(x, y))


@workload("dyn_sweep", note="the same GPT over twelve lengths from 17 to 256, batch 1")
def _(lib, inputs, wrap):
    f = wrap(gpt(lib, inputs, **MEDIUM).eval())
    tokens = [inputs.integers(1024, 1, length) for length in (256, 33, 64, 97, 128, 160, 17, 200, 240, 48, 111, 222)]
    return inference(lib, lambda: [f(x) for x in tokens])


@workload("vit_infer", note="ViT-tiny with patches of 16, 4 images of 224 x 224, inference")
def _(lib, inputs, wrap):
    nn, Block = lib.nn, block_class(lib, 192, 3, causal=False)

    class ViT(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, 192, 16, stride=16)
            self.label, self.positions = nn.Parameter(lib.zeros(1, 1, 192)), nn.Parameter(lib.zeros(1, 197, 192))
            self.blocks, self.norm = nn.Sequential(*[Block() for _ in range(12)]), nn.LayerNorm(192)
            self.head = nn.Linear(192, 1000)

        def forward(self, images):
            x = self.patches(images).flatten(2).transpose(1, 2)
            x = lib.cat([self.label.expand(x.shape[0], -1, -1), x], dim=1) + self.positions
            return self.head(self.norm(self.blocks(x))[:, 0])

    return inference(lib, wrap(inputs.fill(ViT()).eval()), inputs.floats(4, 3, 224, 224))


def next_character(lib, inputs, wrap, model, length):
    """Training of a model over 96 characters, AdamW, batch 32."""
    x, y, f = inputs.integers(96, 32, length), inputs.integers(96, 32, length), wrap(inputs.fill(model))
    loss = lambda: lib.nn.functional.cross_entropy(f(x).view(-1, 96), y.view(-1))
    return training(lib.optim.AdamW(model.parameters(), lr=1e-3), loss)


@workload("lstm_train", note="characters: nn.LSTM of 256 over 64 steps, AdamW, batch 32")
def _(lib, inputs, wrap):
    nn = lib.nn

    class Characters(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(96, 64), nn.Linear(256, 96)
            self.rnn = nn.LSTM(64, 256, batch_first=True)

        def forward(self, x):
            return self.head(self.rnn(self.embedding(x))[0])

    return next_character(lib, inputs, wrap, Characters(), 64)


@workload("gru_loop_train", note="characters: a GRU written as a Python loop of 32 steps, AdamW, batch 32")
def _(lib, inputs, wrap):
    nn = lib.nn

    class Characters(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(96, 64), nn.Linear(256, 96)
            self.input, self.state = nn.Linear(64, 3 * 256), nn.Linear(256, 3 * 256)

        def forward(self, x):
            given, h, states = self.input(self.embedding(x)), lib.zeros(x.shape[0], 256), []
            for step in range(x.shape[1]):
                (xr, xz, xn), (hr, hz, hn) = given[:, step].chunk(3, dim=1), self.state(h).chunk(3, dim=1)
                z, new = lib.sigmoid(xz + hz), lib.tanh(xn + lib.sigmoid(xr + hr) * hn)
                h = new + z * (h - new)
                states.append(h)
            return self.head(lib.stack(states, dim=1))

    return next_character(lib, inputs, wrap, Characters(), 32)


def blocks(lib, inputs, layers):
    """A stack of small transformer blocks."""
    nn, Block = lib.nn, block_class(lib, 32, 4)
    return inputs.fill(nn.Sequential(*[Block() for _ in range(layers)], nn.LayerNorm(32)))


def constant_backend(result):
    """Compiled code that computes nothing: what is left of a call is its guards."""
    return lambda graph, example_inputs: lambda *inputs: (result,)


@workload("guards_12", unit="µs", note="guards alone: a transformer of 12 layers, 145 parameters", layers=12)
@workload("guards_32", unit="µs", note="guards alone: a transformer of 32 layers, 385 parameters", layers=32)
def _(lib, inputs, wrap, layers):
    model, x = blocks(lib, inputs, layers).eval(), inputs.floats(2, 8, 32)
    with lib.no_grad():
        f = wrap(model, backend=constant_backend(model(x)))
    return inference(lib, f, x)


@workload("capture_12", note="capture alone, no kernels made: a transformer of 12 layers")
def _(lib, inputs, wrap):
    model, x = blocks(lib, inputs, 12).eval(), inputs.floats(2, 8, 32)
    with lib.no_grad():
        result = model(x)

    def step():
        lib.compiler.reset()
        with lib.no_grad():
            return wrap(model, backend=constant_backend(result))(x)

    return step

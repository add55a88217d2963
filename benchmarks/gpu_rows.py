"""What is measured on a GPU: programs over any library with PyTorch's API. A row's builder takes the library, a device, the
wrapper (identity, or the library's `compile`) and a size ("full", or "tiny" for a trial anywhere), and gives one step to call.

`flops` and `bytes` of a row say what a step computes or moves at least, by its size; without them there is only its time.
"""

import math

ROWS = {}


def row(name, *, flops=None, bytes_=None, **sizes):
    """`sizes`: the builder's numbers, full=(...) and tiny=(...)."""

    def register(build):
        ROWS[name] = {"build": build, "flops": flops, "bytes": bytes_, "sizes": sizes}
        return build

    return register


def built(name, lib, device, wrap, size="full"):
    entry = ROWS[name]
    lib.manual_seed(0)
    return entry["build"](lib, device, wrap, *entry["sizes"][size])


def work(name, size="full"):
    """(floating point operations, bytes) of one step, or None."""
    entry = ROWS[name]
    return tuple(f(*entry["sizes"][size]) if f else None for f in (entry["flops"], entry["bytes"]))


def quietly(lib, f, *inputs):
    def step():
        with lib.no_grad():
            return f(*inputs)

    return step


def learning(optimizer, loss):
    def step():
        optimizer.zero_grad(set_to_none=True)
        value = loss()
        value.backward()
        optimizer.step()
        return value

    return step


# -- kernels that wait for memory


@row("pointwise", full=(1 << 26,), tiny=(64,), bytes_=lambda n: 8 * n)
def _(lib, device, wrap, n):
    x = lib.randn(n, device=device)
    return quietly(lib, wrap(lambda x: lib.nn.functional.gelu(x * 2 + 1).tanh() * x.sigmoid()), x)


@row("softmax", full=(8192, 8192), tiny=(4, 40), bytes_=lambda n, m: 8 * n * m)
def _(lib, device, wrap, n, m):
    return quietly(lib, wrap(lambda x: x.softmax(-1)), lib.randn(n, m, device=device))


@row("layer_norm", full=(16384, 4096), tiny=(4, 40), bytes_=lambda n, m: 4 * n * m)
def _(lib, device, wrap, n, m):
    x, w, b = (lib.randn(*s, device=device).to(lib.bfloat16) for s in ((n, m), (m,), (m,)))
    return quietly(lib, wrap(lambda x, w, b: lib.nn.functional.layer_norm(x, (m,), w, b)), x, w, b)


@row("cross_entropy", full=(4096, 128256), tiny=(6, 50), bytes_=lambda n, m: 2 * 4 * n * m)
def _(lib, device, wrap, n, m):
    """Loss and gradient of logits in bfloat16."""
    x = lib.randn(n, m, device=device).to(lib.bfloat16).requires_grad_()
    y = lib.randint(0, m, (n,), device=device)
    f = wrap(lambda x, y: lib.nn.functional.cross_entropy(x.float(), y))

    def step():
        x.grad = None
        f(x, y).backward()
        return x.grad

    return step


@row("adamw", full=(100, 1 << 20), tiny=(3, 20), bytes_=lambda count, n: 7 * 4 * count * n)
def _(lib, device, wrap, count, n):
    """Reads weights, gradients and two moments, writes three of them."""
    parameters = [lib.randn(n, device=device).requires_grad_() for _ in range(count)]
    for p in parameters:
        p.grad = lib.randn(n, device=device)
    optimizer = lib.optim.AdamW(parameters, lr=1e-3)
    step = wrap(lambda: optimizer.step())

    def run():
        step()
        return parameters[0].detach()

    return run


# -- products


def matmul(n):
    @row(f"matmul_{n}", full=(n,), tiny=(32,), flops=lambda n: 2 * n**3)
    def _(lib, device, wrap, n):
        a, b = (lib.randn(n, n, device=device).to(lib.bfloat16) for _ in range(2))
        return quietly(lib, wrap(lambda a, b: a @ b), a, b)


for _size in (1024, 2048, 4096, 8192):
    matmul(_size)


def attention_flops(b, h, n, d):
    return 2 * b * h * n * n * d  # two products of n * n * d, half of them behind the diagonal


def queries(lib, device, b, h, n, d):
    return [lib.randn(b, h, n, d, device=device).to(lib.bfloat16) for _ in range(3)]


@row("attention", full=(8, 16, 2048, 64), tiny=(1, 2, 24, 8), flops=attention_flops)
def _(lib, device, wrap, *sizes):
    f = wrap(lambda q, k, v: lib.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
    return quietly(lib, f, *queries(lib, device, *sizes))


@row("attention_train", full=(8, 16, 2048, 64), tiny=(1, 2, 24, 8), flops=lambda *s: 3.5 * attention_flops(*s))
def _(lib, device, wrap, *sizes):
    q, k, v = (x.requires_grad_() for x in queries(lib, device, *sizes))
    f = wrap(lambda q, k, v: lib.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))

    def step():
        q.grad = k.grad = v.grad = None
        f(q, k, v).sum().backward()
        return q.grad

    return step


# -- models


def block_class(lib, width, heads, causal):
    nn, F = lib.nn, lib.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            B, S, C = x.shape
            q, k, v = (t.view(B, S, heads, C // heads).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(C, -1))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            x = x + self.proj(y.transpose(1, 2).reshape(B, S, C))
            return x + self.out(F.gelu(self.fc(self.norm2(x))))

    return Block


def gpt(lib, device, vocabulary, width, heads, layers, context):
    nn, Block = lib.nn, block_class(lib, width, heads, True)

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

        def forward(self, tokens, wanted=None):
            x = self.tokens(tokens) + self.places(lib.arange(tokens.shape[1], device=tokens.device))
            for block in self.blocks:
                x = block(x)
            logits = self.head(self.norm(x))
            return logits if wanted is None else nn.functional.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten())

    return GPT().to(device).to(lib.bfloat16)


GPT_SIZES = {"full": (8, 50304, 768, 12, 12, 1024), "tiny": (2, 40, 16, 2, 1, 12)}


@row("gpt_train", **GPT_SIZES)
def _(lib, device, wrap, batch, vocabulary, width, heads, layers, context):
    model = gpt(lib, device, vocabulary, width, heads, layers, context)
    x, y = (lib.randint(0, vocabulary, (batch, context), device=device) for _ in range(2))
    f = wrap(model)
    return learning(lib.optim.AdamW(model.parameters(), lr=1e-4), lambda: f(x, y))


@row("gpt_infer", **GPT_SIZES)
def _(lib, device, wrap, batch, vocabulary, width, heads, layers, context):
    model = gpt(lib, device, vocabulary, width, heads, layers, context).eval()
    return quietly(lib, wrap(model), lib.randint(0, vocabulary, (batch, context), device=device))


@row("vit_infer", full=(64, 224, 16, 768, 12, 12), tiny=(2, 16, 8, 16, 2, 1))
def _(lib, device, wrap, batch, side, patch, width, heads, layers):
    nn, Block = lib.nn, block_class(lib, width, heads, False)

    class ViT(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, width, patch, stride=patch)
            self.places = nn.Parameter(lib.zeros(1, (side // patch) ** 2, width))
            self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

        def forward(self, x):
            x = self.patches(x).flatten(2).transpose(1, 2) + self.places
            return self.head(self.norm(self.blocks(x)).mean(1))

    model = ViT().to(device).to(lib.bfloat16).eval()
    return quietly(lib, wrap(model), lib.randn(batch, 3, side, side, device=device).to(lib.bfloat16))


def bottleneck_class(lib):
    nn = lib.nn

    class Bottleneck(nn.Module):
        def __init__(self, channels, width, stride):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(channels, width, 1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(),
                nn.Conv2d(width, width, 3, stride, 1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(),
                nn.Conv2d(width, 4 * width, 1, bias=False),
                nn.BatchNorm2d(4 * width),
            )
            self.aside = (
                nn.Identity()
                if channels == 4 * width and stride == 1
                else nn.Sequential(nn.Conv2d(channels, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))
            )

        def forward(self, x):
            return lib.relu(self.body(x) + self.aside(x))

    return Bottleneck


def resnet(lib, depths, width):
    nn, Bottleneck = lib.nn, bottleneck_class(lib)
    layers, channels = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], width
    for stage, depth in enumerate(depths):
        for k in range(depth):
            layers.append(Bottleneck(channels, width << stage, 2 if stage and not k else 1))
            channels = 4 * (width << stage)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


@row("resnet50_infer", full=(64, 224, (3, 4, 6, 3), 64), tiny=(2, 32, (1, 1), 4))
def _(lib, device, wrap, batch, side, depths, width):
    model = resnet(lib, depths, width).to(device).eval()
    return quietly(lib, wrap(model), lib.randn(batch, 3, side, side, device=device))


@row("resnet50_train", full=(32, 224, (3, 4, 6, 3), 64), tiny=(2, 32, (1, 1), 4))
def _(lib, device, wrap, batch, side, depths, width):
    model = resnet(lib, depths, width).to(device)
    x, y, f = lib.randn(batch, 3, side, side, device=device), lib.randint(0, 1000, (batch,), device=device), wrap(model)
    loss = lambda: lib.nn.functional.cross_entropy(f(x), y)
    return learning(lib.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), loss)


def geometric_mean(numbers):
    numbers = list(numbers)
    return math.exp(sum(map(math.log, numbers)) / len(numbers)) if numbers else None

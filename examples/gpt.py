"""A byte-level GPT trained on the sources of Python's own standard library, eagerly and compiled, from the same seed.

    python examples/gpt.py [--steps N] [--out DIR]

The program runs its phases in processes of their own, so that memory and compile time are told apart: `eager` and
`compiled` train and validate, `check` compares gradients of both from equal state. Then it prints the two loss curves side by
side, samples text, writes a plot and the generated kernels to DIR, and exits non-zero if a claim it makes does not hold.
"""

import argparse
import json
import math
import os
import pathlib
import resource
import subprocess
import sys
import sysconfig
import time

import numpy as np
from tqdm import tqdm

import flambeau as torch
import flambeau.nn as nn
import flambeau.nn.functional as F

VOCABULARY, WIDTH, LAYERS, HEADS, CONTEXT = 256, 256, 4, 4, 128
BATCH, LEARNING_RATE, DROPOUT, SEED = 8, 2e-3, 0.1, 1234
CHECKED_STEPS = (1, 40)
LOSS_TOLERANCE, GRADIENT_TOLERANCE, NATIVE_SHARE, NATS_LIMIT = 1e-5, 2e-5, 0.90, 2.3
BLUE, RED = "#3b6ea8", "#c8553d"


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        B, S, C = x.shape
        q, k, v = self.qkv(x).split(C, dim=2)
        q, k, v = (t.view(B, S, HEADS, C // HEADS).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=DROPOUT if self.training else 0.0, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(B, S, C))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(DROPOUT))
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.bytes, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.initialize()

    def initialize(self):
        """Positions start as sinusoids: heads that look a fixed distance back form in a few hundred steps."""
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, 0.0, 0.04 / math.sqrt(2 * LAYERS) if name.endswith(("proj.weight", "mlp.2.weight")) else 0.04)
        nn.init.normal_(self.bytes.weight, 0.0, 0.1)
        angles = np.arange(CONTEXT)[:, None] * np.exp(-math.log(1000.0) * np.arange(WIDTH // 2) / (WIDTH // 2))
        with torch.no_grad():
            waves = np.concatenate([np.sin(angles), np.cos(angles)], 1)
            self.positions.weight.copy_(torch.tensor(0.3 * waves, dtype=torch.float32))

    def forward(self, tokens, targets=None):
        positions = torch.arange(tokens.shape[1])
        x = self.dropout(self.bytes(tokens) + self.positions(positions))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


def corpus():
    """(training, validation) bytes of the standard library's sources: every tenth file validates."""
    folder = pathlib.Path(sysconfig.get_paths()["stdlib"])
    packages = (
        "",
        "asyncio",
        "collections",
        "concurrent/futures",
        "ctypes",
        "email",
        "http",
        "importlib",
        "json",
        "logging",
        "multiprocessing",
        "sqlite3",
        "unittest",
        "urllib",
        "xml/dom",
        "xml/etree",
        "xml/sax",
    )
    files = sorted(path for name in packages for path in (folder / name).glob("*.py"))
    parts = {False: [], True: []}
    for number, path in enumerate(files):
        parts[number % 10 == 9].append(path.read_bytes())
    return tuple(np.frombuffer(b"\n".join(parts[held]), np.uint8).astype(np.int64) for held in (False, True))


def bigram_loss(training, validation):
    """Nats a byte of a table of byte pairs with add-0.1 smoothing: what a model without context reaches."""
    counts = np.full((VOCABULARY, VOCABULARY), 0.1)
    np.add.at(counts, (training[:-1], training[1:]), 1.0)
    table = np.log(counts / counts.sum(1, keepdims=True))
    return float(-table[validation[:-1], validation[1:]].mean())


def batches(data, rng, count, batch=BATCH):
    for _ in range(count):
        starts = rng.integers(0, len(data) - CONTEXT - 1, batch)
        rows = np.stack([data[s : s + CONTEXT + 1] for s in starts])
        yield torch.from_numpy(rows[:, :-1].copy()), torch.from_numpy(rows[:, 1:].copy())


def validation_loss(model, validation):
    model.eval()
    with torch.no_grad():
        losses = [model(x, y).item() for x, y in batches(validation, np.random.default_rng(7), 8)]
    model.train()
    return sum(losses) / len(losses)


def rate_at(step, steps):
    """Linear warm-up, then a cosine down to a tenth."""
    if step <= 20:
        return LEARNING_RATE * step / 20
    return LEARNING_RATE * (0.1 + 0.45 * (1 + math.cos(math.pi * (step - 20) / max(1, steps - 20))))


def train(options, compiled):
    """One training run; returns what the comparison needs."""
    training, validation = corpus()
    torch.manual_seed(SEED)
    original = GPT()
    model = torch.compile(original) if compiled else original
    optimizer = torch.optim.AdamW(original.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.1)
    losses, seconds, forward_backward, native, first = [], [], 0.0, 0.0, 0.0
    steps = enumerate(batches(training, np.random.default_rng(SEED), options.steps), start=1)
    name = "compiled" if compiled else "eager   "
    bar = tqdm(steps, total=options.steps, desc=name, unit="step", file=sys.stdout, mininterval=2.0)
    for step, (x, y) in bar:
        if step in CHECKED_STEPS and compiled:
            save_state(options.out / f"state{step}.npz", original, x, y)
        optimizer.param_groups[0]["lr"] = rate_at(step, options.steps)
        start, native_before = time.perf_counter(), torch.compiler.native_seconds()
        optimizer.zero_grad()
        loss = model(x, y)
        loss.backward()
        middle, native_after = time.perf_counter(), torch.compiler.native_seconds()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
        losses.append(loss.item())
        if step == 1:
            first = seconds[0]
            counted = torch.compiler.counters()
        elif step > 2:
            forward_backward += middle - start
            native += native_after - native_before
    after = torch.compiler.counters()
    result = {
        "losses": losses,
        "tokens_per_second": BATCH * CONTEXT / float(np.median(seconds[2:])),
        "first_step_seconds": first,
        "native_share": native / forward_backward,
        "counters_first": counted,
        "counters_trained": after,
        "validation": validation_loss(model, validation),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    if compiled:
        result.update(sample(original, options))
    return result


def save_state(path, model, x, y):
    """Everything that decides the next step: parameters, batch, generator."""
    arrays = {f"model.{name}": value.numpy() for name, value in model.state_dict().items()}
    np.savez(path, x=x.numpy(), y=y.numpy(), rng=torch.get_rng_state().numpy(), **arrays)


def gradients(model, call, state):
    model.load_state_dict({name[6:]: torch.from_numpy(state[name]) for name in state.files if name.startswith("model.")})
    torch.set_rng_state(torch.from_numpy(state["rng"]))
    model.zero_grad()
    call(torch.from_numpy(state["x"]), torch.from_numpy(state["y"])).backward()
    return {name: p.grad.detach().clone().numpy() for name, p in model.named_parameters()}


def check(options):
    """From equal state: the worst relative L2 difference of any parameter's gradient, eager against compiled."""
    model = GPT()
    compiled = torch.compile(model)
    worst = {}
    for step in CHECKED_STEPS:
        state = np.load(options.out / f"state{step}.npz")
        want, got = gradients(model, model, state), gradients(model, compiled, state)
        differences = {name: float(np.linalg.norm(got[name] - want[name]) / np.linalg.norm(want[name])) for name in want}
        name = max(differences, key=differences.get)
        worst[step] = {"parameter": name, "difference": differences[name]}
    return {"worst": worst}


def sample(model, options, length=200):
    """Text from the trained model, with a sequence that grows by a byte a call: few graphs serve all lengths."""
    model.eval()
    torch.compiler.reset()
    call = torch.compile(lambda tokens: model(tokens))
    tokens, lengths = list(b"def read("), set()
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for _ in range(length):
            window = torch.tensor([tokens[-CONTEXT:]])
            lengths.add(window.shape[1])
            weights = F.softmax(call(window)[0, -1] / 0.8, dim=-1)
            tokens.append(int(torch.multinomial(weights, 1, generator=generator)))
    counted = torch.compiler.counters()
    return {
        "sample": bytes(tokens).decode("utf-8", "replace"),
        "sample_lengths": len(lengths),
        "sample_graphs": counted["graphs"],
        "sample_breaks": counted["breaks"],
    }


def phase(name, options):
    """Run a phase in a process of its own and return its result."""
    target = options.out / f"{name}.json"
    target.unlink(missing_ok=True)
    environment = dict(os.environ)
    if name == "compiled":
        environment["FLAMBEAU_DUMP"] = str(options.out / "kernels")
        environment["FLAMBEAU_CACHE_DIR"] = str(options.out / "cache")
    if name == "check":
        environment["FLAMBEAU_CACHE_DIR"] = str(options.out / "cache")
    arguments = ["--phase", name, "--steps", str(options.steps), "--out", str(options.out)]
    done = subprocess.run([sys.executable, os.path.abspath(__file__), *arguments], env=environment)
    if done.returncode or not target.exists():
        sys.exit(f"the {name} phase failed with exit status {done.returncode}")
    return json.loads(target.read_text())


def dry_run(options):
    """Triton kernels and their PTX for one training step, made without a GPU; the step itself is run by generated C++."""
    folder = os.environ.setdefault("FLAMBEAU_DUMP", str(options.out / "kernels"))
    torch.manual_seed(SEED)
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.95), weight_decay=0.1)

    def step(x, y):
        optimizer.zero_grad()
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        return loss

    call = torch.compile(step, backend="triton", options={"dry_run": options.capability})
    tokens = torch.randint(0, VOCABULARY, (BATCH, CONTEXT + 1))
    with torch.compiler.config.patch(strict=True, dump=folder):
        loss = call(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
    print(f"loss {loss.item():.4f}; Triton kernels and PTX for sm_{options.capability}:")
    for path in sorted(pathlib.Path(folder).glob("*/*kernels.p*")):
        print(f"  {path}  {path.stat().st_size:,} bytes")


def print_curves(eager, compiled):
    print("\n  step     eager    compiled   relative difference")
    steps = len(eager["losses"])
    for step in sorted({1, 2, 5, 10, 20, 40, *range(50, steps + 1, 50), steps}):
        if step <= steps:
            a, b = eager["losses"][step - 1], compiled["losses"][step - 1]
            print(f"  {step:4d}  {a:8.5f}    {b:8.5f}   {abs(a - b) / abs(a):.1e}")


def plot(path, eager, compiled, bigram):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    steps = range(1, len(eager["losses"]) + 1)
    rates = [f"{run['tokens_per_second']:,.0f} tokens/s" for run in (eager, compiled)]
    axes.plot(steps, eager["losses"], color=BLUE, linewidth=3.0, alpha=0.45, label=f"eager, {rates[0]}")
    axes.plot(steps, compiled["losses"], color=RED, linewidth=1.0, label=f"compiled, {rates[1]}")
    axes.axhline(bigram, color="gray", linestyle=":", label=f"bigram table {bigram:.2f}")
    axes.scatter([len(steps)], [compiled["validation"]], color=RED, zorder=3, label=f"validation {compiled['validation']:.2f}")
    axes.set(xlabel="step", ylabel="loss, nats a byte", title="Byte-level GPT on Python's standard library")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def claims(eager, compiled, checked, bigram, options):
    """(what is claimed, what was seen, whether it holds)"""
    loss = max(abs(a - b) / abs(a) for a, b in zip(eager["losses"], compiled["losses"]))
    first, trained = compiled["counters_first"], compiled["counters_trained"]
    yield f"losses agree within {LOSS_TOLERANCE:g} at every step", f"worst {loss:.1e}", loss <= LOSS_TOLERANCE
    for step, worst in checked["worst"].items():
        yield (
            f"gradients at step {step} agree within {GRADIENT_TOLERANCE:g}",
            f"worst {worst['difference']:.1e} ({worst['parameter']})",
            worst["difference"] <= GRADIENT_TOLERANCE,
        )
    if not options.short:
        yield (
            "validation loss below the bigram table's and 2.3",
            f"{compiled['validation']:.3f} against {bigram:.3f}",
            compiled["validation"] < min(bigram, NATS_LIMIT),
        )
    yield (
        "training: one graph, no break, no recompile",
        f"{trained['graphs']} graph, {sum(trained['breaks'].values())} breaks, {trained['recompiles']} recompiles",
        first["graphs"] == trained["graphs"] == 1 and not trained["breaks"] and not trained["recompiles"],
    )
    breaks = sum(compiled["sample_breaks"].values())
    yield (
        "generation: at most 2 graphs over 60 or more lengths",
        f"{compiled['sample_graphs']} graphs, {compiled['sample_lengths']} lengths, {breaks} breaks",
        compiled["sample_graphs"] <= 2 and compiled["sample_lengths"] >= 60 and not compiled["sample_breaks"],
    )
    yield (
        "90% of forward and backward in generated code, no fallback",
        f"{compiled['native_share']:.1%}",
        compiled["native_share"] >= NATIVE_SHARE and not trained["fallbacks"],
    )
    yield (
        "peak memory not above eager's",
        f"{compiled['peak_mb']:.0f} MB against {eager['peak_mb']:.0f} MB",
        compiled["peak_mb"] <= eager["peak_mb"],
    )


def show(eager, compiled, checked, bigram, options):
    print_curves(eager, compiled)
    print(
        f"\n  validation loss     eager {eager['validation']:.4f}   compiled {compiled['validation']:.4f}"
        f"   bigram table {bigram:.4f}"
    )
    print(
        f"  tokens per second   eager {eager['tokens_per_second']:,.0f}   compiled {compiled['tokens_per_second']:,.0f}"
        "   (one run after the other; in turn: examples/gains.py)"
    )
    print(
        f"  compile seconds     {compiled['counters_first']['compile_seconds']:.2f}"
        f" (first step {compiled['first_step_seconds']:.2f})"
    )
    print(f"\n  sampled text:\n{compiled['sample']}\n")
    plot(options.out / "losses.png", eager, compiled, bigram)
    failed = 0
    for claim, seen, holds in claims(eager, compiled, checked, bigram, options):
        failed += not holds
        print(f"  {'ok  ' if holds else 'FAIL'}  {claim}: {seen}")
    kernels = sorted((options.out / "kernels").glob("*/kernels.cpp"))
    print(
        f"\n  Look first at {options.out / 'losses.png'}, then at {kernels[0] if kernels else options.out / 'kernels'}:"
        " every kernel names the lines of examples/gpt.py that it came from."
    )
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=250, help="training steps of each run (default 250)")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("demo-out"), help="folder for plot, kernels and states")
    parser.add_argument("--short", action="store_true", help="make no claim about the validation loss (for runs of few steps)")
    parser.add_argument("--phase", choices=("eager", "compiled", "check"), help="run one phase only (used by the program itself)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda needs --dry-run: no GPU is used yet")
    parser.add_argument("--dry-run", action="store_true", help="write the Triton kernels and PTX of one step; needs no GPU")
    parser.add_argument("--capability", type=int, default=90, help="compute capability that they are for (default 90)")
    options = parser.parse_args()
    if options.device == "cuda" and not options.dry_run:
        parser.error("--device cuda needs --dry-run: kernels are generated and compiled, but not launched on a GPU yet")
    if options.steps < max(CHECKED_STEPS):
        parser.error(f"--steps must be at least {max(CHECKED_STEPS)}: gradients are compared at steps {CHECKED_STEPS}")
    options.out.mkdir(parents=True, exist_ok=True)
    if options.dry_run:
        return dry_run(options)
    if options.phase:
        result = check(options) if options.phase == "check" else train(options, options.phase == "compiled")
        (options.out / f"{options.phase}.json").write_text(json.dumps(result))
        return
    bigram = bigram_loss(*corpus())
    eager, compiled, checked = (phase(name, options) for name in ("eager", "compiled", "check"))
    failed = show(eager, compiled, checked, bigram, options)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

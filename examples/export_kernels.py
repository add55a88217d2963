"""A trained network as a C++ program without Python: its generated kernels, weights in a file, and a `main` around them.

    python examples/export_kernels.py --out export-out

Trains a small classifier of digits, exports the kernels of its forward (any batch size), writes the weights, builds a
program with the C++ compiler and compares what it prints with what the network says.
"""

import pathlib
import subprocess
import tempfile

import common
import flambeau as torch
from flambeau import nn
from flambeau.inductor.tools.export_cpp import export
from flambeau.nn import functional as F
from flambeau.runtime import toolchain

MAIN = """
#include "kernels.cpp"
#include "flambeau_standalone.h"
#include <stdio.h>

// Reads weights and images as float32, classifies `rows` images, prints a label per line.
int main(int count, char** args) {
    const long rows = atol(args[2]);
    const long sizes[] = {%(sizes)s};
    FILE* file = fopen(args[1], "rb");
    void* buffers[%(buffers)d];
    for (int k = 0; k < %(buffers)d; k++) {
        buffers[k] = standalone::alloc(sizes[k] * 4);
        if (k < %(buffers)d - 1 && fread(buffers[k], 4, sizes[k], file) != (size_t)sizes[k]) return 1;
    }
    const long symbols[] = {%(symbols)s};
    long plan[64];
    fb_plan(symbols, plan);
    char* arena = (char*)standalone::alloc(plan[0]);
    const FbRuntime runtime = standalone::runtime();
    if (fb_run(buffers, symbols, nullptr, arena, &runtime)) return 2;
    const float* scores = (const float*)buffers[%(buffers)d - 1];
    for (long row = 0; row < rows; row++) {
        int best = 0;
        for (int k = 1; k < 10; k++) if (scores[row * 10 + k] > scores[row * 10 + best]) best = k;
        printf("%%d %%.5f\\n", best, scores[row * 10 + best]);
    }
}
"""


class Classifier(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.first, self.second = nn.Linear(64, width), nn.Linear(width, 10)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return torch.softmax(self.second(self.norm(F.gelu(self.first(x)))), dim=-1)


def train(model, images, labels, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for x, y in common.batches((images, labels), 64, steps):
        loss = F.nll_loss(model(x).log(), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def build(model, images, folder):
    """The program: kernels, weights and images in one file in the order of the buffers, and a main."""
    exported = export(model, images, folder=folder, dynamic=True)
    weights = {"self_" + name.replace(".", "_"): p.detach() for name, p in model.named_parameters()}
    values = {name: weights.get(name, images) for name, kind, _ in exported.buffers if kind == "input"}
    given = list(values.values())
    (folder / "inputs.bin").write_bytes(b"".join(t.numpy().tobytes() for t in given))
    sizes = [str(t.numel()) for t in given] + [str(10 * len(images))]
    (folder / "main.cpp").write_text(
        MAIN % {"sizes": ", ".join(sizes), "buffers": len(sizes), "symbols": ", ".join(symbols(exported, values))}
    )
    command = [
        toolchain.compiler(),
        "-O2",
        "-w",
        "-std=c++17",
        *toolchain.ISA_FLAGS[toolchain.isa()],
        str(folder / "main.cpp"),
        "-o",
        str(folder / "classify"),
    ]
    subprocess.run(command, check=True)
    return exported


def symbols(exported, values):
    """The value of each symbol, read where it stands alone among an input's sizes."""
    for symbol in exported.symbols:
        for name, kind, what in exported.buffers:
            sizes = what.partition("[")[2].partition("]")[0].split(", ")
            if kind == "input" and symbol in sizes:
                yield str(values[name].shape[sizes.index(symbol)])
                break


def main(arguments=None):
    options = common.options(__doc__, arguments, steps=300, out=("", "folder of the program (default: a temporary one)"))
    torch.manual_seed(10)
    (x, y), (images, labels) = common.digits()
    model = Classifier()
    train(model, x.flatten(1), y, options.steps)
    images = images.flatten(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.out or temporary)
        exported = build(model, images, folder)
        told = subprocess.run(
            [str(folder / "classify"), str(folder / "inputs.bin"), str(len(images))], check=True, capture_output=True, text=True
        ).stdout.split()
        linked = subprocess.run(["ldd", str(folder / "classify")], capture_output=True, text=True).stdout
    with torch.no_grad():
        wanted = model(images)
    found = torch.tensor([int(v) for v in told[::2]])
    apart = (torch.tensor([float(v) for v in told[1::2]]) - wanted.amax(1)).abs().max().item()
    agree = (found == wanted.argmax(1)).float().mean().item()
    for name, kind, what in exported.buffers:
        print(f"  {kind:6} {name}: {what}")
    claims = [
        (
            "the program says what the network says",
            f"{agree:.1%} of labels, probabilities within {apart:.1e}",
            agree > 0.995 and apart < 1e-4,
        ),
        ("it needs no Python", f"{len(linked.splitlines())} system libraries", "python" not in linked),
    ]
    if not options.short:
        right = (found == labels).float().mean().item()
        claims.append(("90% of 360 held-out digits are right", f"{right:.1%}", right >= 0.9))
    return common.check(claims)


if __name__ == "__main__":
    main()

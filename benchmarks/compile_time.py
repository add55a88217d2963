"""How compile time grows with depth: GPTs of 6, 12, 24 and 48 layers, forward and backward, from an empty store.

    python benchmarks/compile_time.py [--layers 6,12,24,48] [--rounds 3] [--write]

Processor seconds, so that a busy machine tells the same: of this library (capture, passes, code generation) and of the
C++ compiler; and of a second process that finds the graph in the store. `--write` renews the table in
benchmarks/README.md and the plot benchmarks/compile_time.svg.
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
BEGIN, END = "<!-- compile time: make bench -->", "<!-- end of compile time -->"
SERIES = (
    ("passes", "capture, passes and code generation", "#2b6cb0"),
    ("compiler", "C++ compiler", "#c05621"),
    ("warm", "a second process, all of it", "#2f855a"),
)


def worker(layers):
    """Compile and run one training step; prints processor seconds."""
    import flambeau as torch
    from networks import gpt
    from registry import Inputs

    model = gpt(torch, Inputs(torch), vocabulary=256, width=64, heads=4, layers=layers, context=128)
    x, y = Inputs(torch).integers(256, 2, 16), Inputs(torch).integers(256, 2, 16)
    compiled = torch.compile(model)

    def step():
        before = time.process_time()
        compiled(x, y).backward()
        return time.process_time() - before

    first, second = step(), step()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps({"own": first - second, "compiler": children.ru_utime + children.ru_stime}))


def measure(layers):
    """(own seconds, compiler's seconds, own seconds of a second process)"""
    cache = tempfile.mkdtemp(prefix="flambeau-bench-")
    try:
        runs = []
        for _ in range(2):
            environment = dict(os.environ, FLAMBEAU_CACHE_DIR=f"{cache}/store", FLAMBEAU_SLOW_COMPILE_SECONDS="1000")
            done = subprocess.run(
                [sys.executable, __file__, "--worker", str(layers)],
                env=environment,
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            runs.append(json.loads(done.stdout.splitlines()[-1]))
        return runs[0]["own"], runs[0]["compiler"], runs[1]["own"]
    finally:
        shutil.rmtree(cache, ignore_errors=True)


def table(found):
    lines = [
        "| layers | capture, passes, code generation: s | per layer: ms | C++ compiler: s | a second process: s |",
        "|---|---|---|---|---|",
    ]
    for layers, (own, compiler, warm) in found.items():
        lines.append(f"| {layers} | {own:.2f} | {1000 * own / layers:.0f} | {compiler:.2f} | {warm:.2f} |")
    return "\n".join(lines)


def plot(found):
    """The three series over layers, as SVG text."""
    wide, high, left, low = 560, 320, 50, 40
    top = max(max(values) for values in found.values()) * 1.08
    deepest = max(found)
    x = lambda n: left + n / deepest * (wide - left - 20)
    y = lambda s: high - low - s / top * (high - low - 20)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" font-family="sans-serif" font-size="11">',
        f'<rect width="{wide}" height="{high}" fill="white"/>',
        f'<path d="M{left} 20V{high - low}H{wide - 20}" fill="none" stroke="#444"/>',
    ]
    for n in found:
        parts.append(f'<text x="{x(n):.0f}" y="{high - low + 16}" text-anchor="middle">{n}</text>')
    for k in range(1, 5):
        parts.append(f'<text x="{left - 6}" y="{y(top * k / 4) + 4:.0f}" text-anchor="end">{top * k / 4:.1f}</text>')
    parts.append(f'<text x="{wide / 2}" y="{high - 6}" text-anchor="middle">layers; processor seconds upwards</text>')
    for number, (_, label, colour) in enumerate(SERIES):
        points = [(x(n), y(values[number])) for n, values in found.items()]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline fill="none" stroke-width="2" stroke="{colour}" points="{line}"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in points]
        parts.append(f'<text x="{left + 12}" y="{32 + 16 * number}" fill="{colour}">{label}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def write(text, found):
    (HERE / "compile_time.svg").write_text(plot(found))
    readme = HERE / "README.md"
    before, _, rest = readme.read_text().partition(BEGIN)
    readme.write_text(before + BEGIN + "\n" + text + "\n" + END + rest.partition(END)[2])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", default="6,12,24,48")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--write", action="store_true", help="renew the table in benchmarks/README.md and the plot")
    options = parser.parse_args()
    if options.worker:
        return worker(options.worker)
    depths = [int(n) for n in options.layers.split(",")]
    rounds = [{n: measure(n) for n in depths} for _ in range(options.rounds)]
    found = {n: tuple(statistics.median(r[n][k] for r in rounds) for k in range(3)) for n in depths}
    text = table(found)
    print(text)
    if options.write:
        write(text, found)


if __name__ == "__main__":
    main()

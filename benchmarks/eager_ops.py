"""Every op eagerly against PyTorch, one thread each: two processes that take turns, processor time, medians.

    python benchmarks/eager_ops.py [--peer-python PYTHON] [--sizes 100,100000,10000000] [--only REGEX] [--out FILE] [--write]

The rows are those of eager_calls.py, forward and, where something asks for gradients, forward and backward. What is measured
is kept in FILE (JSON, results/eager_ops.json) at once: the same command goes on where it was stopped; `--again` measures anew.
Without torch in `--peer-python` only our times are there. `--write` renews the table in benchmarks/README.md.
"""

import argparse
import json
import math
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
BEGIN, END = "<!-- table: eager_ops -->", "<!-- end of eager_ops -->"
SIZES = (100, 100_000, 10_000_000)
ROUNDS = 5
ENOUGH = 1.5  # seconds of a row after which three rounds will do, and one where a call takes many times as long


# -- one process: asked line by line, answers line by line


def serve(library):
    """Times calls of a library: reads `[expression, inputs, type, size, backward]` or `["time"]`, answers in JSON."""
    if library == "flambeau":
        import flambeau

        flambeau.alias_torch()
    import torch

    torch.set_num_threads(1)
    answers, sys.stdout = sys.stdout, sys.stderr
    current = None
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if asked == ["time"]:
                told = timed(*current)
            else:
                current = None
                step, told = prepared(torch, *asked)
                current = step, loops(step)
        except Exception as error:
            told = {"error": f"{type(error).__name__}: {error}"[:200]}
        print(json.dumps(told), file=answers, flush=True)


def prepared(torch, expression, inputs, kind, size, backward):
    """(what is timed, {"sum": of the result, "tracked": whether it asks for gradients})."""
    from eager_calls import Inputs

    space = dict(made := Inputs(torch, size, kind))
    if "V." in expression:
        space.update(made.vision())
    torch.manual_seed(0)
    if inputs.startswith("["):
        exec(inputs, space)
    else:
        space.update(eval(f"dict({inputs})", space))
    call = eval(f"lambda: {expression}", space)
    first = first_tensor(torch, call())
    tracked = first is not None and first.requires_grad
    total = None if first is None or not first.numel() else fingerprint(torch, first)
    if not backward or not tracked:

        def step():
            with torch.no_grad():
                return call()

        return step, {"sum": total, "tracked": tracked}
    seed = torch.ones_like(first)

    def both():
        first_tensor(torch, call()).backward(seed)

    return both, {"sum": total, "tracked": True}


def first_tensor(torch, found):
    if isinstance(found, torch.Tensor):
        return found
    parts = found if isinstance(found, tuple | list) else ()
    return next((t for t in (first_tensor(torch, x) for x in parts) if t is not None), None)


def fingerprint(torch, x):
    x = torch.view_as_real(x.detach()) if x.is_complex() else x.detach()
    return [list(x.shape), float(torch.nan_to_num(x.double(), 0.0, 0.0, 0.0).abs().mean())]


def loops(step, least=0.002, long=0.05):
    """How often a step is called between two looks at the clock."""
    begin = time.process_time()
    step()
    if time.process_time() - begin > long:
        return 1
    count = 1
    while True:
        begin = time.process_time()
        for _ in range(count):
            step()
        spent = time.process_time() - begin
        if spent > least:
            return max(1, int(count * least / spent)) if count == 1 else count
        count *= 2 if spent < 1e-5 else max(2, min(50, int(least / max(spent, 1e-6))))


def timed(step, count):
    begin = time.process_time()
    for _ in range(count):
        step()
    return {"seconds": (time.process_time() - begin) / count}


# -- the one that asks


class Worker:
    """A process with one library."""

    def __init__(self, python, library):
        self.command = [python, str(HERE / "eager_ops.py"), "--serve", library]
        self.process = None

    def ask(self, what):
        if self.process is None or self.process.poll() is not None:
            threads = dict.fromkeys(("OMP_NUM_THREADS", "FLAMBEAU_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, **threads},
                stderr=subprocess.DEVNULL,
            )
        try:
            self.process.stdin.write(json.dumps(what) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        return json.loads(line) if line else {"error": "the process ended"}

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait(60)


def measure(workers, asked):
    """{library: seconds or error} and whether the results agree; the libraries take turns."""
    asked_at = time.monotonic()
    told = {name: worker.ask(asked) for name, worker in workers.items()}
    slow = time.monotonic() - asked_at > 20 * ENOUGH
    found = {name: {"error": one["error"]} for name, one in told.items() if "error" in one}
    times = {name: [] for name in told if name not in found}
    begin = time.monotonic()
    for turn in range(ROUNDS):
        for name in list(times):
            answer = workers[name].ask(["time"])
            if "error" in answer:
                found[name] = {"error": answer["error"]}
                del times[name]
            else:
                times[name].append(answer["seconds"])
        if slow or time.monotonic() - begin > ENOUGH and turn > 1:
            break
    found.update({name: {"seconds": statistics.median(all_)} for name, all_ in times.items()})
    prints = [one.get("sum") for one in told.values() if one.get("sum")]
    found["tracked"] = any(one.get("tracked") for one in told.values())
    found["agree"] = all(a[0] == b[0] for a in prints for b in prints)
    found["means"] = [p[1] for p in prints]
    return found


def jobs(options):
    from eager_calls import rows

    for group, expression, inputs, kinds in rows():
        for kind in kinds:
            for size in options.sizes:
                for backward in (False, True):
                    if options.only and not re.search(options.only, f"{group} {expression} {kind} {size}"):
                        continue
                    yield group, expression, inputs, kind, size, backward


def run(options, workers):
    """Measures what is not in the file yet; the file is written after each row."""
    out = pathlib.Path(options.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    results = json.loads(out.read_text()) if out.exists() else {}
    todo = list(jobs(options))
    for number, (group, expression, inputs, kind, size, backward) in enumerate(todo):
        key = " | ".join((group, expression, inputs, kind, str(size), "backward" if backward else "forward"))
        forward = results.get(key.replace("backward", "forward"))
        known = key in results and not options.again and "error" not in str(results[key])
        if known or (backward and not (forward or {}).get("tracked")):
            continue
        results[key] = found = measure(workers, [expression, inputs, kind, size, backward])
        out.write_text(json.dumps(results, indent=0))
        print(f"[{number + 1}/{len(todo)}] {told(found)}  {key}", flush=True)
    return results


def ratio(found):
    ours, theirs = (found.get(name, {}).get("seconds") for name in ("flambeau", "torch"))
    return ours / theirs if ours and theirs else None


def told(found):
    if ratio(found) is None:
        return " ".join(f"{name}: {one.get('error') or one['seconds']}" for name, one in found.items() if isinstance(one, dict))
    return f"{ratio(found):6.2f}  {found['flambeau']['seconds'] * 1e6:11.2f} µs" + ("" if found["agree"] else "  SHAPES DIFFER")


def bound(key):
    return 1.5 if int(key.split(" | ")[4]) < 1000 else 2.0


def table(results):
    """Geometric means, counts above the bounds per group and size, and the rows above them."""
    known = {key: ratio(found) for key, found in results.items() if ratio(found)}
    sizes = sorted({int(key.split(" | ")[4]) for key in known})
    lines = [
        "| group | " + " | ".join(f"{size:,}: mean, above bound, of" for size in sizes) + " |",
        "|---" * (len(sizes) + 1) + "|",
    ]
    for group in [*dict.fromkeys(key.split(" | ")[0] for key in known), "all"]:
        cells = []
        for size in sizes:
            mine = {k: r for k, r in known.items() if group in ("all", k.split(" | ")[0]) and int(k.split(" | ")[4]) == size}
            above = sum(r > bound(k) for k, r in mine.items())
            cells.append(f"{geometric(mine.values()):.2f}, {above}, {len(mine)}" if mine else "–")
        lines.append(f"| {group} | " + " | ".join(cells) + " |")
    if known:
        above = sum(r > bound(k) for k, r in known.items())
        mean = geometric(known.values())
        lines += [
            "",
            f"All {len(known)} rows: geometric mean of our time over PyTorch's {mean:.2f}; {above} "
            "above the bounds (2 at 100,000 elements and more, 1.5 at 100).",
        ]
    return lines, sorted(((r / bound(k), r, k) for k, r in known.items() if r > bound(k)), reverse=True)


def geometric(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values))


def row(group, expression, inputs, kind, size, what, ratio):
    return f"| `{expression}` | `{inputs}` | {kind} | {int(size):,} | {what} | {ratio:.2f} |"


def shown(results, most):
    lines, above = table(results)
    rows = [row(*k.split(" | "), r) for _, r, k in above[:most]]
    if rows:
        lines += ["", "| above its bound | inputs | type | elements | what | our time / PyTorch's |", "|---" * 6 + "|", *rows]
    return "\n".join(lines)


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--peer-python", default=sys.executable, help="an interpreter that has torch (default: this one; '': none)"
    )
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--only", help="a regular expression over `group expression type size`")
    parser.add_argument("--out", default=str(HERE / "results" / "eager_ops.json"))
    parser.add_argument("--again", action="store_true", help="measure rows that are in the file")
    parser.add_argument("--write", action="store_true", help="renew the table in benchmarks/README.md")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.sizes = [int(float(n)) for n in options.sizes.split(",")]
    return options


def main():
    options = parsed()
    if options.serve:
        return serve(options.serve)
    workers = {"flambeau": Worker(sys.executable, "flambeau")}
    if options.peer_python and shutil.which(options.peer_python) is None:
        sys.exit(f"--peer-python {options.peer_python}: there is no such program")
    if options.peer_python and subprocess.run([options.peer_python, "-c", "import torch"], capture_output=True).returncode == 0:
        workers["torch"] = Worker(options.peer_python, "torch")
    try:
        results = run(options, workers)
    finally:
        for worker in workers.values():
            worker.close()
    text = shown(results, 1000)
    print(text)
    if options.write:
        readme = HERE / "README.md"
        before, _, rest = readme.read_text().partition(BEGIN)
        readme.write_text(before + BEGIN + "\n" + text + "\n" + END + rest.partition(END)[2])


if __name__ == "__main__":
    main()

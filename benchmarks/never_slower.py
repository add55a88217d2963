"""No compiled step slower than the eager one: programs eager and compiled, in turn in one process, on one thread.

    python benchmarks/never_slower.py [--kinds ops,examples,models,programs] [--sizes small,middle,large] [--names a,b]
        [--programs FOLDER] [--out results.json] [--bound 1.05] [--again] [--write]

What runs: every op record and composite on its samples, scaled to three sizes, forward and with gradients; every program of
examples/; the models of torchvision, where it is installed; the scripts of FOLDER. A row is the median of processor times
of a compiled step over that of an eager step, after warm-up; one above 1 is measured a second time, longer, and that counts.
Rows already in the file are not measured again without `--again`. `--write` renews the table in benchmarks/README.md: rows
above the bound, counts, geometric means.
"""

import argparse
import contextlib
import gc
import json
import math
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import time

os.environ["FLAMBEAU_THREADS"] = "1"

import programs  # noqa: E402
import records  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
BEGIN, END = "<!-- table: never slower -->", "<!-- end of never slower -->"
KINDS = ("ops", "examples", "models", "programs")
ROUNDS, SLICE, WARM = 9, 0.004, 3
SLOW = 0.1  # seconds of a step that needs fewer rounds
MEMORY = 4 << 30  # bytes of address space that the rows of records have beside what the process starts with


def measured(eager, compiled, rounds=ROUNDS):
    """Medians of processor seconds of a call of each, in turn."""
    steps = (eager, compiled)
    for step in steps:
        step()
        if timed(step, 1) < SLOW:
            timed(step, WARM - 2)
    each = [max(timed(step, 2), 1e-7) for step in steps]
    found = alternately(steps, [max(1, int(SLICE / t)) for t in each], rounds if max(each) < SLOW else rounds // 2 + 1)
    if found[0] < found[1] and max(each) < SLOW:
        found = alternately(steps, [max(1, int(2 * SLICE / t)) for t in each], 2 * rounds + 1)
    return found


def alternately(steps, counts, rounds):
    found = [[], []]
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for times, step, count in zip(found, steps, counts):
                times.append(timed(step, count))
    finally:
        gc.enable()
    return tuple(map(statistics.median, found))


def timed(step, count):
    start = time.process_time()
    for _ in range(count):
        step()
    return (time.process_time() - start) / count


def row(case):
    """A case as plain data; one that does not run tells why."""
    start = time.perf_counter()
    try:
        eager, compiled = measured(*case.steps(), case.rounds)
    except Exception as e:
        return {"kind": case.kind, "failed": f"{type(e).__name__}: {str(e)[:200]}"}
    return {
        "kind": case.kind,
        "eager": eager,
        "compiled": compiled,
        "ratio": compiled / eager,
        "took": round(time.perf_counter() - start, 2),
    }


def cases(options):
    """All that the options ask for, by name."""
    for kind in options.kinds:
        if kind == "ops":
            yield from records.cases(options.sizes)
        else:
            yield from programs.cases(kind, options.programs)


def chosen(options):
    return [case for case in cases(options) if not options.names or any(name in case.name for name in options.names)]


def isolated(case, options):
    """The row of a whole program, in a process of its own: what it leaves behind is nobody else's."""
    command = [
        sys.executable,
        str(HERE / "never_slower.py"),
        "--kinds",
        case.kind,
        "--one",
        case.name,
        "--rounds",
        str(options.rounds),
    ]
    if options.programs:
        command += ["--programs", str(options.programs)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout, preexec_fn=unbounded)
    except subprocess.TimeoutExpired:
        return {"kind": case.kind, "failed": f"took more than {options.timeout} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines or not lines[-1].startswith("{"):
        return {"kind": case.kind, "failed": (done.stderr.strip().splitlines() or ["nothing was told"])[-1][:200]}
    return json.loads(lines[-1])


def run(options):
    """Measure what is missing; the file is whole after each row."""
    done = json.loads(options.out.read_text()) if options.out.exists() else {}
    waiting = [case for case in chosen(options) if options.again or case.name not in done]
    for number, case in enumerate(waiting, 1):
        done[case.name] = row(case) if case.kind == "ops" else isolated(case, options)
        told = done[case.name]
        text = told.get("failed") or f"{told['ratio']:.2f}  {told['eager'] * 1e6:.1f} {told['compiled'] * 1e6:.1f} us"
        print(f"{number}/{len(waiting)} {case.name}: {text}", flush=True)
        write(options.out, done)
    return done


def bounded():
    """What a too large sample asks for is a MemoryError, and a smaller one is tried."""
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, resource.RLIM_INFINITY))


def unbounded():
    """A whole program has the machine's memory: the bound is for samples of records."""
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def write(path, done):
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(done, indent=0, sort_keys=True))
    beside.replace(path)


# -- the table


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def summary(done):
    """A line for each group: kind, and of records their size and direction."""
    groups = {}
    for name, told in done.items():
        group = told["kind"] + (" " + " ".join(name.split()[2:]) if told["kind"] == "ops" else "")
        groups.setdefault(group, []).append(told)
    return groups


def table(done, bound):
    """Markdown: counts and means, then the rows above the bound, the worst first."""
    lines = ["| what | rows | geometric mean | above " + f"{bound:.2f} | not run |", "|---|---|---|---|---|"]
    for group, rows in sorted(summary(done).items()):
        ratios = [told["ratio"] for told in rows if "ratio" in told]
        middle = f"{mean(ratios):.2f}" if ratios else "–"
        lines.append(f"| {group} | {len(ratios)} | {middle} | {sum(r > bound for r in ratios)} | {len(rows) - len(ratios)} |")
    above = sorted(((told["ratio"], name, told) for name, told in done.items() if told.get("ratio", 0) > bound), reverse=True)
    if above:
        lines += ["", "| compiled / eager | program | eager µs | compiled µs |", "|---|---|---|---|"]
        lines += [
            f"| {ratio:.2f} | `{name}` | {told['eager'] * 1e6:.1f} | {told['compiled'] * 1e6:.1f} |"
            for ratio, name, told in above
        ]
    return "\n".join(lines)


def renewed(text):
    readme = HERE / "README.md"
    found = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    readme.write_text(found.sub(lambda _: f"{BEGIN}\n{text}\n{END}", readme.read_text()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(KINDS))
    parser.add_argument("--sizes", type=lambda text: text.split(","), default=list(records.SIZES))
    parser.add_argument("--names", type=lambda text: text.split(","), help="parts of names (default: all)")
    parser.add_argument("--programs", type=pathlib.Path, help="a folder of scripts, each of which trains or runs something")
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "results" / "never_slower.json")
    parser.add_argument("--bound", type=float, default=1.05)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of whole programs")
    parser.add_argument("--timeout", type=float, default=600, help="seconds of a whole program")
    parser.add_argument("--again", action="store_true", help="measure rows that the file has, too")
    parser.add_argument("--write", action="store_true", help="renew the table in benchmarks/README.md")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := {*options.kinds} - {*KINDS} | {*options.sizes} - {*records.SIZES}:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; kinds are {', '.join(KINDS)}, sizes {', '.join(records.SIZES)}")
    if options.one:
        case = next(case for case in cases(options) if case.name == options.one)
        with contextlib.redirect_stdout(sys.stderr):
            told = row(case._replace(rounds=options.rounds))
        print(json.dumps(told))
        return
    options.out.parent.mkdir(parents=True, exist_ok=True)
    if "ops" in options.kinds:
        bounded()
    text = table(run(options), options.bound)
    print(text)
    if options.write:
        renewed(text)


if __name__ == "__main__":
    main()

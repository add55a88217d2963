"""Test suites of packages that were written for PyTorch, run on PyTorch and here: python -m tests.suites CHECKOUT [PATH ...]

In: the checkout of a package (nothing is fetched), paths of tests inside it, and a Python that has PyTorch (`--against`). Each side
runs the same tests in processes of its own, `torch` being flambeau on one of them. Out: how many tests pass on PyTorch, how many
of these pass here, and those that do not, by the last line of their error. A test that fails on PyTorch does not count.

    python -m tests.suites ~/linear_operator test --against .venv-oracle/bin/python --sample 500

The package and what it needs beside torch must be importable: `--path` puts folders before others.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PASSED = "passed"


def run(python, options, alias):
    """{test: (outcome, last line of the error)} of one side; what pytest printed last where it could not even collect."""
    with tempfile.TemporaryDirectory() as folder:
        told = pathlib.Path(folder) / "told"
        env = dict(os.environ, SUITE_TOLD=str(told), SUITE_ALIAS="1" if alias else "", SUITE_SAMPLE=str(options.sample))
        env["SUITE_SEED"] = str(options.seed)
        env["PYTHONPATH"] = os.pathsep.join([str(HERE), *options.path, str(options.checkout)])
        env.update(OMP_NUM_THREADS="1", FLAMBEAU_THREADS="1")
        command = [python, "-m", "pytest", "-p", "outcomes", "-q", "--no-header", "-p", "no:cacheprovider", *options.paths]
        command += ["-n", str(options.jobs)] if options.jobs > 1 else []
        command += ["-o", "addopts=", "--continue-on-collection-errors", *options.pytest]
        done = subprocess.run(command, cwd=options.checkout, env=env, capture_output=True, text=True)
        lines = told.read_text().splitlines() if told.exists() else []
    found = {}
    for test, outcome, error in map(json.loads, lines):
        if test not in found or outcome != PASSED:
            found[test] = outcome, error
    return found, done.stdout.strip().splitlines()[-3:]


def compared(theirs, ours):
    """(tests that pass on PyTorch, {error here: tests})."""
    base = [test for test, (outcome, _) in theirs.items() if outcome == PASSED]
    lost = collections.defaultdict(list)
    for test in base:
        outcome, error = ours.get(test, ("not collected", "not collected"))
        if outcome != PASSED:
            lost[error or outcome].append(test)
    return base, lost


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.suites", description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("paths", nargs="*", help="tests inside the checkout")
    parser.add_argument("--against", required=True, help="a Python that has PyTorch, and the package's other needs")
    parser.add_argument("--python", default=sys.executable, help="a Python that has flambeau and them")
    parser.add_argument("--path", action="append", default=[], help="a folder to import from")
    parser.add_argument("--sample", type=int, default=0, help="so many tests, drawn by --seed; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--pytest", action="append", default=[], help="an option for pytest: --pytest=-k --pytest=name")
    options = parser.parse_args()
    options.checkout = options.checkout.resolve()
    options.against, options.python = map(os.path.abspath, (options.against, options.python))  # (a link means an environment)
    theirs, their_end = run(options.against, options, alias=False)
    ours, our_end = run(options.python, options, alias=True)
    base, lost = compared(theirs, ours)
    missing = sum(map(len, lost.values()))
    for error, tests in sorted(lost.items(), key=lambda pair: -len(pair[1])):
        print(f"{len(tests):5}  {error[:160]}\n       {tests[0]}")
    if not base:
        print("nothing passes on PyTorch:", *their_end, sep="\n  ")
    share = f"{100 * (len(base) - missing) / len(base):.1f}%" if base else "-"
    print(f"PyTorch: {' '.join(their_end[-1:])}\nhere:    {' '.join(our_end[-1:])}")
    print(f"{options.checkout.name}: {len(base)} pass on PyTorch, {len(base) - missing} of them here ({share})")
    return int(missing > 0.02 * len(base) or not base)


if __name__ == "__main__":
    sys.exit(main())

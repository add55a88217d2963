"""The command line: one parser, one sub-parser per command module.

A command module has HELP (one line), EXAMPLES, `add(parser)` for its arguments, and `run(options) -> Answer`.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import textwrap

from . import bench, bisect, cache, doctor, explain, ops, report, run, show, torch
from .result import FAILED, INTERRUPTED, STATUSES, WRONG, ScriptFailed, Wrong

COMMANDS = {
    "run": run,
    "torch": torch,
    "explain": explain,
    "report": report,
    "show": show,
    "ops": ops,
    "cache": cache,
    "bench": bench,
    "doctor": doctor,
    "bisect": bisect,
}
PROGRAM = "python -m flambeau"


def statuses() -> str:
    return "exit status:\n" + "\n".join(f"  {number}  {meaning}" for number, meaning in STATUSES.items())


def version() -> str:
    import flambeau

    return flambeau.__version__


def parser() -> argparse.ArgumentParser:
    """All commands; `--help` of each ends with examples."""
    made = argparse.ArgumentParser(
        prog=PROGRAM,
        description="What the compiler did with a program, and what this installation can do.",
        epilog=f"`{PROGRAM} COMMAND --help` has examples.\n\n{statuses()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--version", action="version", version=f"flambeau {version()}")
    commands = made.add_subparsers(dest="command", metavar="COMMAND")
    for name, module in COMMANDS.items():
        examples = textwrap.indent(textwrap.dedent(module.EXAMPLES).strip(), "  ")
        one = commands.add_parser(
            name,
            help=module.HELP,
            description=module.__doc__,
            prog=f"{PROGRAM} {name}",
            epilog=f"examples:\n{examples}\n\n{statuses()}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        one.add_argument("--json", action="store_true", help="print one JSON value instead of text")
        module.add(one)
    return made


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """The options; `rest`: what a command that passes it on does not know. Arguments behind an option count as well where
    a command takes any number (`more`)."""
    made = parser()
    options, rest = made.parse_known_args(arguments)
    if (more := getattr(options, "more", None)) and not any(one.startswith("-") for one in rest):
        setattr(options, more, getattr(options, more) + rest)
        rest = []
    if rest and not getattr(options, "takes_rest", False):
        made.error(f"unrecognized arguments: {' '.join(rest)}")
    options.rest = rest
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit status."""
    options = parsed(arguments)
    if options.command is None:
        parser().print_help()
        return 0
    try:
        with contextlib.redirect_stdout(sys.stderr) if options.json else contextlib.nullcontext():
            found = COMMANDS[options.command].run(options)  # what a program prints is no part of the JSON
        return found.show(options.json)
    except Wrong as problem:
        print(f"{PROGRAM} {options.command}: {problem}", file=sys.stderr)
        return WRONG
    except ScriptFailed as problem:
        print(f"{PROGRAM} {options.command}: {problem}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print(f"{PROGRAM} {options.command}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `| head` has seen enough
        sys.stdout = None
        return 0

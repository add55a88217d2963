"""`python -m flambeau`: what this installation can do, and what an op is.

    python -m flambeau doctor         versions, compiler, instruction set, threads, cache folder; what is missing
    python -m flambeau ops [NAME]     all op records, or everything that one record says
"""

import argparse
import platform
import sys

from . import __version__
from .eager.op import OPS, Kind
from .runtime import artefacts, native, toolchain


_CALL = "a call of eager's kernel"
COMPILED_BY = {Kind.COMPOSITE: "its decomposition", Kind.EXTERN: _CALL, Kind.SCAN: _CALL}


def doctor() -> int:
    """Print what is there; exit status 1 when compiled code cannot be built."""
    compiler = toolchain.compiler()
    print(f"flambeau      {__version__} on Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    print(f"C++ compiler  {compiler or 'none: install g++; until then compiled graphs run in the loop interpreter, slowly'}")
    print(f"instructions  {toolchain.isa()} (kernels of the runtime: {native.chosen_instructions()})")
    print(f"threads       {native.get_num_threads()}")
    print(f"cache         {artefacts.folder()}")
    return 0 if compiler else 1


def ops(name: str | None) -> int:
    """List the records, or show one with all its facets."""
    if name is None:
        for op in sorted(OPS.values(), key=lambda op: (op.kind.value, op.name)):
            print(f"{op.kind.value:10} {op.name}({', '.join(p.name for p in op.params)})")
        return 0
    if name not in OPS:
        print(f"there is no op {name!r}; `python -m flambeau ops` lists all", file=sys.stderr)
        return 2
    op = OPS[name]
    print(f"{op.name}: {op.kind.value}. {op.doc}".strip())
    print("parameters   ", ", ".join(f"{p.name} ({p.role})" for p in op.params))
    print("outputs      ", ", ".join(o.name + (" (hidden)" if o.hidden else "") for o in op.outputs))
    print("promotion    ", op.promote if isinstance(op.promote, str) else "a rule of its own")
    print("gradients for", ", ".join(op.grads) or "nothing")
    print("eager kernels", ", ".join(op.kernels) or "derived from the kind")
    print("compiled by  ", f"the {op.template} template" if op.template else COMPILED_BY.get(op.kind, "its loop"))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m flambeau", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("doctor", help="versions, compiler, instruction set, threads, cache")
    commands.add_parser("ops", help="the op records").add_argument("name", nargs="?", help="one record")
    options = parser.parse_args()
    return doctor() if options.command == "doctor" else ops(options.name)


if __name__ == "__main__":
    sys.exit(main())

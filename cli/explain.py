"""Calls one function of a file once, compiled, and tells graphs, breaks with reason, line and fix, and guards.

The file is loaded under its own name (what stands under `if __name__ == "__main__"` is not run). FUNCTION may be dotted, and
may be a module object. ARGUMENTS are Python expressions over the file's names and `torch` (flambeau); without any, the
file's `example_inputs` (a tuple, or a function that gives one) are used, or none if the function needs none.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

from . import run_program
from .result import DONE, FOUND, Answer, ScriptFailed, Wrong

HELP = "graphs, breaks with reason, line and fix, and guards of one function"
EXAMPLES = """
    python -m flambeau explain model.py:step "torch.randn(8, 16)"
    python -m flambeau explain model.py:model.encoder "torch.randn(8, 16)" --backend eager
    python -m flambeau explain train.py:loss                 # the file imports torch; its example_inputs are used
"""


def add(parser: Any) -> None:
    parser.add_argument("place", metavar="FILE:FUNCTION")
    parser.add_argument("arguments", nargs="*", metavar="ARGUMENT", help="a Python expression")
    parser.set_defaults(more="arguments")
    parser.add_argument("--backend", default=None, help="inductor (default), eager, aot_eager, loops, or a registered one")
    run_program.add_torch(parser)


def run(options: Any) -> Answer:
    path, _, name = options.place.rpartition(":")
    if not path:
        raise Wrong(f"{options.place!r} is not FILE:FUNCTION")
    run_program.alias(options.torch)
    names = run_program.load(path)
    check_backend(options.backend)  # behind the file, which may register one
    function = find_object(names, path, name)
    return explained(function, inputs_of(names, function, options.arguments), options.backend)


def check_backend(name: str | None) -> None:
    from ..capture.frontend import backends

    try:
        backends.lookup(name or "inductor")
    except ValueError as error:
        raise Wrong(str(error)) from None


def find_object(names: dict[str, Any], path: str, name: str) -> Callable:
    """The object at a dotted name."""
    first, *rest = name.split(".")
    if first not in names:
        raise Wrong(f"{path} defines no {first!r}; it defines: {', '.join(own_functions(names)) or 'no function'}")
    value = names[first]
    for part in rest:
        if not hasattr(value, part):
            raise Wrong(f"{type(value).__name__} {name.rpartition('.')[0]} has no {part!r}")
        value = getattr(value, part)
    if isinstance(value, type) or not callable(value):
        kind = f"the class {name}: name an instance of it" if isinstance(value, type) else facts_of_explanation(value)
        raise Wrong(f"{name} is no function or nn.Module but {kind}")
    return value


def facts_of_explanation(value: Any) -> str:
    return "an imported Python module" if inspect.ismodule(value) else f"a value of type {type(value).__name__}"


def own_functions(names: dict[str, Any]) -> list[str]:
    return [
        name
        for name, value in names.items()
        if callable(value) and not name.startswith("_") and getattr(value, "__module__", None) == names.get("__name__")
    ]


def inputs_of(names: dict[str, Any], function: Callable, texts: list[str]) -> tuple:
    """The values of the expressions, else the file's `example_inputs`."""
    import flambeau

    if texts:
        return tuple(value_of(text, {"torch": flambeau, "flambeau": flambeau, **names}) for text in texts)
    if "example_inputs" in names:
        given = names["example_inputs"]
        given = given() if callable(given) else given
        return tuple(given) if isinstance(given, (tuple, list)) else (given,)
    needed = required(function)
    if needed:
        raise Wrong(f"it needs {', '.join(needed)}: give expressions behind FILE:FUNCTION, or define example_inputs in the file")
    return ()


def value_of(text: str, names: dict[str, Any]) -> Any:
    try:
        return eval(text, dict(names))
    except Exception as error:
        raise Wrong(f"the argument {text!r} raises {type(error).__name__}: {error}") from None


def required(function: Callable) -> list[str]:
    called = getattr(function, "forward", function)
    try:
        parameters = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def explained(function: Callable, inputs: tuple, backend: str | None) -> Answer:
    from ..capture.frontend.explain import explain

    try:
        told = explain(function, backend=backend)(*inputs)
    except Exception as error:
        run_program.print_error(error)
        raise ScriptFailed(f"the call raised {type(error).__name__}") from error
    facts = {f.name: getattr(told, f.name) for f in dataclasses.fields(told) if f.name != "result"}
    facts["breaks"] = [dataclasses.asdict(one) for one in told.breaks]
    return Answer(facts, str(told), FOUND if told.graph_break_count or told.fallbacks else DONE)

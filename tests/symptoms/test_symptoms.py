"""Broken and slow programs: what a report finds in each names the line, the reason and what to do.

In: programs/*.py, each with a compiled `f` and a `run()` that calls it as users do. Out: the golden text: the error that the user
sees, if any, then the warnings and the findings of `flambeau.compiler.report(f)`.
"""

import importlib.util
import linecache
import pathlib
import re
import warnings

import pytest

from flambeau.compiler import report, set_stance
from flambeau.inductor import targets
from flambeau.runtime.config import config

FOLDER = pathlib.Path(__file__).parent / "programs"
GENERATES = ("missing_compiler", "op_without_a_loop")  # what they tell comes from the code generator
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py"))


def load(name):
    spec = importlib.util.spec_from_file_location(f"symptom_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def short(text):
    """File names without their folders."""
    return re.sub(r"(/[\w.-]+)+/([\w.-]+)", r"\2", text)


def diagnosis(name):
    """What the user sees, and what the report finds."""
    module, lines = load(name), [f"# {name}"]
    lines.append(f"# {module.__doc__}")
    targets._told.clear()
    with warnings.catch_warnings(record=True) as seen, config.patch(verify=False):
        warnings.simplefilter("always")
        try:
            with set_stance("default", force_backend=None if name in GENERATES else "eager"):
                module.run()
        except Exception as error:
            lines += ["", f"raises {type(error).__name__}: {short(str(error))}"]
    lines += [f"\nwarns: {short(str(one.message))}" for one in seen if issubclass(one.category, RuntimeWarning)]
    found = report(module.f).findings
    lines += ["", *(short(one.text()) for one in found)] if found else ["", "nothing found"]
    return "\n".join(lines) + "\n", found


@pytest.mark.parametrize("name", PROGRAMS)
def test_symptom(name, golden):
    text, found = diagnosis(name)
    golden(f"{name}.txt", text)
    assert found and all(one.fix and one.why for one in found)
    assert (
        any(one.place.startswith(f"{name}.py:") and one.source == source(name, one.place) for one in found)
        or name == "missing_compiler"
    )


def source(name, place):
    return linecache.getline(str(FOLDER / f"{name}.py"), int(place.partition(":")[2])).strip()


def test_there_are_twenty():
    assert len(PROGRAMS) >= 20

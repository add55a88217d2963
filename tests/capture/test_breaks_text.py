"""docs/breaks.md is true: it has a section for every code that is counted, and its programs break for the reason they tell."""

import contextlib
import io
import linecache
import pathlib
import re

import pytest

import flambeau as torch
from flambeau.capture.breaks import CODES
from flambeau.runtime import counters

ROOT = pathlib.Path(__file__).parents[2]
TEXT = (ROOT / "docs/breaks.md").read_text()
SECTIONS = dict(re.findall(r"^### (.+?)\n(.*?)(?=^##|\Z)", TEXT, re.S | re.M))
PROGRAMS = {code: found[1] for code, body in SECTIONS.items() if (found := re.search(r"```python\n(.*?)```", body, re.S))}
RAISED = re.compile(r"[uU]nsupported\(\s*\"([^\"]+)\"")


def test_every_code_has_a_section():
    assert list(SECTIONS) == list(dict.fromkeys(SECTIONS)) and set(SECTIONS) == set(CODES)


def test_every_code_in_the_source_is_known():
    files = [f for layer in ("eager", "capture", "inductor") for f in (ROOT / layer).rglob("*.py")]
    used = {code for file in files for code in RAISED.findall(file.read_text())}
    assert used and used <= set(CODES), used - set(CODES)


def test_most_codes_have_a_program():
    assert len(PROGRAMS) >= 22


@pytest.mark.parametrize("code", PROGRAMS)
def test_program_breaks_as_told(code):
    counters.reset()
    plain, compiled = program(code), torch.compile(program(code), backend="eager")
    expected, got = outcome(plain), outcome(compiled)
    assert got == expected
    assert code in counters.snapshot()["breaks"], counters.snapshot()
    assert "internal error" not in counters.snapshot()["fallbacks"]


@pytest.mark.parametrize("code", sorted(set(PROGRAMS) - {"generator frame"}))
def test_fullgraph_raises_with_a_line(code):
    compiled = torch.compile(program(code), backend="eager", fullgraph=True)
    with pytest.raises(Exception) as raised:
        compiled(torch.ones(3))
    assert raised.value.code in CODES and f"<{code}>" in str(raised.value)


def program(code):
    """The function `f` of a section, with its lines known to tracebacks."""
    source, name = PROGRAMS[code], f"<{code}>"
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    scope = {"torch": torch}
    exec(compile(source, name, "exec"), scope)
    return scope["f"]


def outcome(fn):
    """(result or error as text, what was printed)."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            result = fn(torch.ones(3))
            result = list(result) if hasattr(result, "__next__") else result
        except (RuntimeError, ValueError) as error:
            result = error
    return repr(result), printed.getvalue()

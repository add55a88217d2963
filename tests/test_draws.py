"""The command that draws programs of any generator (draws.py): counts, texts and its status."""

import pytest

from . import draws

COMPARED_WITH_PYTORCH = {"calls", "extremes", "bad-calls", "keys", "functions", "results"}


def test_every_generator_has_a_kind():
    assert set(draws.KINDS) == COMPARED_WITH_PYTORCH | {
        "functions-compiled",
        "results-compiled",
        "keys-compiled",
        "extremes-compiled",
        "graphs",
        "growth",
        "language",
        "python",
        "guards",
        "changes",
    }


@pytest.mark.parametrize("name", [name for name in draws.KINDS if name != "graphs"])
def test_a_kind_is_drawn(name):
    if name in COMPARED_WITH_PYTORCH:
        pytest.importorskip("torch")
    told = []
    assert draws.run(name, 0, 3, told.append) == 0, told
    assert told[-1].startswith(f"{name}: 3 drawn, 0 wrong, ")


def test_what_is_wrong_is_told(monkeypatch, capsys):
    def fails(seed):
        if seed == 7:
            raise ValueError("an accident")
        return "x = 1" if seed == 5 else None

    monkeypatch.setitem(draws.KINDS, "bent", draws.Kind("bent", "", lambda: fails))
    assert draws.main(["bent", "--count", "4", "--first", "4"]) == 1
    printed = capsys.readouterr().out
    assert "bent, seed 5\nx = 1\n" in printed and "bent, seed 7\nTraceback" in printed and "an accident" in printed
    assert printed.splitlines()[-1].startswith("bent: 4 drawn, 2 wrong, ")
    assert draws.main(["bent", "--count", "1"]) == 0


def test_a_kind_that_needs_pytorch_says_so(monkeypatch, capsys):
    def start():
        raise ModuleNotFoundError("No module named 'torch'")

    monkeypatch.setitem(draws.KINDS, "far", draws.Kind("far", "", start))
    assert draws.main(["far"]) == 2 and "torch" in capsys.readouterr().err


def test_pictures_are_compared_with_the_rounding_that_was_asked_for():
    """Numbers of tensors in tables, too; and an exception that is its own cause ends."""
    from tests.capture import fuzzing

    a, b = {"G": ((), 0.0), "H": [1]}, {"G": ((), 6e-8), "H": [1]}
    assert fuzzing.agree([a], [b], True) and not fuzzing.agree([a], [b], False)
    assert not fuzzing.agree([a], [{"G": ((), 1.0), "H": [1]}], True) and not fuzzing.agree(a, {"H": [1], "G": ((), 0.0)}, True)
    first, second = ValueError("a"), KeyError("b")
    first.__cause__, second.__cause__ = second, first
    told = fuzzing.seen(first)
    assert told[:2] == ("ValueError", "a") and told[2][2] == ("cause", 2)
    assert fuzzing.seen([first]) != fuzzing.seen([second])

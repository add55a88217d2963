"""Objects of classes of C that nobody traces: passing them on is captured, using them is a break where they are used."""

import array
import io

import flambeau as fl

from .harness import check  # noqa: E402

X = fl.arange(6.0).reshape(2, 3)


def test_a_file_for_print():
    sink = io.StringIO()

    def fn(a):
        b = a + 1
        print("mid", b.shape[0], file=sink)
        return b * 2

    check(fn, X, graphs=2, breaks={"print": 1})
    assert sink.getvalue() == "mid 2\n" * 4


def test_passed_through_and_asked_for_its_type():
    box = array.array("i", [1, 2])

    def fn(a, given):
        kept = [given, None]
        assert given is kept[0] and given is not None and isinstance(given, array.array)
        return a * 2, kept

    check(fn, X, box, graphs=1, breaks=0)


def test_another_kind_of_object_is_another_entry():
    def fn(a, given):
        return a + (1 if isinstance(given, io.StringIO) else 2)

    compiled = fl.compile(fn, backend="eager")
    for given in (io.StringIO(), io.BytesIO(), io.StringIO()):
        assert fl.equal(compiled(X, given), fn(X, given))


def test_its_use_is_a_break():
    box = array.array("i", [1, 2])

    def fn(a):
        b = a + box[1]
        return b * 2

    check(fn, X, graphs=1, breaks={"call": 1})

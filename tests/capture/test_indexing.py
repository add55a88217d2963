"""Keys in every spelling inside compiled functions: what eager shows, views and copies, and kinds of errors included.

INDEX_COMPILED: how many programs are drawn (default 60); INDEX_SEED: where they start. Every eighth goes through the C++
backend.
"""

import os

import pytest

import flambeau
from flambeau.runtime import toolchain

from ..index_programs import drawn, function_of, observed

COUNT = int(os.environ.get("INDEX_COMPILED", 60))
SEED = int(os.environ.get("INDEX_SEED", 0)) * 10**6
BACKENDS = ("eager", "aot_eager", "loops")


def backends(k):
    return (*BACKENDS, "inductor") if k % 8 == 0 and toolchain.compiler() is not None else BACKENDS


def difference(program, backend):
    """Twice, as the second call may find an entry."""
    plain = observed(flambeau, program)
    flambeau.compiler.reset()
    compiled = flambeau.compile(function_of(flambeau, program), backend=backend)
    for call in (1, 2):
        got = observed(flambeau, program, compiled)
        if got[:2] != plain[:2] or plain[0] == "value" and got != plain:
            return f"{backend}, call {call}\n{program}\nplain:    {plain}\ncompiled: {got}"
    return ""


@pytest.mark.parametrize("part", range(4))
def test_keys(part):
    found = [text for k in range(part, COUNT, 4) for b in backends(k // 4) if (text := difference(drawn(SEED + k), b))]
    assert not found, f"{len(found)} differ; the first: {found[0]}"


BACKEND = pytest.mark.parametrize("backend", BACKENDS)


def shown(f, *args):
    """Results and arguments after the caller wrote into the first result."""
    out = f(*args)
    out = out if isinstance(out, tuple) else (out,)
    out[0].add_(1)
    return [t.tolist() for t in (*out, *args)]


@BACKEND
@pytest.mark.parametrize("place", (0, 1, -1))
def test_an_integer_tensor_without_dims_gives_a_view(backend, place):
    def written(x, i):
        y = x[i]
        y.add_(1)
        return x * 1, y

    for f in (written, lambda x, i: x[i], lambda x, i: x[:, i], lambda x, i: x[flambeau.tensor(0)]):

        def make():
            return flambeau.arange(6.0).reshape(2, 3), flambeau.tensor(place)

        flambeau.compiler.reset()
        compiled = flambeau.compile(f, backend=backend)
        for _ in range(2):
            assert shown(compiled, *make()) == shown(f, *make())


@BACKEND
def test_writing_at_an_integer_tensor_breaks_no_graph(backend):
    def f(x, i):
        x[i] = 5
        x[:, i] = 2.0
        return x + 1

    compiled = flambeau.compile(f, backend=backend, fullgraph=True)
    for place in (0, 1, -1):
        x, y = flambeau.zeros(2, 2), flambeau.zeros(2, 2)
        assert compiled(x, flambeau.tensor(place)).tolist() == f(y, flambeau.tensor(place)).tolist() and x.tolist() == y.tolist()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "loops"])
@pytest.mark.parametrize(
    "key", [lambda i: i, lambda i: (i,), lambda i: (i, slice(0, 2)), lambda i: (i, i)], ids=["alone", "tuple", "slice", "twice"]
)
@pytest.mark.parametrize("dtype", [flambeau.int16, flambeau.int64, flambeau.uint8], ids=str)
def test_what_was_read_by_a_tensor_without_dims_is_written_back(dtype, key, backend):
    """The value that is stored is a view of the place: a write by index refused it as memory that lies across."""

    def f(x, i):
        x[key(i)] += 1
        return x * 1

    x, y, i = flambeau.arange(9.0).reshape(3, 3), flambeau.arange(9.0).reshape(3, 3), flambeau.tensor(2, dtype=dtype)
    assert flambeau.equal(flambeau.compile(f, backend=backend)(x, i), f(y, i)) and flambeau.equal(x, y)

"""Names around programs, against PyTorch: windows of signals, stacked datasets, blocks of profiles in fx graphs, backends."""

import numpy as np
import pytest

import flambeau

torch = pytest.importorskip("torch")

WINDOWS = [
    ("bartlett", {}),
    ("blackman", {}),
    ("cosine", {}),
    ("exponential", {}),
    ("exponential", dict(tau=2.5)),
    ("gaussian", {}),
    ("gaussian", dict(std=0.7)),
    ("general_cosine", dict(a=[0.46, 0.23, 0.31])),
    ("general_hamming", dict(alpha=0.6)),
    ("hamming", {}),
    ("hann", {}),
    ("kaiser", {}),
    ("kaiser", dict(beta=3.0)),
    ("nuttall", {}),
]


@pytest.mark.parametrize("name, options", WINDOWS)
def test_windows(name, options):
    for M in (0, 1, 2, 5, 8):
        for sym in (True, False):
            for kind in ("float32", "float64", None):
                made = [
                    getattr(library.signal.windows, name)(M, sym=sym, dtype=kind and getattr(library, kind), **options)
                    for library in (flambeau, torch)
                ]
                assert str(made[0].dtype) == str(made[1].dtype)
                np.testing.assert_allclose(made[0].numpy(), made[1].numpy(), rtol=1e-5 if kind != "float64" else 1e-12, atol=2e-7)
    assert getattr(flambeau.signal.windows, name)(4, requires_grad=True, **options).requires_grad
    compiled = flambeau.compile(
        lambda x: x * getattr(flambeau.signal.windows, name)(4, **options), backend="eager", fullgraph=True
    )
    assert flambeau.equal(compiled(flambeau.ones(4)), getattr(flambeau.signal.windows, name)(4, **options))


def test_windows_apart():
    shifted = [library.signal.windows.exponential(5, center=1, sym=False).numpy() for library in (flambeau, torch)]
    np.testing.assert_allclose(*shifted, rtol=1e-6)
    from flambeau.signal.windows import hann

    assert hann is flambeau.signal.windows.hann


WRONG = [
    lambda w, t: w.hann(-1),
    lambda w, t: w.bartlett(4, dtype=t.int64),
    lambda w, t: w.kaiser(4, layout=t.sparse_coo),
    lambda w, t: w.blackman(3, dtype=t.float16),
    lambda w, t: w.general_cosine(5, a=[]),
    lambda w, t: w.general_cosine(5, a=3),
    lambda w, t: w.gaussian(5, std=0),
    lambda w, t: w.exponential(5, tau=-1),
    lambda w, t: w.exponential(5, center=1),
    lambda w, t: w.kaiser(5, beta=-1),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_windows_refuse(number):
    told = []
    for library in (flambeau, torch):
        with pytest.raises((ValueError, TypeError)) as caught:
            WRONG[number](library.signal.windows, library)
        told.append((caught.type, str(caught.value)))
    assert told[0] == told[1]


class Several:
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return index

    def __getitems__(self, indices):
        return [k * 10 for k in indices][:2]


def test_stacked_datasets():
    found = []
    for library in (flambeau, torch):
        data = library.utils.data
        rows, names = data.TensorDataset(library.arange(3)), ["a", "b", "c"]
        side, named = data.StackDataset(rows, names), data.StackDataset(x=rows, y=names, z=Several())
        loaded = [batch["y"] for batch in data.DataLoader(data.StackDataset(y=names), batch_size=2)]
        told = [
            side[1][1],
            named[2]["y"],
            named.__getitems__([0, 2])[1]["z"],
            side.__getitems__([2, 0])[0][1],
            len(side),
            loaded,
            sorted(named.datasets),
            side.datasets[1],
        ]
        for wrong in (
            lambda: data.StackDataset(rows, y=names),
            lambda: data.StackDataset(),
            lambda: data.StackDataset(rows, [1]),
            lambda: named.__getitems__([0, 1, 2]),
        ):
            with pytest.raises(ValueError) as caught:
                wrong()
            told.append(str(caught.value))
        found.append(told)
    assert found[0] == found[1]


class Foo(flambeau.nn.Module):
    def forward(self, x):
        with flambeau.profiler.record_function("foo"):
            return flambeau.relu(x)


def test_blocks_of_profiles_in_a_traced_graph():
    block, ops = flambeau.autograd.profiler.record_function, flambeau.ops.profiler

    class Tracer(flambeau.fx.Tracer):
        def trace(self, root, concrete_args=None):
            kept = block.__enter__, block.__exit__

            def enter(own):
                own.proxy = self.create_proxy("call_function", ops._record_function_enter, (own.name,), {})

            block.__enter__, block.__exit__ = enter, lambda own, *_: ops._record_function_exit(own.proxy)
            try:
                return super().trace(root, concrete_args)
            finally:
                block.__enter__, block.__exit__ = kept

    tracer = Tracer()
    traced = flambeau.fx.GraphModule(tracer.root if hasattr(tracer, "root") else Foo(), tracer.trace(Foo()))
    assert [str(n.target) for n in traced.graph.nodes if "operator" in str(n.target)] == [
        "<operator profiler::_record_function_enter>",
        "<operator profiler::_record_function_exit>",
    ]
    assert "torch.ops.profiler._record_function_exit(" in traced.code and not traced.graph.eliminate_dead_code()
    x = flambeau.randn(5)
    with flambeau.autograd.profiler.profile() as seen:
        assert flambeau.equal(traced(x), x.relu())
    assert [event.name for event in seen.function_events].count("foo") == 1
    assert str(seen) == seen.function_events.table() and "foo" in str(seen)
    with pytest.raises(TypeError, match="_record_function_enter"):
        ops._record_function_exit(3)


def test_default_backend():
    seen = []

    def mine(graph, inputs):
        seen.append(graph)
        return graph.forward

    compiler = flambeau.compiler
    assert compiler.get_default_backend() == torch.compiler.get_default_backend() == "inductor"
    try:
        compiler.set_default_backend(mine)
        assert compiler.get_default_backend() is mine
        assert flambeau.compile(lambda x: x + 1)(flambeau.ones(2)).tolist() == [2, 2] and len(seen) == 1
        flambeau.compile(lambda x: x + 1, backend="eager")(flambeau.ones(2))
        assert len(seen) == 1
        with pytest.raises(ValueError, match="unknown backend"):
            compiler.set_default_backend("nope")
    finally:
        compiler.set_default_backend(None)
    assert compiler.get_default_backend() == "inductor" and compiler.cudagraph_mark_step_begin() is None


def test_dynamo_knows_the_backends():
    dynamo = flambeau._dynamo

    @dynamo.register_backend(name="surroundings", tags=("experimental",))
    def backend(graph, inputs):
        return graph.forward

    assert dynamo.lookup_backend("surroundings") is backend is dynamo.lookup_backend(backend)
    assert "surroundings" not in dynamo.list_backends() and "surroundings" in dynamo.list_backends(None)
    assert "inductor" in dynamo.list_backends() and "eager" not in dynamo.list_backends()
    assert flambeau.compile(lambda x: x * 2, backend="surroundings")(flambeau.ones(1)).item() == 2
    with pytest.raises(ValueError):
        dynamo.lookup_backend("nope")

"""`compiler.report`: what a compiled function became, as data."""

import json

import flambeau as torch
import pytest
import sympy
from flambeau.runtime import compile_log
from flambeau.runtime.config import config

from . import programs
from .programs import CLASSES, WIDTH

ROWS, BYTES = 32, 4


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()


@pytest.fixture(scope="module")
def network():
    """A trained network and its report; the optimizer lives, its state is part of the report."""
    compiled, optimizer = programs.trained()
    made = torch.compiler.report(compiled)
    return made, compiled, optimizer


def line_of(report, text):
    return next(line for source in report.sources for line in source.lines if text in line.text)


def versions(f, *calls):
    compiled = torch.compile(f)
    for args in calls:
        compiled(*args)
    return torch.compiler.report(compiled)


# -- links


def test_lines_operations_and_kernels_are_linked_both_ways(network):
    report = network[0]
    graph = report.graphs[0]
    for p, program in enumerate(graph.programs):
        assert program.kernels
        for k, kernel in enumerate(program.kernels):
            assert kernel.nodes, kernel.name
            assert all((p, k) in graph.nodes[node].kernels for node in (*kernel.nodes, *kernel.inlined))
            assert not set(kernel.nodes) & set(kernel.inlined)
    for number, node in enumerate(graph.nodes):
        kernels = [graph.programs[p].kernels[k] for p, k in node.kernels]
        assert kernels and all(number in (*kernel.nodes, *kernel.inlined) for kernel in kernels)
    by_line = {(g, k) for source in report.sources for line in source.lines for g, k in line.nodes}
    assert by_line == {(0, k) for k in range(len(graph.nodes))}


def test_a_line_shows_its_operations_where_it_stands_and_where_it_was_called_from(network):
    report = network[0]
    inner, outer = line_of(report, "F.gelu(self.up"), line_of(report, "x = block(x)")
    ops = [report.graphs[g].nodes[k].op for g, k in inner.nodes]
    assert ops == ["layer_norm", "linear", "gelu"] * 2
    assert set(inner.nodes) < set(outer.nodes) and inner.status == outer.status == "graph"
    assert line_of(report, "for block in").status == "none"


def test_operations_know_their_module(network):
    nodes = network[0].graphs[0].nodes
    assert [n.module for n in nodes if n.op == "layer_norm"] == ["self.blocks.0.norm", "self.blocks.1.norm"]
    assert [n.module for n in nodes if n.op == "add"] == ["self.blocks.0", "self.blocks.1"]


def test_every_layer_has_kernels_of_its_own_in_both_directions(network):
    graph = network[0].graphs[0]
    ups = [n for n in graph.nodes if n.module.endswith(".up")]
    for p in (0, 1):
        mine = [{k for q, k in n.kernels if q == p} for n in ups]
        assert all(mine) and not mine[0] & mine[1]


# -- kernels


def test_a_product_counts_its_operations_and_bytes():
    report = versions(lambda a, b: a @ b, (torch.randn(12, 20), torch.randn(20, 8)))
    (kernel,) = report.kernels
    assert kernel.kind == "product"
    assert kernel.flops == 2 * 12 * 20 * 8
    assert kernel.bytes == BYTES * (12 * 20 + 20 * 8 + 12 * 8)


def flops(f, *args, train=False):
    """Of each kernel that multiplies or is the runtime's: [(program, kind, operations)]"""
    compiled = torch.compile(f)
    result = compiled(*args)
    if train:
        result.sum().backward()
    return [
        (program.name, kernel.kind, kernel.flops)
        for graph in torch.compiler.report(compiled).graphs
        for program in graph.programs
        for kernel in program.kernels
        if kernel.kind not in ("loops", "scatter")
    ]


def test_an_epilogue_is_counted_at_every_point_of_the_product():
    linear = torch.nn.Linear(20, 8).requires_grad_(False)
    assert flops(lambda x: torch.relu(linear(x)), torch.randn(12, 20)) == [("forward", "product", 12 * 8 * (2 * 20 + 1 + 1))]


@pytest.mark.parametrize("causal, pairs", [(False, 40 * 24), (True, 24 * 25 // 2 + 16 * 24)], ids=["full", "causal"])
def test_attention_counts_its_products(causal, pairs):
    """For each query and key that it sees: one product over the depth and one over the values' in the forward; the scores
    again and four gradients behind it."""
    q, k, v = (torch.randn(2, 3, n, d, requires_grad=True) for n, d in ((40, 16), (24, 16), (24, 8)))
    found = flops(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal), train=True)
    assert found == [("forward", "runtime", 2 * 6 * pairs * (16 + 8)), ("backward", "runtime", 2 * 6 * pairs * (3 * 16 + 2 * 8))]


@pytest.mark.parametrize(
    "layer, taps",
    [
        (torch.nn.Conv2d(4, 8, 3, padding=1, groups=2, bias=False), 8 * 100 * 2 * 9),
        (torch.nn.ConvTranspose2d(4, 8, 3, stride=2, bias=False), 4 * 100 * 8 * 9),
    ],
    ids=["groups", "transposed"],
)
def test_convolutions_count_their_products(layer, taps):
    x = torch.randn(2, 4, 10, 10, requires_grad=True)
    assert [work for *_, work in flops(layer, x, train=True)] == [2 * 2 * taps] * 3


def test_sequences_count_the_recurrent_products():
    net = torch.nn.LSTM(8, 16)
    found = flops(lambda x: net(x)[0], torch.randn(5, 4, 8), train=True)
    assert [work for _, kind, work in found if kind == "runtime"] == [2 * 5 * 4 * 64 * 16] * 2


def test_values_are_counted_once_for_each_point_that_they_depend_on():
    """A row is reduced (a sum), scaled (a product per point), and the scale is made once a row."""
    report = versions(lambda x: x * (x.sum(-1, keepdim=True) + 1), (torch.randn(6, 50),))
    assert sum(kernel.flops for kernel in report.kernels) == 6 * 50 + 6 + 6 * 50


# -- work as formulas


def symbolic(f, *args, train=False):
    compiled = torch.compile(f, dynamic=True)
    result = compiled(*args)
    if train:
        result.sum().backward()
    return torch.compiler.report(compiled)


def test_work_is_a_formula_of_the_sizes():
    report = symbolic(lambda a, b: torch.relu(a @ b), torch.randn(12, 20), torch.randn(20, 8))
    (kernel,) = report.kernels
    m, k, n = report.cost.symbols.values()
    assert sympy.expand(kernel.cost.flops - (2 * m * n * k + m * n)) == 0
    assert sympy.expand(report.cost.bytes - BYTES * (m * k + k * n + m * n)) == 0
    assert report.graphs[0].cost.at(s0=5, s1=6, s2=7) == (5 * 7 * (2 * 6 + 1), BYTES * (5 * 6 + 6 * 7 + 5 * 7))
    assert report.cost.flops.subs({m: 5, k: 6, n: 7}) == 455 and report.cost.flops.subs(k, 6).free_symbols == {m, n}
    assert sympy.lambdify([m, k, n], report.cost.flops)(5, 6, 7) == 455
    told = str(report)
    assert "Work of graph 0 in its sizes" in told and str(kernel.cost.flops) in told
    assert json.loads(report.to_json())["graphs"][0]["programs"][0]["kernels"][0]["cost"]["work"] == str(kernel.cost.work)


def test_formulas_at_the_first_calls_sizes_are_the_numbers_of_the_first_call():
    linear = torch.nn.Linear(20, 8)
    q = torch.randn(2, 3, 10, 16)

    def fn(x, q):
        mixed = torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
        return torch.softmax(linear(x), 1).sum() + mixed[:, :, ::2].mean()

    report = symbolic(fn, torch.randn(12, 20), q, train=True)
    graph = report.graphs[0]
    hints = {symbol.name: int(symbol.hint) for symbol in graph.symbols}
    assert len(graph.programs) == 2 and graph.cost.symbols
    for kernel in report.kernels:
        assert kernel.cost.at(**hints) == (kernel.flops, kernel.bytes)
    assert graph.cost.at(**hints) == (sum(k.flops or 0 for k in report.kernels), sum(k.bytes for k in report.kernels))


def test_work_of_fixed_sizes_is_a_number(network):
    report = network[0]
    assert report.cost.flops.is_Integer and report.cost.bytes.is_Integer and not report.cost.symbols
    assert report.cost.flops == sum(kernel.flops or 0 for kernel in report.kernels)
    assert "in its sizes" not in str(report)


def test_symbols_of_several_graphs_are_told_apart():
    def fn(x):
        y = x * 2
        torch._dynamo.graph_break()
        return (y + 1).sum()

    report = symbolic(fn, torch.randn(6, 5))
    assert len(report.graphs) == 2 and set(report.cost.symbols) == {"s0_0", "s1_0", "s0_1", "s1_1"}


def test_kernels_are_timed_and_have_code(network):
    for program in network[0].graphs[0].programs:
        assert program.calls == 2 and program.seconds > 0 and program.measured > 0
        for kernel in program.kernels:
            assert kernel.seconds is not None and kernel.bound > 0
            assert (
                kernel.code is None
                or "static void" in program.functions[kernel.code]
                or "void kernel" in program.functions[kernel.code]
            )


def test_measuring_is_no_call_and_draws_no_number():
    compiled = torch.compile(lambda x: torch.dropout(x, 0.5, True) + 1)
    compiled(torch.randn(64))
    state = torch.get_rng_state()
    before = torch.compiler.counters()
    first, second = torch.compiler.report(compiled), torch.compiler.report(compiled)
    assert first.graphs[0].programs[0].calls == second.graphs[0].programs[0].calls == 1
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.compiler.counters() == before


def test_indices_that_a_backward_writes_over_are_indices_in_every_round():
    """The backward of pooling uses the bytes of the saved positions for something else once it has read them."""
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.MaxPool2d(2), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3)
    )
    compiled = torch.compile(net)
    compiled(torch.randn(4, 3, 16, 16)).sum().backward()
    _, backward = torch.compiler.report(compiled).graphs[0].programs
    assert any("int64" in read for kernel in backward.kernels for read in kernel.reads)
    assert all(kernel.seconds is not None for kernel in backward.kernels)


def test_views_and_what_is_computed_on_the_way_belong_to_the_kernel_that_reads_them():
    def f(x, table):
        rows = table[x].transpose(0, 1)
        return (rows * 2).sum(-1)

    (kernel,) = versions(f, (torch.tensor([[0, 2], [1, 1]]), torch.randn(3, 8))).kernels
    (graph,) = versions(f, (torch.tensor([[0, 2], [1, 1]]), torch.randn(3, 8))).graphs
    assert [graph.nodes[k].op for k in kernel.nodes] == ["sum"]
    assert len(kernel.inlined) == len(graph.nodes) - 1


def test_a_kernel_says_why_it_was_fused():
    report = versions(lambda a, b: torch.relu(a @ b), (torch.randn(8, 8), torch.randn(8, 8)))
    assert len(report.kernels) == 1 and any("joined" in why for why in report.kernels[0].why)


# -- memory


def test_the_four_parts_of_memory(network):
    report, compiled, _ = network
    weights = sum(p.numel() for p in compiled.parameters()) * BYTES
    assert report.memory.parameters == report.memory.gradients == weights
    assert report.memory.optimizer >= 2 * weights  # two moments, and counts of steps
    assert report.memory.peak >= report.memory.parameters + report.memory.optimizer + report.memory.activations
    assert report.memory.activations == max(m.activations for m in report.memory.timeline)


def test_gradients_grow_to_the_size_of_the_weights(network):
    report, compiled, _ = network
    backward = [m.gradients for m in report.memory.timeline if m.program == 1]
    assert backward == sorted(backward)
    assert backward[-1] == sum(p.numel() for p in compiled.parameters()) * BYTES


def test_what_is_kept_for_the_backward_is_told_from_the_result(network):
    blocks = network[0].graphs[0].programs[0].blocks
    results = [b for b in blocks if b.kind == "output"]
    assert [b.bytes for b in results] == [BYTES]  # the loss
    assert {ROWS * WIDTH * BYTES, 2 * ROWS * WIDTH * BYTES} <= {b.bytes for b in blocks if b.kind == "saved"}


def test_buffers_of_the_arena_never_share_bytes_while_both_live(network):
    for program in network[0].graphs[0].programs:
        temps = [b for b in program.blocks if b.place == "arena"]
        for k, a in enumerate(temps):
            for b in temps[:k]:
                same_time = a.start < b.end and b.start < a.end
                same_bytes = a.offset < b.offset + b.bytes and b.offset < a.offset + a.bytes
                assert not (same_time and same_bytes), (a, b)


# -- breaks, versions, guards


def test_breaks_and_versions(capsys):
    report = versions(programs.broken, *((torch.ones(n, 3),) for n in (4, 5, 6, 200)), (torch.zeros(3, 3), 3.0))
    assert [(b.code, b.source) for b in report.breaks] == [("print", 'print("between")'), ("branch-on-data", "if total > 3:")]
    assert all(b.fix for b in report.breaks)
    mine = [f for f in report.frames if f.function == "broken"]
    assert [f.version for f in mine] == [0, 1, 2, 3]
    assert mine[0].failed == [] and "size of x in dimension 0: was 4, is 5" in mine[1].failed[0]
    assert len(mine[2].failed) == 2
    assert {f.kind for f in report.frames} == {"function", "nested", "resume"}
    assert line_of(report, 'print("between")').status == "break"
    assert [s.places for g in report.graphs for s in g.symbols][0] == "x.size(0)"
    assert any(g.text.startswith("x is torch.float32 Tensor of sizes (4, 3)") and ":" in g.line for g in mine[0].guards)


def test_a_graph_with_reads_is_described_piece_by_piece():
    report = versions(programs.picked, (torch.randn(6, 4),))
    assert len(report.graphs) == 2
    assert "exp" in [n.op for n in report.graphs[1].nodes]
    assert all(graph.programs for graph in report.graphs)


def test_nothing_was_called():
    report = torch.compiler.report(torch.compile(programs.broken))
    assert not report.frames and "not been called" in report.notes[0]


def test_plain_functions_are_refused():
    with pytest.raises(TypeError, match="compile"):
        torch.compiler.report(programs.broken)


def test_a_module_compiled_in_place_and_a_backend_without_a_word():
    net = programs.Block()
    net.compile(backend="eager")
    net(torch.randn(4, WIDTH))
    report = torch.compiler.report(net)
    assert report.title == "Block" and report.backend == "eager"
    assert report.graphs[0].nodes and not report.graphs[0].programs and "says nothing" in report.graphs[0].note


def test_what_an_earlier_process_compiled_is_described_all_the_same(tmp_path):
    with config.patch(verify=False, cache_dir=str(tmp_path)):
        reports = []
        for _ in range(2):
            reports.append(versions(programs.text_like_markup, (torch.randn(9, 9),)))
            torch.compiler.reset()
    first, second = reports
    assert (first.frames[0].cached, second.frames[0].cached) == (False, True)
    assert [k.name for k in first.kernels] == [k.name for k in second.kernels]
    assert "kernels.cpp" in second.graphs[0].texts and second.kernels[0].seconds is not None


def test_a_compilation_that_nobody_looks_at_writes_no_texts():
    with config.patch(verify=False):
        assert not compile_log.wanted()
        compiled = torch.compile(programs.text_like_markup)
        compiled(torch.randn(3))
    (record,) = compiled.cache.records
    assert set(record.texts) == {"guards.txt"}


def test_a_report_writes_no_files_and_no_logs(tmp_path, capsys):
    with config.patch(dump=str(tmp_path), logs=("schedule", "graph", "kernels")):
        compiled = torch.compile(programs.text_like_markup)
        compiled(torch.randn(3))
        before = sorted(tmp_path.rglob("*"))
        assert before and capsys.readouterr().err
        assert torch.compiler.report(compiled).graphs[0].texts["loops.txt"]
        assert sorted(tmp_path.rglob("*")) == before and not capsys.readouterr().err


def test_stages_are_timed(network):
    spans = network[0].frames[0].spans
    names = [span.name for span in spans]
    assert {"trace", "backend", "joint graph", "partition", "lower", "schedule"} <= set(names)
    backend = next(span for span in spans if span.name == "backend")
    inner = next(span for span in spans if span.name == "partition")
    assert backend.start <= inner.start and inner.start + inner.seconds <= backend.start + backend.seconds + 1e-6
    assert inner.depth > backend.depth


def test_reports_of_everything_that_lives():
    kept = torch.compile(programs.text_like_markup)
    kept(torch.randn(3))
    torch.compile(programs.picked)(torch.randn(3, 3))  # gone at once
    assert [one.title for one in torch.compiler.last_reports()] == ["text_like_markup"]


# -- as dictionaries and text


def test_json(network):
    report = network[0]
    content = json.loads(report.to_json())
    assert content["graphs"][0]["programs"][1]["name"] == "backward"
    assert content["memory"]["parameters"] == report.memory.parameters
    assert CLASSES * BYTES in [b["bytes"] for b in content["graphs"][0]["programs"][1]["blocks"]]


def test_text(network):
    text = str(network[0])
    assert text.startswith("Net: 1 frame, 1 graph, 0 breaks, 0 recompiles, ")
    assert "h = F.gelu(self.up(self.norm(x)))    -> graph 0, " in text
    for heading in ("graph 0, forward: ", "graph 0, backward: ", "Memory", "Compile time", "Guards of Net.forward, version 0"):
        assert heading in text


def test_text_tells_what_to_do(capsys):
    text = str(versions(programs.broken, (torch.ones(4, 3),)))
    assert text.index("What to do") < text.index("Frames")
    assert "programs.py" in text and "fix: move the print out of the compiled function" in text


def test_tables_of_rich_and_plain_text_say_the_same(network, capsys, monkeypatch):
    import builtins

    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("rich"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    network[0].show()
    assert capsys.readouterr().out == str(network[0])
    monkeypatch.undo()
    pytest.importorskip("rich")
    network[0].show()
    assert "Net: 1 frame" in capsys.readouterr().out

"""A report tells of Triton's kernels what it tells of C++'s: code, bytes, work, lines; but no times."""

import flambeau as torch
import pytest

pytest.importorskip("triton")


def test_kernels_of_forward_and_backward_are_told():
    @torch.compile(backend="triton", options={"dry_run": 80})
    def f(x, w):
        return torch.relu(x @ w)

    x, w = torch.randn(32, 16), torch.randn(16, 8, requires_grad=True)
    f(x, w)
    report = torch.compiler.report(f)
    (graph,) = report.graphs
    forward, backward = graph.programs
    (kernel,) = forward.kernels
    assert kernel.kind == "product" and kernel.flops == 32 * 8 * (2 * 16 + 1) and kernel.seconds is None
    assert "@triton.jit\ndef k_gemm" in forward.functions[kernel.code] and "test_report.py:" in forward.functions[kernel.code]
    assert all(k.code is not None and "@triton.jit" in backward.functions[k.code] for k in backward.kernels)
    assert {"kernels.py", "backward_kernels.py", "loops.txt"} <= set(graph.texts) and "not timed" in graph.note
    assert all(node.kernels for node in graph.nodes)

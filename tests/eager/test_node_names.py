"""`grad_fn`: a class per op, named as in PyTorch."""

import pytest

import flambeau as torch
from flambeau.nn import functional as F


def leaf(*shape):
    return torch.rand(*shape, requires_grad=True)


NAMED = {
    "MulBackward0": lambda: leaf(2) * 2,
    "PowBackward0": lambda: leaf(2) ** 2,
    "PowBackward1": lambda: leaf(2) ** leaf(2),
    "SumBackward0": lambda: leaf(2, 3).sum(),
    "SumBackward1": lambda: leaf(2, 3).sum(1),
    "MeanBackward1": lambda: leaf(2, 3).mean(1, keepdim=True),
    "MmBackward0": lambda: leaf(2, 3) @ leaf(3, 2),
    "MvBackward0": lambda: leaf(2, 3) @ leaf(3),
    "DotBackward0": lambda: leaf(3) @ leaf(3),
    "BmmBackward0": lambda: torch.bmm(leaf(2, 3, 2), leaf(2, 2, 3)),
    "AddmmBackward0": lambda: F.linear(leaf(2, 3), leaf(4, 3), leaf(4)),
    "ConvolutionBackward0": lambda: F.conv2d(leaf(1, 1, 4, 4), leaf(1, 1, 3, 3)),
    "MaxPool2DWithIndicesBackward0": lambda: F.max_pool2d(leaf(1, 1, 4, 4), 2),
    "AvgPool2DBackward0": lambda: F.avg_pool2d(leaf(1, 4, 4), 2),
    "AdaptiveAvgPool3DBackward0": lambda: F.adaptive_avg_pool3d(leaf(1, 1, 4, 5, 6), (2, 2, 4)),
    "NativeLayerNormBackward0": lambda: F.layer_norm(leaf(2, 3), (3,)),
    "GeluBackward0": lambda: F.gelu(leaf(2), approximate="tanh"),
    "NllLossBackward0": lambda: F.cross_entropy(leaf(2, 3), torch.tensor([0, 1])),
    "ClampBackward1": lambda: leaf(2).clamp(min=0.5),
    "ConstantPadNdBackward0": lambda: F.pad(leaf(2, 2), (1, 1)),
    "ReflectionPad2DBackward0": lambda: F.pad(leaf(1, 1, 4, 4), (1, 1, 1, 1), mode="reflect"),
    "UpsampleNearest2DBackward0": lambda: F.interpolate(leaf(1, 1, 4, 4), scale_factor=2),
    "UpsampleBilinear2DBackward0": lambda: F.interpolate(leaf(1, 1, 4, 4), scale_factor=2, mode="bilinear"),
    "LinalgSolveExBackward0": lambda: torch.linalg.solve(leaf(2, 2) + torch.eye(2), leaf(2, 2)),
    "Log1PBackward0": lambda: leaf(2).log1p(),
    "ToCopyBackward0": lambda: leaf(2).double(),
    "MaxBackward0": lambda: leaf(2, 3).max(1)[0],
    "MaxBackward1": lambda: leaf(2, 3).max(),
    "SqueezeBackward1": lambda: leaf(2, 1).squeeze(1),
    "ReluBackward0": lambda: leaf(2).relu(),
}


@pytest.mark.parametrize("name", NAMED)
def test_names(name):
    node = NAMED[name]().grad_fn
    assert type(node).__name__ == node.name() == name and repr(node).startswith(f"<{name} object at 0x")


@pytest.mark.parametrize("name", NAMED)
def test_names_are_pytorchs(name, monkeypatch):
    oracle = pytest.importorskip("torch")
    monkeypatch.setitem(globals(), "torch", oracle)
    monkeypatch.setitem(globals(), "F", oracle.nn.functional)
    assert type(NAMED[name]().grad_fn).__name__ == name


def test_one_class_per_name_and_all_are_nodes():
    a, b = leaf(2) * 2, leaf(3) * leaf(3)
    assert type(a.grad_fn) is type(b.grad_fn) and isinstance(a.grad_fn, torch.autograd.graph.Node)
    assert a.grad_fn is a.grad_fn and type(a.sum().grad_fn.next_functions[0][0]) is type(a.grad_fn)


def test_nodes_that_were_looked_at_run_as_before():
    def gradient(look):
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = (x * x).exp() + x
        z = y.sum()
        if look:
            waiting = [z.grad_fn]
            while waiting:
                waiting += [n for n, _ in waiting.pop().next_functions if n is not None]
        z.backward(retain_graph=True)
        z.backward()
        with pytest.raises(RuntimeError, match="a second time"):
            z.backward()
        assert z.grad_fn.name() == "SumBackward0"
        return x.grad

    assert torch.equal(gradient(True), gradient(False))


def test_hooks_of_a_node_that_was_looked_at():
    x = leaf(2)
    y = x * 3
    seen = []
    y.grad_fn.register_hook(lambda grads, outs: seen.append((grads[0].tolist(), outs[0].tolist())))
    y.sum().backward()
    assert seen == [([3, 3], [1, 1])]


def test_leaves():
    assert repr((leaf(2) * 2).grad_fn.next_functions[0][0]).startswith("<AccumulateGrad object at 0x")

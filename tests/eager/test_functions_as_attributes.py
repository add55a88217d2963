"""Functions of the library as attributes of a class: those that PyTorch has in C++ do not bind, methods of Tensor do."""

import pickle

import pytest

import flambeau as torch
from flambeau.nn import functional as F


def test_functions_do_not_bind():
    class Layers:
        convolution, product, sigmoid, total, made = F.conv2d, torch.matmul, torch.sigmoid, torch.sum, torch.tensor
        softmax, transform, root, joined = torch.softmax, torch.fft.fft, torch.special.erf, torch.cat

    x = torch.ones(1, 1, 4, 4)
    layers = Layers()
    assert layers.convolution(x, torch.ones(1, 1, 3, 3)).shape == (1, 1, 2, 2)
    assert layers.product(x, x).shape == layers.sigmoid(x).shape == layers.softmax(x, 1).shape == layers.root(x).shape == x.shape
    assert layers.total(x).item() == 16 and layers.made([1, 2]).tolist() == [1, 2] and layers.transform(x).is_complex()
    assert layers.joined([x, x]).shape == (2, 1, 4, 4)


def test_compiled_too():
    class Layers:
        convolution = F.conv2d

        def forward(self, x, w):
            return self.convolution(x, w).relu()

    x, w = torch.randn(1, 1, 4, 4), torch.randn(1, 1, 3, 3)
    for backend in ("eager", "aot_eager", "inductor"):
        compiled = torch.compile(Layers().forward, backend=backend, fullgraph=True)
        torch.testing.assert_close(compiled(x, w), Layers().forward(x, w))


def test_functions_that_pytorch_has_in_python_bind():
    class Subclass(torch.Tensor):
        length = torch.norm
        act = F.relu

    x = torch.tensor([3.0, -4.0]).as_subclass(Subclass)
    assert x.length().item() == 5 and x.act().tolist() == [3, 0]


def test_every_method_of_tensor_binds():
    x = torch.ones(2, 2)
    for name, value in vars(torch.Tensor).items():
        if type(value).__module__ == torch.eager.overrides.CALLABLES:
            assert getattr(x, name).__self__ is x, name


@pytest.mark.parametrize("name", ["sum", "softmax", "permute", "detach", "add", "sigmoid"])
def test_methods_are_objects_of_their_own(name):
    method, function = getattr(torch.Tensor, name), getattr(torch, name)
    assert method is not function and method.__name__ == function.__name__ == name
    assert method.__qualname__ == f"Tensor.{name}"
    assert pickle.loads(pickle.dumps(function)) is function and pickle.loads(pickle.dumps(method)) is method


def test_handlers_are_told_methods_and_functions():
    seen = []

    class Told(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(2).as_subclass(Told)
    x.sum()
    torch.sum(x)
    assert seen == [torch.Tensor.sum, torch.sum]

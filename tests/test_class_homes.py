"""Where classes lie while `import torch` means this package: PyTorch's modules, where import and pickle find them."""

import pytest

from flambeau.eager.class_homes import HOMES

from .test_alias import run


def test_types_print_as_pytorchs():
    code, out, err = run("""
        import torch
        print(type(torch.ones(1)), torch.nn.Linear, torch.nn.LSTM, torch.optim.NAdam, torch.distributions.Laplace)
        print(torch.nn.Parameter.__module__, torch.optim.lr_scheduler.OneCycleLR.__module__, torch.typename(torch.nn.ReLU()))
    """)
    assert out.splitlines() == [
        "<class 'torch.Tensor'> <class 'torch.nn.modules.linear.Linear'> <class 'torch.nn.modules.rnn.LSTM'> "
        "<class 'torch.optim.nadam.NAdam'> <class 'torch.distributions.laplace.Laplace'>",
        "torch.nn.parameter torch.optim.lr_scheduler torch.nn.modules.activation.ReLU",
    ], err


def test_every_class_that_lies_elsewhere_is_found_at_its_home():
    listed = [(home, name) for homes in HOMES.values() for home, names in homes.items() for name in names.split()]
    code, out, err = run(f"""
        import importlib, pickle, torch
        for module in {sorted(HOMES)}:
            importlib.import_module("flambeau." + module)
        for home, name in {listed}:
            kind = getattr(importlib.import_module(home), name)
            assert kind.__module__ == home and kind.__name__ == name, (home, name, kind.__module__)
            assert pickle.loads(pickle.dumps(kind)) is kind
        print("found")
    """)
    assert out == "found", err


def test_classes_of_public_modules_are_found_at_their_homes():
    code, out, err = run("""
        import pickle, torch
        count = 0
        for space in (torch, torch.nn, torch.optim, torch.optim.lr_scheduler, torch.distributions, torch.utils.data, torch.fx):
            for name in dir(space):
                kind = getattr(space, name)
                if isinstance(kind, type) and kind.__module__.startswith("torch.") and not name.startswith("_"):
                    assert pickle.loads(pickle.dumps(kind)) is kind, kind
                    count += 1
        print(count > 250)
    """)
    assert out == "True", err


def test_objects_travel():
    code, out, err = run("""
        import copy, inspect, io, pickle, torch
        model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.LSTM(3, 2))
        again = pickle.loads(pickle.dumps(model))
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters()))
        assert b"flambeau" not in pickle.dumps(torch.nn.ReLU())
        file = io.BytesIO()
        torch.save(model, file); file.seek(0)
        assert type(torch.load(file, weights_only=False)[0]) is torch.nn.Linear
        assert copy.deepcopy(model)[0].weight is not model[0].weight
        assert "class Linear(Module)" in inspect.getsource(torch.nn.Linear)
        assert "class LSTM" in inspect.getsource(torch.nn.LSTM)
        print(pickle.loads(pickle.dumps(torch.ones(2))))
    """)
    assert out == "tensor([1., 1.])", err


def test_capture_knows_the_librarys_classes():
    code, out, err = run("""
        import torch
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.norm = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)
            def forward(self, x):
                size = torch.Size([x.shape[0], 4])
                normal = torch.distributions.Normal(self.first(x), 1.0)
                return self.norm(normal.mean).reshape(size) + torch.finfo(x.dtype).eps
        net = Net()
        x = torch.randn(3, 4)
        net.eval()
        compiled = torch.compile(net, fullgraph=True)
        print(torch.allclose(compiled(x), net(x)))
    """)
    assert out == "True", err


def test_without_the_alias_nothing_is_renamed():
    code, out, err = run("import flambeau; print(flambeau.Tensor, flambeau.nn.Linear)", alias=False)
    assert out == "<class 'flambeau.eager.tensor.Tensor'> <class 'flambeau.eager.nn.modules.linear.Linear'>", err


@pytest.mark.parametrize(
    "path", ["", "nn", "optim", "optim.lr_scheduler", "distributions", "distributions.transforms", "utils.data"]
)
def test_homes_are_pytorchs(path):
    oracle = pytest.importorskip("torch")
    theirs = oracle
    for part in filter(None, path.split(".")):
        theirs = getattr(theirs, part)
    names = {name: kind.__module__ for name, kind in vars(theirs).items() if isinstance(kind, type) and not name.startswith("_")}
    code, out, err = run(f"""
        import torch
        space = torch{"." + path if path else ""}
        for name, home in {names}.items():
            kind = getattr(space, name, None)
            if isinstance(kind, type) and not hasattr(kind, "missing") and kind.__module__ != home:
                print(name, kind.__module__, home)
    """)
    apart = [line.split() for line in out.splitlines()]
    assert not [each for each in apart if each[0] not in APART], err


# placeholders of what is not there; private modules of PyTorch's; names of others
APART = set(
    "DisableTorchFunction DisableTorchFunctionSubclass Generator JITException ScriptFunction ScriptModule Storage".split()
)

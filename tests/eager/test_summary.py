"""`flambeau.summary`: rows, totals, what is called twice or never, and that nothing of the model changes."""

import pytest

import flambeau as torch
from flambeau import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.head = nn.Linear(8, 4)
        self.spare = nn.Linear(4, 4)

    def forward(self, x):
        x = self.body(x).mean(dim=(2, 3))
        return self.head(x) + self.head(2 * x)


def test_rows_and_totals():
    net = Net()
    net.head.bias.requires_grad = False
    found = net.summary(input_size=(2, 3, 6, 6))
    told = found.to_dict()
    rows = [
        (row["path"], row["depth"], row["parameters"], row["output_size"], row["again"], row["called"]) for row in told["layers"]
    ]
    assert rows == [
        ("", 0, 288, [(2, 4)], False, True),
        ("body", 1, 232, [(2, 8, 4, 4)], False, True),
        ("body.0", 2, 216, [(2, 8, 4, 4)], False, True),
        ("body.1", 2, 16, [(2, 8, 4, 4)], False, True),
        ("body.2", 2, 0, [(2, 8, 4, 4)], False, True),
        ("head", 1, 36, [(2, 4)], False, True),
        ("head", 1, 36, [(2, 4)], True, True),
        ("spare", 1, 20, None, False, False),
    ]
    assert told["total_params"] == 288 == sum(p.numel() for p in net.parameters()) and told["trainable_params"] == 284
    assert told["total_mult_adds"] == 2 * 8 * 16 * 27 + 2 * (2 * 4 * 8)
    assert told["input_bytes"] == 4 * 2 * 3 * 36
    assert told["output_bytes"] == 4 * (3 * 2 * 8 * 16 + 2 * 8)
    assert told["param_bytes"] == 4 * 288 + 4 * 16 + 8
    assert told["total_bytes"] == told["input_bytes"] + told["param_bytes"] + 2 * told["output_bytes"]


def test_the_table():
    text = str(
        torch.summary(
            Net(),
            input_size=(2, 3, 6, 6),
            depth=2,
            col_width=14,
            row_settings=("ascii_only", "var_names"),
            col_names=("input_size", "output_size", "num_params", "params_percent", "kernel_size", "mult_adds", "trainable"),
        )
    )
    lines = text.splitlines()
    assert (
        lines[1].split()
        == "Layer (type (var_name)) Input Shape Output Shape Param # Param % Kernel Shape Mult-Adds Trainable".split()
    )
    assert lines[5].split() == "+ Conv2d (0) [2, 3, 6, 6] [2, 8, 4, 4] 216 75.00% [3, 3] 6,912 True".split()
    assert lines[9].split()[2:] == "(head) [2, 8] [2, 4] (recursive) (recursive) -- 64 (recursive)".split()
    assert lines[10].split() == "+ Linear (spare) -- -- 20 6.94% -- -- True".split()
    assert "Total params: 288" in lines and "Non-trainable params: 0" in lines


def test_depth_and_recursive_rows():
    net = Net()
    assert len(torch.summary(net, input_size=(1, 3, 6, 6), depth=1).shown()) == 5
    assert len(torch.summary(net, input_size=(1, 3, 6, 6), depth=1, row_settings=("hide_recursive_layers",)).shown()) == 4


def test_nothing_changes():
    net = Net()
    net.body.eval()
    net.train()
    net.body[1].eval()
    modes, state = [m.training for m in net.modules()], torch.get_rng_state()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    for mode in ("eval", "same"):
        net.summary(input_size=(2, 3, 6, 6), mode=mode)
    assert modes == [m.training for m in net.modules()] and torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters()) and not net.head._forward_hooks


def test_several_inputs_and_given_data():
    class Pair(nn.Module):
        def forward(self, words, scale, shift=0.0):
            return words.float() * scale + shift

    found = torch.summary(Pair(), input_size=[(3,), (2, 3)], dtypes=[torch.int64, torch.float32])
    assert found.layers[0].input_size == [(3,), (2, 3)] and found.layers[0].output_size == [(2, 3)]
    data = {"words": torch.ones(3, dtype=torch.int64), "scale": torch.ones(2, 3)}
    assert torch.summary(Pair(), input_data=data, shift=1.0).layers[0].output_size == [(2, 3)]
    batched = torch.summary(nn.Linear(3, 2), input_size=(3,), batch_dim=0)
    assert batched.layers[0].input_size == [(1, 3)]


def test_wrong_arguments():
    for given, text in (
        ({}, "input_size or input_data"),
        ({"input_size": (1, 3), "col_names": ("odd",)}, "col_names"),
        ({"input_size": (1, 3), "mode": "both"}, "mode"),
        ({"input_size": (1, 3), "row_settings": ("x",)}, "row_settings"),
        ({"input_size": [(1, 3)], "dtypes": [torch.float32] * 2}, "1 sizes but 2 dtypes"),
    ):
        with pytest.raises(ValueError, match=text):
            torch.summary(nn.Linear(3, 2), **given)


def test_a_member_of_that_name_comes_first():
    class Owner(nn.Module):
        def __init__(self):
            super().__init__()
            self.summary = nn.Linear(2, 3)

        def forward(self, x):
            return self.summary(x)

    owner = Owner()
    x = torch.ones(1, 2)
    assert isinstance(owner.summary, nn.Linear)
    assert torch.equal(torch.compile(owner, backend="eager", fullgraph=True)(x), owner(x))
    assert torch.summary(owner, input_size=(1, 2)).total_params == 9
    other = nn.Module()
    other.register_buffer("summary", torch.ones(2))
    assert other.summary.tolist() == [1, 1]
    with pytest.raises(KeyError, match="already exists"):
        other.register_parameter("summary", nn.Parameter(torch.ones(2)))

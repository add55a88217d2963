"""The program that tests/capture/test_mutations.py changes between calls. Each test executes this file anew, so that its globals
and classes may be changed at will."""

import types

import flambeau as torch
import flambeau.nn as nn

SCALE = 0.5
TABLE = {"gain": 0.25, "names": ["a", "b"]}
library = types.SimpleNamespace(factor=1.25, act=torch.tanh)


def shifted(x, by=0.5, *, again=1.0):
    return x + by * again


def absolute(x):
    return abs(x)


class Config:
    use_cache = True

    def __init__(self):
        self.width, self.layers = 3, [1, 2]


class Base(nn.Module):
    bonus = 0.125
    _offset = 2.0

    def extra(self, x):
        return x + self.bonus

    @property
    def offset(self):
        return self._offset


class Block(Base):
    kind = "plain"

    def __init__(self, config):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.config, self.gains, self.options = config, [1.0, 0.5], {"bias": 0.5}
        self.register_buffer("shift", torch.full((3,), 0.25))
        self.rate = 1.0

    def forward(self, x):
        y = self.lin(x) * SCALE + self.shift
        for gain in self.gains:
            y = y * gain
        if self.config.use_cache:
            y = y + TABLE["gain"]
        if self.kind == "plain":
            y = self.extra(y)
        return library.act(y) * self.rate + self.options["bias"] + self.offset


class Other(Block):
    def forward(self, x):
        return super().forward(x) * 0.5


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = Config()
        self.blocks = nn.ModuleList([Block(self.config) for _ in range(2)])
        self.heads = nn.ModuleDict({"a": nn.Linear(3, 2), "b": nn.Linear(3, 2)})
        self.norm, self.drop = nn.LayerNorm(3), nn.Dropout(0.5)
        self.weight = nn.Parameter(torch.ones(3))
        self.seen = 0

    def forward(self, x):
        self.seen = self.seen + 1
        for block in self.blocks:
            x = shifted(block(x))
        x = self.drop(self.norm(x)) * self.weight * library.factor
        names = TABLE["names"]
        return absolute(self.heads[names[0]](x)) + self.heads[names[1]](x) + torch.full((1,), 0.7) + multiplied(x).sum()


def make_multiplied():
    factor = 3.0

    def multiplied(x):
        return x * factor

    return multiplied


multiplied = make_multiplied()

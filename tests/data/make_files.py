"""Writes the files of this folder with PyTorch: `python tests/data/make_files.py` where it is installed.

Their values are functions of shapes, so that tests know them without PyTorch.
"""

import pathlib
from collections import OrderedDict

import torch

HERE = pathlib.Path(__file__).parent
DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128 "
    "float8_e4m3fn float8_e5m2"
).split()


def ramp(*shape):
    n = torch.Size(shape).numel()
    return (torch.arange(n, dtype=torch.float32) - n // 2).reshape(shape) / 8


def filled(module):
    """A module with values that are ramps."""
    with torch.no_grad():
        for t in module.state_dict().values():
            t.copy_(ramp(*t.shape))
    return module


def resnet():
    nn = torch.nn
    block = nn.ModuleDict({"conv1": nn.Conv2d(2, 2, 3, bias=False), "bn1": nn.BatchNorm2d(2)})
    return filled(
        nn.Sequential(
            OrderedDict(
                conv1=nn.Conv2d(3, 2, 7, bias=False),
                bn1=nn.BatchNorm2d(2),
                layer1=nn.Sequential(block, block),
                fc=nn.Linear(2, 5),
            )
        )
    )


def adam():
    model = filled(torch.nn.Linear(3, 2))
    opt = torch.optim.Adam(model.parameters(), lr=0.125, weight_decay=0.5)
    model(ramp(4, 3)).square().sum().backward()
    opt.step()
    return {"model": model.state_dict(), "optimizer": opt.state_dict(), "epoch": 3, "best": 0.5}


def objects():
    types = {name: (torch.arange(6).reshape(2, 3) % 4).to(getattr(torch, name)) for name in DTYPES}
    base = ramp(4, 6)
    return {
        "types.pt": (types, {}),
        "types_legacy.pt": (
            {k: v for k, v in types.items() if not k.startswith(("uint16", "uint32", "uint64", "float8"))},
            {"_use_new_zipfile_serialization": False},
        ),
        "views.pt": ({"base": base, "t": base.t(), "part": base[1:, ::2], "param": torch.nn.Parameter(base)}, {}),
        "views_legacy.pt": (
            {"base": base, "t": base.t(), "part": base[1:, ::2], "param": torch.nn.Parameter(base)},
            {"_use_new_zipfile_serialization": False},
        ),
        "resnet.pt": (resnet().state_dict(), {}),
        "adam.pt": (adam(), {}),
        "module.pt": (filled(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU(), torch.nn.LayerNorm(4))), {}),
    }


if __name__ == "__main__":
    for name, (value, options) in objects().items():
        torch.save(value, HERE / name, **options)

"""The names of things in checkpoint files: PyTorch's, whatever the module is called here.

In: an object of ours, or a (module, name) of a file. Out: the other. `SAFE` is what a file may name when only weights
are wanted: inert values, and the functions that `rebuild.py` checks itself.
"""

from __future__ import annotations

import collections
import importlib
import threading

from .. import dtypes
from ..device import device
from ..nn.parameter import Buffer, Parameter
from ..random import Generator
from ..sizes import Size
from ..storage import UntypedStorage
from ..tensor import Tensor
from ..sparse import rebuilt
from ..typed_storage import LEGACY, TypedStorage
from . import rebuild

ROOT = __name__.partition(".eager.")[0]
EAGER = ROOT + ".eager."

_FUNCTIONS = {("torch._utils", f.__name__.replace("rebuild", "_rebuild", 1)): f for f in rebuild.TENSORS}
_FUNCTIONS["torch._tensor", "_rebuild_from_type_v2"] = rebuild.rebuild_from_type_v2
_FUNCTIONS["torch.serialization", "_get_layout"] = rebuild.get_layout
_FUNCTIONS["torch._utils", "_rebuild_sparse_tensor"] = rebuilt
_CLASSES = {
    ("torch", "Tensor"): Tensor,
    ("torch.nn.parameter", "Parameter"): Parameter,
    ("torch", "Size"): Size,
    ("torch", "device"): device,
    ("torch.storage", "UntypedStorage"): UntypedStorage,
    ("torch.storage", "TypedStorage"): TypedStorage,
}
_STORAGES = {("torch", name): cls for name, cls in LEGACY.items()}
_DTYPES = {("torch", d.name): d for d in dtypes.ALL}
OURS = {**_FUNCTIONS, **_CLASSES, **_STORAGES, **_DTYPES}
NAMES = {id(value): key for key, value in OURS.items()}  # by identity: dtypes and classes live for ever

# Other spellings that files use for the same.
OLD = {
    ("torch._C", "Generator"): Generator,
    ("torch._C", "device"): device,
    ("torch.nn.parameter", "Buffer"): Buffer,
    **{("torch.cuda", name): cls for name, cls in LEGACY.items()},
    **{("torch", cls.__name__.replace("Storage", "Tensor")): Tensor for cls in LEGACY.values()},
    **{("torch.cuda", cls.__name__.replace("Storage", "Tensor")): Tensor for cls in LEGACY.values()},
}

SAFE = {
    **OURS,
    **OLD,
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("collections", "Counter"): collections.Counter,
    ("_codecs", "encode"): rebuild.encode,
    ("__builtin__", "set"): set,
    ("builtins", "set"): set,
    ("builtins", "bytearray"): bytearray,
    ("__builtin__", "bytearray"): bytearray,
    ("builtins", "complex"): complex,
    ("__builtin__", "complex"): complex,
}
del SAFE["torch._C", "Generator"]  # not allowed by default, as in PyTorch

# What a file may call: everything else in SAFE is only named.
CALLS = {id(f): f for f in _FUNCTIONS.values()}
CALLS |= {
    id(rebuild.encode): rebuild.encode,
    id(collections.OrderedDict): collections.OrderedDict,
    id(collections.Counter): rebuild.counter,
    id(set): rebuild.new_set,
    id(bytearray): rebuild.new_bytearray,
    id(complex): rebuild.new_complex,
    id(Size): rebuild.size,
    id(device): device,
}


class _Added(threading.local):
    """Globals that the user allowed, by (module, name) as files spell them."""

    def __init__(self):
        self.table = {}


added = _Added()


def name_of(obj, name: str | None = None) -> tuple[str, str]:
    """(module, name) under which a class or function of ours, or anyone's, stands in a file."""
    known = NAMES.get(id(obj))
    if known:
        return known
    module = getattr(obj, "__module__", None) or "builtins"
    found = name or getattr(obj, "__qualname__", obj.__name__)
    if module.startswith(EAGER):
        module = "torch." + module[len(EAGER) :]
    return normal(module), found


def normal(module: str) -> str:
    """numpy's private package was renamed in version 2; files of both spell it as the new one."""
    return "numpy._core" + module[len("numpy.core") :] if module == "numpy.core" or module.startswith("numpy.core.") else module


def find(module: str, name: str):
    """The object that a trusted file names in PyTorch; AttributeError if there is none."""
    known = OURS.get((module, name)) or OLD.get((module, name))
    if known is not None:
        return known
    if module in ("torch._C._nn", "torch._C"):
        return _attribute(importlib.import_module(f"{EAGER}nn.functional"), name)
    rest = module[len("torch.") :]
    for place in ([EAGER + rest, f"{ROOT}.{rest}"] if rest else []) + [ROOT, ROOT + ".nn"]:
        try:
            return _attribute(importlib.import_module(place), name)
        except (ImportError, AttributeError):
            continue
    raise AttributeError(f"the file names {module}.{name}, which does not exist in flambeau")


def _attribute(obj, dotted: str):
    for part in dotted.split("."):
        obj = getattr(obj, part)
    return obj

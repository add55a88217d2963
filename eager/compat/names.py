"""Names at torch's top level that packages mention in annotations and checks: classes of scripts, files and devices."""

import importlib

from .. import api, device as devices, dtypes, sparse
from ..frontend import aten_ops
from ..sizes import SymBool as SymBool
from ..sizes import SymFloat as SymFloat
from ..sizes import SymInt as SymInt
from ..tensor import Tensor
from . import accelerators, missing
from ..cuda import OutOfMemoryError as OutOfMemoryError
from .jit import ScriptFunction as ScriptFunction
from .jit import ScriptModule as ScriptModule
from .jit import ScriptObject as ScriptObject
from .futures import Future as Future

PyTorchFileReader = missing.kind("torch.PyTorchFileReader", "use torch.load, or zipfile for the raw records")
PyTorchFileWriter = missing.kind("torch.PyTorchFileWriter", "use torch.save")
_segment_reduce = aten_ops.segment_reduce
Stream = missing.kind("torch.Stream", "there is no device with streams here")
Event = missing.kind("torch.Event", "there is no device with streams here")


def _as_tensor_fullprec(t):
    """A Python number as a tensor of its own precision (float64, int64); anything else as `as_tensor` makes it."""
    return (
        api.tensor(t, dtype=dtypes.float64 if type(t) is float else dtypes.int64) if type(t) in (float, int) else api.as_tensor(t)
    )


def get_device_module(device=None):
    """`torch.cpu` and so on for a device, its name, or the present one (None). RuntimeError if there is none."""
    name = (devices.device(device) if isinstance(device, str) else device or devices.device("cpu")).type
    if name == "cuda":
        return importlib.import_module("..cuda", __package__)
    module = getattr(accelerators, name, None)
    if module is None:
        raise RuntimeError(f"Device '{name}' does not have a corresponding module registered as 'torch.{name}'.")
    return module


def _check_with(error_type, cond, message=None):
    """Raises `error_type` with the message (a function that gives it) unless `cond`."""
    if not cond:
        raise error_type("Expected cond to be True" if message is None else str(message()))


def _check_tensor_all_with(error_type, cond, message=None):
    """The same for every entry of a boolean tensor."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not dtypes.bool:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all()), message)


def _check_tensor_all(cond, message=None):
    _check_tensor_all_with(RuntimeError, cond, message)


def _convert_indices_from_coo_to_csr(input, size, *, out_int32=False):
    """Sorted rows (nnz) of a matrix with `size` rows -> where each row begins (size + 1)."""
    starts = sparse.starts_of(input, size)
    return starts.to(dtypes.int32) if out_int32 else starts


def _convert_indices_from_csr_to_coo(crow_indices, col_indices, *, out_int32=False, transpose=False):
    """Where each row begins, and columns (nnz) -> places (2, nnz)."""
    rows, columns = sparse.rows_of(crow_indices), col_indices.to(dtypes.int64)
    places = api.stack([columns, rows] if transpose else [rows, columns])
    return places.to(dtypes.int32) if out_int32 else places

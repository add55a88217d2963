"""Tensor: a numpy array with a type, a device and a place in the autograd graph; or, as a fake, a geometry without
bytes.

The first five slots are read by C++ at fixed offsets. Operations are not here: they are installed from the op records
(`install_methods`); what stands here is what a tensor *is*: geometry, storage, identity, conversion, gradient state.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import _call
from ._call import fresh_view
from .memory_formats import strided as strided_layout
from . import device as devices
from . import dtypes
from .errors import DataDependent
from .printing import text
from .sizes import RowMajor, contiguous_strides, is_row_major, numel, settled_sizes, static
from .state import state
from .storage import Storage, address, copied, flat_bytes, strided

_new = object.__new__
_cpu = devices.cpu


class View(NamedTuple):
    """How a tensor views another: by which record and arguments (after the tensor). `how`: what forbids recorded writes
    through it: made under "no_grad" or in "inference" mode, or as one of "multiple" outputs."""

    parent: Tensor | Any  # None at the end of a chain of views
    op: Any
    args: tuple
    how: str | None = None


INFERENCE = View(None, None, (), "inference")  # `_fl_view` of a tensor that was made in inference mode
DATA = View(None, None, ())  # `_fl_view` of `t.data`: an alias whose writes do not move the autograd version


class Tensor:
    """`_fl_view` and `_fl_storage` are None until needed; `_fl_geometry` (sizes, strides or None for contiguous, offset, in
    elements) is set with the storage; other slots may be unset on results of the fast paths.
    """

    __slots__ = (
        "_fl_array",
        "_fl_dtype",
        "_fl_device",
        "_fl_requires_grad",
        "_grad_fn",
        "_fl_storage",
        "_fl_view",
        "_fl_geometry",
        "_grad",
        "_fl_output_nr",
        "_fl_hooks",
        "__weakref__",
        "__dict__",
    )

    _fl_array: Any  # np.ndarray; None of a fake
    _fl_dtype: dtypes.dtype
    _fl_device: devices.device
    _fl_requires_grad: bool
    _grad_fn: Any  # Node | None
    _fl_storage: Storage | Any
    _fl_view: View | None
    _fl_geometry: Any
    _fl_output_nr: int

    if TYPE_CHECKING:  # the methods of `api.py`'s list are put on the class when that module is imported

        def __getattr__(self, name: str) -> Any: ...

        def __getitem__(self, key: Any, /) -> Any: ...
        def __setitem__(self, key: Any, value: Any, /) -> None: ...
        def __iter__(self) -> Iterator[Any]: ...
        def __reversed__(self) -> Any: ...
        def __contains__(self, value: Any, /) -> bool: ...
        def _binary(self, other: Any, /) -> Any: ...
        def _unary(self) -> Any: ...

        __add__ = __sub__ = __mul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = __matmul__ = _binary
        __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = __rmatmul__ = _binary
        __iadd__ = __isub__ = __imul__ = __itruediv__ = __ifloordiv__ = __imod__ = __ipow__ = _binary
        __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = _binary
        __rand__ = __ror__ = __rxor__ = __rlshift__ = __rrshift__ = _binary
        __iand__ = __ior__ = __ixor__ = __ilshift__ = __irshift__ = _binary
        __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _binary
        __neg__ = __pos__ = __abs__ = __invert__ = _unary

    # -- construction

    @staticmethod
    def _fl_from_array(array: np.ndarray, dtype, cls=None) -> Tensor:
        """Wrap an array without copying."""
        t = _new(cls or Tensor)
        t._fl_array = array
        t._fl_dtype = dtype
        t._fl_device = _cpu
        t._fl_requires_grad = False
        t._grad_fn = t._fl_storage = None
        t._fl_view = fresh_view()
        return t

    def _fl_alias(self) -> Tensor:
        """Another tensor over the same bytes, without history."""
        t = _new(Tensor)
        t._fl_array, t._fl_dtype, t._fl_device, t._fl_requires_grad, t._grad_fn = (
            self._fl_array,
            self._fl_dtype,
            self._fl_device,
            False,
            None,
        )
        t._fl_storage = self._fl_ensure_storage()
        t._fl_view = None if self._fl_view is None or not self.is_inference() else INFERENCE
        t._fl_geometry = self._fl_geometry
        return t

    @staticmethod
    def _fl_over(storage: Storage, dtype, sizes, strides, offset, cls=None) -> Tensor:
        """A tensor with this geometry (in elements) over a storage with bytes."""
        flat = storage.bytes
        array = strided(flat, dtype.numpy, sizes, strides, offset) if flat.nbytes else np.empty(sizes, dtype.numpy)
        t = Tensor._fl_from_array(array, dtype, cls)
        t._fl_storage, t._fl_geometry = storage, (array.shape, strides, offset)
        return t

    # -- geometry

    @property
    def _fl_fake(self) -> bool:
        return self._fl_array is None

    shape = property(_call.shape)

    @property
    def _fl_sizes(self) -> tuple:
        a = self._fl_array
        return a.shape if a is not None else self._fl_geometry[0]

    @property
    def _fl_strides(self) -> tuple:
        if self._fl_storage is None:
            return array_strides(self._fl_array)
        sizes, strides, offset = self._fl_geometry
        if strides is None:
            strides = RowMajor(contiguous_strides(sizes))
            self._fl_geometry = sizes, strides, offset
        return strides

    def size(self, dim=None):
        return self.shape if dim is None else self._fl_sizes[self._fl_dim(dim)]

    def stride(self, dim=None):
        return tuple(self._fl_strides) if dim is None else self._fl_strides[self._fl_dim(dim)]

    def _fl_dim(self, dim: int) -> int:
        n = self.ndim
        if not -max(n, 1) <= dim < max(n, 1):
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-max(n, 1)}, {max(n, 1) - 1}], but got {dim})"
            )
        return dim + n if dim < 0 else dim

    def storage_offset(self):
        return 0 if self._fl_storage is None else self._fl_geometry[2]

    @property
    def ndim(self) -> int:
        a = self._fl_array
        return a.ndim if a is not None else len(self._fl_geometry[0])

    def dim(self) -> int:
        return self.ndim

    ndimension = dim

    def numel(self):
        a = self._fl_array
        return a.size if a is not None else numel(self._fl_geometry[0])

    nelement = numel

    def element_size(self) -> int:
        return self._fl_dtype.itemsize

    @property
    def itemsize(self) -> int:
        return self._fl_dtype.itemsize

    @property
    def nbytes(self):
        return self.numel() * self._fl_dtype.itemsize

    @property
    def dtype(self):
        return self._fl_dtype

    @property
    def device(self):
        return self._fl_device

    is_cuda = property(lambda self: self._fl_device.type == "cuda")
    is_cpu = property(lambda self: self._fl_device.type == "cpu")
    is_meta = property(lambda self: self._fl_device.type == "meta")
    is_sparse = is_sparse_csr = is_quantized = is_mkldnn = is_nested = False
    is_mps = is_xpu = is_xla = is_ipu = is_mtia = is_maia = is_vulkan = False  # places that do not exist here
    name = property(lambda self: None)

    @property
    def layout(self):
        return strided_layout

    def get_device(self) -> int:
        return -1 if self._fl_device.type == "cpu" else self._fl_device.index or 0

    def is_floating_point(self) -> bool:
        return self._fl_dtype.is_floating_point

    def is_complex(self) -> bool:
        return self._fl_dtype.is_complex

    def is_signed(self) -> bool:
        return self._fl_dtype.is_signed

    def is_inference(self) -> bool:
        """Whether it was made in inference mode: such tensors have no version and take no part in recording."""
        return self._fl_root_view() is INFERENCE

    def _fl_root_view(self) -> View | None:
        """None, or the `_fl_view` that stands at the end of a chain of views: DATA or INFERENCE."""
        view = self._fl_view
        while view is not None and view.parent is not None:
            view = view.parent._fl_view
        return view

    def is_contiguous(self, memory_format=None) -> bool:
        name = getattr(memory_format, "name", None)
        if name in (None, "contiguous_format", "preserve_format"):
            a = self._fl_array
            if a is not None:
                return a.flags.c_contiguous
            return is_row_major(self._fl_geometry[1]) or is_dense(self._fl_sizes, self._fl_strides, range(self.ndim))
        order = {"channels_last": (0, 2, 3, 1), "channels_last_3d": (0, 2, 3, 4, 1)}[name]
        return self.ndim == len(order) and is_dense(self._fl_sizes, self._fl_strides, order)

    # -- storage

    def _fl_ensure_storage(self) -> Storage:
        if self._fl_storage is None:
            self._fl_geometry = (self._fl_array.shape, array_strides(self._fl_array), 0)
            self._fl_storage = Storage(flat_bytes(self._fl_array), device=self._fl_device)
            if self._grad_fn is not None and self._grad_fn.outs is not None:
                self._grad_fn.tell_saved(self)
        return self._fl_storage

    def untyped_storage(self) -> Storage:
        return self._fl_ensure_storage()

    def data_ptr(self) -> int:
        if self._fl_array is None:
            runtime = self._fl_storage.runtime
            if runtime is None or not hasattr(runtime, "pointer"):
                raise DataDependent("data_ptr()")
            return runtime.pointer(self)
        self._fl_ensure_storage().foreign = True
        return address(self._fl_array)

    @property
    def __cuda_array_interface__(self) -> dict:
        """Where other libraries find a CUDA tensor's memory (version 2 of that protocol)."""
        if self._fl_device.type != "cuda":
            raise AttributeError(
                f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {self.type()} If CUDA data is "
                "required use tensor.cuda() to copy tensor to device memory."
            )
        if self.requires_grad:
            raise RuntimeError(
                "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients aren't "
                "required, use var.detach() to get Variable that doesn't require grad."
            )
        return self._fl_storage.runtime.interface(self)

    @property
    def _cdata(self) -> int:
        """A number that no other tensor of now has: two names of one object have the same."""
        return id(self)

    @property
    def _version(self) -> int:
        if self._fl_view is not None and self.is_inference():
            raise RuntimeError("Inference tensors do not track version counter.")
        return 0 if self._fl_storage is None else self._fl_storage._version

    @property
    def _base(self) -> Tensor | None:
        """The tensor that this one is (through any number of steps) a recorded view of."""
        view = self._fl_view
        if view is None or view.parent is None:
            return None
        while view is not None and view.parent is not None:
            base, view = view.parent, view.parent._fl_view
        return base

    def _is_view(self) -> bool:
        return self._base is not None

    # -- gradient state

    @property
    def requires_grad(self) -> bool:
        return self._fl_requires_grad or self._grad_fn is not None

    @requires_grad.setter
    def requires_grad(self, value: bool):
        if not isinstance(value, bool):
            raise RuntimeError("requires_grad must be a bool")
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        if not isinstance(requires_grad, bool):
            raise TypeError(
                f"requires_grad_(): argument 'requires_grad' (position 1) must be bool, not {type(requires_grad).__name__}"
            )
        if self._grad_fn is not None:
            if not requires_grad:
                raise RuntimeError(
                    "you can only change requires_grad flags of leaf variables. If you want to use a computed "
                    "variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach()."
                )
            return self
        if requires_grad:
            check_differentiable(self)
        self._fl_requires_grad = bool(requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        return self._grad_fn is None

    @property
    def output_nr(self) -> int:
        return self._fl_output_nr if self._grad_fn is not None else 0

    @property
    def grad(self) -> Tensor | None:
        try:
            return self._grad
        except AttributeError:
            return None

    @grad.setter
    def grad(self, value):
        if value is not None:
            _check_grad(self, value)
        self._grad = value

    @grad.deleter
    def grad(self):
        self._grad = None

    # -- reading values

    def _values(self, what: str) -> np.ndarray:
        """The array, or DataDependent for a fake."""
        if self._fl_array is None:
            if self._fl_device.type == "meta":
                raise NotImplementedError(f"Cannot copy out of meta tensor; no data! ({what})")
            if self._fl_storage.runtime is not None:
                return values_on_host(self, what)
            raise DataDependent(what)
        return self._fl_array

    def item(self):
        fake = self._fl_array is None and self._fl_storage.runtime is None
        if fake and self._fl_dtype is not dtypes.bool and not self._fl_dtype.is_complex and self.numel() == 1:
            return read_of_fake(self, "item")
        a = self._values("item()")
        if a.size != 1:
            raise RuntimeError(f"a Tensor with {a.size} elements cannot be converted to Scalar")
        return scalar(a.item())

    def tolist(self):
        a = self._values("tolist()")
        return (a.astype(np.float32) if a.dtype.kind == "V" else a).tolist()

    def __bool__(self) -> bool:
        if self.numel() != 1:
            if self.numel() == 0:
                raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        return bool(self._values("bool()").item())

    def __int__(self) -> int:
        return int(self._fl_single())

    def __float__(self) -> float:
        return float(self._fl_single())

    def _fl_single(self):
        if self.numel() != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        return self.item()

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if self._fl_dtype.category > 1 or self.numel() != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return self._fl_sizes[0]

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The array itself: memory is shared both ways."""
        if self.requires_grad and not force:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        a = self._values("numpy()")
        self._fl_ensure_storage().foreign = True
        return a

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        a = self.numpy()
        return a.astype(dtype) if dtype is not None and a.dtype != dtype else a.copy() if copy else a

    __array_priority__ = 1000  # numpy leaves `array + tensor` to us

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self, *, tensor_contents=None):
        return text(self)

    def __format__(self, spec: str) -> str:
        """A single number is formatted as the Python number."""
        if self.ndim == 0 and self._fl_device.type != "meta":
            return self.item().__format__(spec)
        return object.__format__(self, spec)


def array_strides(array: np.ndarray) -> tuple:
    """Strides in elements; those of an array without elements are as if contiguous."""
    step = array.itemsize
    return tuple([s // step for s in array.strides]) if array.size else contiguous_strides(array.shape)


def scalar(value):
    """A Python number from what numpy's item() gives (ml_dtypes' scalars are numpy objects)."""
    return value if type(value) in (float, int, bool, complex) else float(value)


def is_dense(sizes, strides, order) -> bool:
    """True if the strides are those of contiguous memory with dimensions in `order` (outermost first); size 1 matches
    any.
    """
    step = 1
    for d in reversed(tuple(order)):
        n = sizes[d]
        if type(n) is int and n == 1:
            continue
        if not strides[d] == step:
            return any(type(m) is int and m == 0 for m in sizes)
        step = step * n
    return True


def check_differentiable(t: Tensor) -> None:
    """Refuse what can not come to require a gradient."""
    if t._fl_dtype.category < 2:
        raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
    if t._fl_view is not None and t.is_inference() and fresh_view() is None:
        raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")


def _check_grad(t: Tensor, value) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}")
    if value is t:
        raise RuntimeError("can't assign Variable as its own grad")
    if value._fl_sizes != t._fl_sizes:
        raise RuntimeError(
            f"attempting to assign a gradient of size '{list(value._fl_sizes)}' to a tensor of size '{list(t._fl_sizes)}'. "
            "Please ensure that the gradient and the tensor are the same size"
        )
    if value._fl_dtype is not t._fl_dtype:
        raise RuntimeError(
            f"attempting to assign a gradient with dtype '{value._fl_dtype.name}' to a tensor with grad_dtype "
            f"'{t._fl_dtype.name}'. The gradient must match the tensor's dtype"
        )


def values_on_host(tensor: Tensor, what: str) -> np.ndarray:
    """The numbers of a tensor in a device's memory, as a copy; arrays that ought to share its memory are refused."""
    if what in ("numpy()", "__array__", "__array__()"):
        raise TypeError(
            f"can't convert {tensor._fl_device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
            "host memory first."
        )
    return tensor._fl_storage.runtime.read(tensor)


def read_of_fake(tensor: Tensor, what: str, *more):
    """The data of a tensor without bytes, as the mode that traces it stands for it; `more`: what else decides the result."""
    for mode in reversed(state.modes):
        if hasattr(mode, "read"):
            return mode.read(what, tensor, *more)
    runtime = tensor._fl_storage.runtime
    if runtime is not None and not state.fake:
        return runtime.answer(what, tensor, *more)
    return tensor._values(f"{what}()")


def fake_tensor(
    sizes, strides=None, dtype=dtypes.float32, device=_cpu, requires_grad: bool = False, storage: Storage | None = None, offset=0
) -> Tensor:
    """A tensor without bytes. `strides=None` means contiguous; a `storage` makes it an alias of the others in it."""
    if not static(sizes):
        sizes, strides = settled_sizes(sizes, strides)
    t = _new(Tensor)
    t._fl_array, t._fl_dtype, t._fl_device, t._fl_requires_grad, t._grad_fn, t._fl_view = (
        None,
        dtype,
        device,
        requires_grad,
        None,
        None,
    )
    t._fl_geometry = (tuple(sizes), None if strides is None else tuple(strides), offset)
    t._fl_storage = storage if storage is not None else Storage(None, device=device)
    return t


def install_methods(table: dict) -> None:
    """Give Tensor the methods of a table name -> function (or property)."""
    for name, method in table.items():
        setattr(Tensor, name, method)


# -- copying and pickling


def rebuild(storage: Storage, dtype, sizes, strides, offset, requires_grad: bool, attributes: dict, cls) -> Tensor:
    """What a pickled tensor is made of again; tensors over one storage stay that."""
    if storage.bytes is None:
        t = fake_tensor(sizes, strides, dtype, storage.device, storage=storage, offset=offset)
        t.__class__ = cls
    else:
        t = Tensor._fl_over(storage, dtype, sizes, strides, offset, cls)
    t._fl_requires_grad = requires_grad
    if attributes:
        t.__dict__.update(attributes)
    return t


def rebuild_meta(sizes, strides, dtype, requires_grad: bool, attributes: dict, cls) -> Tensor:
    t = fake_tensor(sizes, strides, dtype, devices.meta, requires_grad)
    t.__class__ = cls
    t.__dict__.update(attributes)
    return t


def _reduce(self, protocol=2):
    """Values and what a leaf has; a result comes back as a leaf."""
    rest = (self.requires_grad, dict(self.__dict__), type(self))
    if self._fl_device.type == "meta":
        return rebuild_meta, (tuple(self._fl_sizes), tuple(self._fl_strides), self._fl_dtype, *rest)
    self._values("pickling")
    storage = self._fl_ensure_storage()
    return rebuild, (storage, self._fl_dtype, self._fl_sizes, self._fl_strides, self.storage_offset(), *rest)


def _deepcopy(self, memo):
    if id(self) in memo:
        return memo[id(self)]
    if self._grad_fn is not None:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment. "
            "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage."
        )
    storage = copied(self._fl_ensure_storage(), memo)
    if self._fl_array is None:
        sizes, strides, offset = self._fl_geometry
        new = fake_tensor(sizes, strides, self._fl_dtype, self._fl_device, storage=storage, offset=offset)
        new.__class__ = type(self)
    else:
        new = Tensor._fl_over(storage, self._fl_dtype, self._fl_sizes, self._fl_strides, self.storage_offset(), type(self))
    new._fl_requires_grad = self._fl_requires_grad
    memo[id(self)] = new
    if self.__dict__:
        new.__dict__.update(copy.deepcopy(self.__dict__, memo))
    if self.grad is not None:
        new._grad = copy.deepcopy(self.grad, memo)
    return new


def _copy(self):
    """A shallow copy: the same bytes."""
    new = self._fl_alias()
    new.__class__ = type(self)
    new._fl_requires_grad = self._fl_requires_grad
    new.__dict__.update(self.__dict__)
    return new


install_methods({"__reduce_ex__": _reduce, "__deepcopy__": _deepcopy, "__copy__": _copy})

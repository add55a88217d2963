"""What a tensor is: geometry, storage, conversion, printing, copying, sizes, devices."""

import copy
import pickle

import numpy as np
import pytest

from flambeau.eager import device as devices
from flambeau.eager import dtypes as d
from flambeau.eager.op.op import OPS
from flambeau.eager.printing import set_printoptions
from flambeau.eager.sizes import Size, contiguous_strides, is_int
from flambeau.eager.tensor import Tensor

from .core_support import T, V  # noqa: E402

permute, select, mul = OPS["permute"], OPS["select"], OPS["mul"]


def test_geometry():
    x = T(np.zeros((2, 3, 4)))
    assert x.shape == (2, 3, 4) and isinstance(x.shape, Size) and x.shape.numel() == 24 and x.size(-1) == 4
    assert x.stride() == (12, 4, 1) and x.stride(0) == 12 and x.ndim == x.dim() == 3 and x.numel() == 24
    p = permute(x, (2, 0, 1))
    assert p.stride() == (1, 12, 4) and not p.is_contiguous() and x.is_contiguous()
    assert p.untyped_storage() is x.untyped_storage() and p.data_ptr() == x.data_ptr()
    v = select(x, 1, 2)
    assert v.storage_offset() == 8 and v.shape == (2, 4)
    with pytest.raises(IndexError, match=r"Dimension out of range .expected to be in range of \[-3, 2\], but got 3"):
        x.size(3)


def test_sizes():
    s = Size((2, 3, 4))
    assert isinstance(s[:-1], Size) and s[:-1] + (7,) == (2, 3, 7) and isinstance(s + (1,), Size) and s[0] == 2
    assert repr(s) == "torch.Size([2, 3, 4])" and s.numel() == 24 and (*s,) == (2, 3, 4) and pickle.loads(pickle.dumps(s)) == s
    assert contiguous_strides((2, 0, 3)) == (3, 3, 1) and contiguous_strides(()) == ()
    assert is_int(3) and not is_int(True) and not is_int(2.0)


def test_reading_values():
    assert T(3.5).item() == 3.5 and type(T(3).item()) is int and type(T([True]).item()) is bool
    assert float(T([2.0])) == 2.0 and int(T(2.7)) == 2 and bool(T([0.0])) is False
    assert T([1.5], dtype=d.bfloat16).item() == 1.5 and type(T([1.5], dtype=d.bfloat16).item()) is float
    assert [10, 20, 30][T(1)] == 20 and list(range(T(3))) == [0, 1, 2]
    assert T([[1.0, 2.0]], dtype=d.float16).tolist() == [[1.0, 2.0]] and f"{T(2.5):.2f}" == "2.50"
    with pytest.raises(RuntimeError, match="a Tensor with 2 elements cannot be converted to Scalar"):
        T([1.0, 2.0]).item()
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
        bool(T([1.0, 2.0]))
    with pytest.raises(TypeError, match="only integer tensors of a single element can be converted to an index"):
        [1, 2][T(1.0)]
    with pytest.raises(TypeError, match="len.. of a 0-d tensor"):
        len(T(1.0))


def test_hash_and_identity():
    x, y = T([1.0]), T([1.0])
    assert hash(x) != hash(y) and len({x: 1, y: 2}) == 2


def test_numpy_shares_memory():
    x = T([1.0, 2.0])
    x.numpy()[0] = 7
    assert V(x) == [7.0, 2.0] and np.asarray(x) is x._fl_array
    with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad"):
        T([1.0], True).numpy()


def test_strided_foreign_arrays():
    base = np.arange(12, dtype=np.float32).reshape(3, 4)
    x = Tensor._fl_from_array(base[:, ::2], d.float32)
    assert x.stride() == (4, 2) and V(select(x, 1, 1)) == [2.0, 6.0, 10.0]
    OPS["add"].inplace(select(x, 0, 1), 100.0)
    assert base[1].tolist() == [104.0, 5.0, 106.0, 7.0]
    with pytest.raises(ValueError, match="negative"):
        Tensor._fl_from_array(base[::-1], d.float32).untyped_storage()


def test_operations_on_noncontiguous_and_empty():
    x = permute(T(np.arange(6.0).reshape(2, 3)), (1, 0))
    assert V(mul(x, x)) == [[0.0, 9.0], [1.0, 16.0], [4.0, 25.0]] and mul(x, x).stride() == (1, 3)
    empty = T(np.zeros((0, 3)))
    assert mul(empty, 2.0).shape == (0, 3) and V(OPS["sum"](empty, (0,), False)) == [0.0, 0.0, 0.0]
    assert mul(T(2.0), T(3.0)).shape == () and V(mul(T(2.0), T(3.0))) == 6.0


def test_arguments_are_checked():
    with pytest.raises(TypeError, match=r"mul\(\): argument 'b' must be Tensor, not str"):
        mul(T([1.0]), "x")
    with pytest.raises(TypeError, match="missing required argument 'dim'"):
        OPS["sum"](T([1.0]))
    with pytest.raises(TypeError, match="unexpected keyword argument 'axis'"):
        OPS["sum"](T([1.0]), axis=0)
    with pytest.raises(
        RuntimeError, match=r"size of tensor a \(2\) must match the size of tensor b \(3\).*mul: shapes \[2\] and \[3\]"
    ):
        mul(T([1.0, 2.0]), T([1.0, 2.0, 3.0]))


# -- copying


def test_pickle_keeps_types_flags_and_geometry():
    for x in (
        T([1.0, 2.0], True),
        T([1, 2]),
        T([[1.0, 2.0]], dtype=d.bfloat16),
        permute(T(np.arange(6.0).reshape(2, 3)), (1, 0)),
    ):
        y = pickle.loads(pickle.dumps(x))
        assert V(y) == V(x) and y.dtype is x.dtype and y.requires_grad == x.requires_grad and y.stride() == x.stride()
    assert pickle.loads(pickle.dumps(d.float32)) is d.float32 and pickle.loads(pickle.dumps(devices.device("cuda:1"))).index == 1


def test_pickle_keeps_aliases():
    x = T([1.0, 2.0, 3.0])
    v = OPS["slice"](x, 0, 1, 1, 2)
    y, w = pickle.loads(pickle.dumps((x, v)))
    OPS["add"].inplace(w, 10.0)
    assert V(w) == [12.0, 13.0]


def test_deepcopy():
    x = T([1.0, 2.0], True)
    x.grad = T([5.0, 6.0])
    y = copy.deepcopy(x)
    assert (
        y is not x
        and V(y) == [1.0, 2.0]
        and y.requires_grad
        and V(y.grad) == [5.0, 6.0]
        and not np.shares_memory(x._fl_array, y._fl_array)
    )
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(mul(x, 2.0))


def test_deepcopy_keeps_aliases():
    x = T([[1.0, 2.0], [3.0, 4.0]])
    a, b = copy.deepcopy([x, select(x, 0, 1)])
    OPS["add"].inplace(b, 10.0)
    assert V(a) == [[1.0, 2.0], [13.0, 14.0]] and V(x) == [[1.0, 2.0], [3.0, 4.0]]


def test_copy_is_an_alias():
    x = T([1.0, 2.0], True)
    y = copy.copy(x)
    assert y is not x and y.untyped_storage() is x.untyped_storage() and y.requires_grad


# -- gradients as attributes


def test_grad_attribute():
    x = T([1.0, 2.0], True)
    assert x.grad is None and x.is_leaf and x.grad_fn is None
    x.grad = T([1.0, 1.0])
    x.grad = None
    with pytest.raises(RuntimeError, match="size '\\[1\\]' to a tensor of size '\\[2\\]'"):
        x.grad = T([1.0])
    with pytest.raises(RuntimeError, match="dtype 'int64' to a tensor with grad_dtype 'float32'"):
        x.grad = T([1, 2])
    with pytest.raises(TypeError, match="assigned grad expected to be a Tensor or None"):
        x.grad = 3
    x.requires_grad = False
    assert not x.requires_grad


# -- devices


def test_devices():
    cpu = devices.device("cpu")
    assert devices.device("cuda", 1) is devices.device("cuda:1") and str(devices.device("cuda:1")) == "cuda:1"
    assert repr(cpu) == "device(type='cpu')" and cpu is devices.device(cpu) and cpu != devices.device("meta")
    with pytest.raises(RuntimeError, match="Expected one of"):
        devices.device("nowhere")
    with pytest.raises(RuntimeError, match="CUDA is not available.*install cupy"):
        devices.resolve_device("cuda")
    with devices.device("meta"):
        assert devices.get_default_device() is devices.meta
    assert devices.get_default_device() is cpu


def test_meta_device_makes_no_bytes():
    x = OPS["full"]((2, 3), 1.0, d.float32, devices.meta)
    assert x._fl_fake and x.device.type == "meta" and mul(x, 2.0).device.type == "meta"
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        x.tolist()


# -- printing (texts from PyTorch 2.13)

TEXTS = [
    ([1.0, 2.0, 3.0], "tensor([1., 2., 3.])"),
    ([1.5, 2.25], "tensor([1.5000, 2.2500])"),
    ([1, 20, -3], "tensor([ 1, 20, -3])"),
    ([True, False], "tensor([ True, False])"),
    (2.5, "tensor(2.5000)"),
    ([], "tensor([])"),
    ([[1.0, 2.0], [3.0, 4.0]], "tensor([[1., 2.],\n        [3., 4.]])"),
    ([1e-5, 1.0], "tensor([1.0000e-05, 1.0000e+00])"),
    ([1e10, 1.0], "tensor([1.0000e+10, 1.0000e+00])"),
    ([float("inf"), float("nan"), -1.0], "tensor([inf, nan, -1.])"),
    ([0.1, 100.25], "tensor([1.0000e-01, 1.0025e+02])"),
    ([[[1], [2]], [[3], [4]]], "tensor([[[1],\n         [2]],\n\n        [[3],\n         [4]]])"),
]


@pytest.mark.parametrize("values,expected", TEXTS)
def test_text(values, expected):
    assert repr(T(values)) == expected


def test_text_of_attributes():
    assert repr(T([1.0], True)) == "tensor([1.], requires_grad=True)"
    assert repr(mul(T([1.0], True), 2.0)) == "tensor([2.], grad_fn=<MulBackward0>)"
    assert repr(T([1.0], dtype=d.float64)) == "tensor([1.], dtype=torch.float64)"
    assert repr(T([1.0], dtype=d.bfloat16)) == "tensor([1.], dtype=torch.bfloat16)"
    assert repr(T(np.zeros((0, 3)))) == "tensor([], size=(0, 3))"
    assert repr(T([1, 2], dtype=d.int32)) == "tensor([1, 2], dtype=torch.int32)"


def test_text_of_long_tensors():
    text = repr(T(np.arange(2000.0)))
    assert text == "tensor([0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 1.9970e+03, 1.9980e+03,\n        1.9990e+03])"
    lines = repr(T(np.arange(30))).split("\n")
    assert len(lines) == 2 and lines[0].startswith("tensor([ 0,  1,") and lines[1].startswith("        ")


def test_print_options():
    try:
        set_printoptions(precision=2)
        assert repr(T([1.234])) == "tensor([1.23])"
        set_printoptions(sci_mode=True)
        assert repr(T([1.5])) == "tensor([1.50e+00])"
    finally:
        set_printoptions(profile="default", sci_mode=None)
    assert repr(T([1.234])) == "tensor([1.2340])"

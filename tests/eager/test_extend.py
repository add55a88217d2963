"""What is offered to those who add ops, kernels and devices: refusals with texts, types, strides, checks that catch mistakes."""

import ctypes
import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import flambeau as torch
from flambeau.runtime import plugin_abi, toolchain

ROOT = pathlib.Path(__file__).resolve().parents[2]
needs_compiler = pytest.mark.skipif(toolchain.compiler() is None, reason="no C++ compiler")

TELL = """
#include "flambeau_op.h"
FLAMBEAU_KERNEL(tell) {                 // out: float64 [type, dims, elements, dense, first element's index sum]
    double* y = (double*)out[0].data;
    long steps = 0;
    for (int d = 0; d < in[0].dims; d++) steps += in[0].strides[d];
    y[0] = in[0].type, y[1] = in[0].dims, y[2] = flambeau::elements(in[0]), y[3] = flambeau::dense(in[0]), y[4] = steps;
    return count > 1 ? "two numbers are too many" : nullptr;
}
FLAMBEAU_KERNEL(twice) {
    const flambeau_tensor &x = in[0], &y = out[0];
    flambeau::parallel(runtime, flambeau::elements(x), 100, [&](long begin, long end) {
        for (long i = begin; i < end; i++) ((float*)y.data)[i] = 2 * ((const float*)x.data)[i];
    });
    return nullptr;
}
"""


@pytest.fixture(scope="module")
def kernels():
    from flambeau import extend

    return extend.cpp_kernels(TELL, ["tell", "twice"])


def told(kernel, array):
    out = np.zeros(5)
    kernel([out], [array])
    return out.tolist()


@needs_compiler
def test_kernels_see_types_sizes_and_strides(kernels):
    tell, _ = kernels
    x = np.zeros((3, 4), np.float32)
    assert told(tell, x) == [plugin_abi.TYPES["float32"], 2, 12, 1, 5]
    assert told(tell, x.T) == [plugin_abi.TYPES["float32"], 2, 12, 0, 5]
    assert told(tell, x[:, ::2]) == [plugin_abi.TYPES["float32"], 2, 6, 0, 6]
    assert told(tell, np.array(True)) == [plugin_abi.TYPES["bool"], 0, 1, 1, 0]
    assert told(tell, np.zeros((0, 3), np.int64))[:4] == [plugin_abi.TYPES["int64"], 2, 0, 1]
    assert told(tell, torch.zeros(2, dtype=torch.bfloat16)._fl_array)[0] == plugin_abi.TYPES["bfloat16"]


@needs_compiler
def test_ranges_of_the_pool_cover_everything_once(kernels):
    x = np.arange(100_003, dtype=np.float32)
    y = np.full_like(x, -1)
    kernels[1]([y], [x])
    assert np.array_equal(y, 2 * x)


@needs_compiler
def test_refusals_carry_the_kernels_text(kernels):
    from flambeau import extend

    tell, twice = kernels
    with pytest.raises(extend.KernelError, match="two numbers are too many"):
        tell([np.zeros(5)], [np.zeros(1)], [1, 2])
    with pytest.raises(TypeError, match="uint16"):
        tell([np.zeros(5)], [np.zeros(1, np.uint16)])
    fixed = np.zeros(4, np.float32)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        twice([fixed], [np.zeros(4, np.float32)])
    with pytest.raises(extend.KernelError, match="FLAMBEAU_KERNEL\\(other\\)"):
        extend.cpp_kernel(TELL, "other")
    with pytest.raises(ValueError, match="flambeau_op.h"):
        extend.cpp_kernel("int x;", "x")
    with pytest.raises(toolchain.CompilerError, match="nonsense"):
        extend.cpp_kernel('#include "flambeau_op.h"\nnonsense here;', "x")


def test_struct_sizes_are_the_headers():
    """The structs of foreign.py against the header, as the compiler lays it out on 64-bit Linux."""
    assert ctypes.sizeof(plugin_abi.Tensor) == 40 and plugin_abi.Tensor.sizes.offset == 24
    text = pathlib.Path(plugin_abi.HEADER).read_text()
    names = text[text.index("enum flambeau_type {") :].split("}")[0].split("{")[1]
    assert [n.strip().removeprefix("FLAMBEAU_").lower() for n in names.split(",")] == list(plugin_abi.TYPES)
    assert f"#define FLAMBEAU_ABI {plugin_abi.ABI}\n" in text


WRONG = {
    "gradient": (
        "AssertionError|GradcheckError|Jacobian",
        """
        @extend.pointwise
        def wrong_gradient(s, x): return s.sin(x)
        @wrong_gradient.grad("x")
        def _(g, x): return g * torch.sin(x)
        wrong_gradient.samples(lambda make: [(make(3),)])
        extend.check(wrong_gradient)""",
    ),
    "sizes": (
        "its meta rule says",
        """
        @extend.extern(meta=lambda x: tuple(x.shape))
        def wrong_sizes(x): return x[:-1]
        extend.check(wrong_sizes, [(torch.ones(4),)])""",
    ),
    "no samples": (
        "nothing was checked",
        """
        @extend.pointwise
        def without_samples(s, x): return x + 1
        extend.check(without_samples, [])""",
    ),
    "no rule of samples": (
        "nothing was checked",
        """
        @extend.pointwise
        def never_sampled(s, x): return x + 1
        extend.check(never_sampled)""",
    ),
    "taken name": (
        "'add' is already defined",
        """
        @extend.pointwise
        def add(s, x): return x""",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_in_records_are_found(name):
    """In a process of its own: records stay for as long as the process does."""
    wanted, text = WRONG[name]
    code = "import flambeau as torch\nfrom flambeau import extend\n" + textwrap.dedent(text)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    import re

    assert done.returncode == 1 and re.search(wanted, done.stderr), done.stderr


DEVICE = """
import gc, pathlib
import flambeau as torch
from flambeau import extend
source = pathlib.Path(%r).read_text()
toy = extend.load_device(source)

x = torch.randn(3, 4)
there = x.to("toy")
assert there.device == torch.device("toy") and there.cpu() is not there and torch.equal(there.cpu(), x)
assert torch.equal(there.t().cpu(), x.t()) and torch.equal(there[1:, ::2].cpu(), x[1:, ::2])
assert (there * 2 + 1).device.type == "toy" and toy.ran["mul"] == toy.ran["add"] == 1
assert torch.equal((there * 2 + 1).cpu(), x * 2 + 1) and torch.equal((2 - there).cpu(), 2 - x)
assert torch.equal((there + there[0]).cpu(), x + x[0])                         # broadcast by the device
before = dict(toy.ran)
assert torch.equal(there.sum(dim=0).cpu(), x.sum(dim=0)) and toy.ran == before          # on the host, counted
assert torch.compiler.counters()["fallbacks"]["toy has no kernel for sum: it ran on the host"] == 1
assert there.double().dtype is torch.float64 and torch.equal(there.double().cpu(), x.double())

view = there[:, 1]
view.add_(5)
x[:, 1] += 5
assert torch.equal(there.cpu(), x) and there._version == 1
there.copy_(torch.ones(3, 4))
assert there.tolist() == [[1.0] * 4] * 3 and there[0, 0].item() == 1.0 and "device='toy'" in repr(there)
host = torch.zeros(3, 4)
host.copy_(there)
assert torch.equal(host, torch.ones(3, 4))

w = torch.randn(4, 2, device="toy:1", requires_grad=True)
y = torch.ones(3, 4, device="toy:1")
(y @ w).tanh().sum().backward()
alone = w.detach().cpu().requires_grad_()
(torch.ones(3, 4) @ alone).tanh().sum().backward()
assert w.grad.device == torch.device("toy", 1) and torch.allclose(w.grad.cpu(), alone.grad, atol=1e-6)
a = torch.randn(2, requires_grad=True)
(a.to("toy") * 3).sum().backward()
assert a.grad.tolist() == [3.0, 3.0]

def refused(call, kind, text):
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)

refused(lambda: there + torch.ones(3, 4), RuntimeError, "at least two devices")
refused(lambda: there.numpy(), TypeError, "can't convert toy")
refused(lambda: torch.zeros(1, device="toy:2"), RuntimeError, "there is no device toy:2")
refused(lambda: extend.load_device(source), ValueError, "exists already")
refused(lambda: extend.load_device(source.replace("{FLAMBEAU_ABI,", "{99,")), RuntimeError, "version 99")
refused(lambda: torch.zeros(1, device="toyish"), RuntimeError, "toy")

made = torch.compile(lambda t: t * 2 + 1)(there)
assert made.device.type == "toy" and made.tolist() == [[3.0] * 4] * 3           # runs, though not compiled
import copy
module = copy.deepcopy(torch.nn.Linear(4, 2).to("toy"))
assert torch.equal(module(there).cpu(), module.cpu()(there.cpu())) and module.weight.device.type == "cpu"
del there, view, w, y, made
gc.collect()
"""


@needs_compiler
def test_a_device_of_a_library():
    code = DEVICE % str(ROOT / "examples" / "device.cpp")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

"""Every module of PyTorch imports under the alias, and every public name of it is there: or a list of docs/make_absent.py says why
it is not asked for."""

import importlib
import importlib.util
import json
import pathlib
import subprocess
import sys

import flambeau
import pytest

torch = pytest.importorskip("torch")
DOCS = pathlib.Path(__file__).parents[2] / "docs"

LOOK = """
import importlib, json, sys
import flambeau
flambeau.alias_torch()
wanted, refused, lacking, counts = json.load(open(sys.argv[1])), {}, {}, dict(modules=0, placeholders=0, names=0, raising=0)
for name, names in wanted.items():
    try:
        module = importlib.import_module(name)
    except Exception as error:
        refused[name] = repr(error)
        continue
    counts["modules"] += 1
    counts["placeholders"] += hasattr(module, "missing")
    for each in names:
        try:
            value = getattr(module, each)
        except AttributeError:
            lacking.setdefault(name, []).append(each)
        else:
            counts["names"] += 1
            counts["raising"] += "missing" in getattr(value, "__dict__", ())
print(json.dumps([refused, lacking, counts]))
"""


@pytest.fixture(scope="module")
def maker():
    spec = importlib.util.spec_from_file_location("make_absent", DOCS / "make_absent.py")
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS))  # it imports what stands beside it
        spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def wanted(maker):
    found = {name: maker.public(sys.modules[name]) for name in maker.walked(torch)}
    assert len(found) > 2000
    return {
        name: [each for each in names if not maker.unlisted(name, each, getattr(sys.modules[name], each))]
        for name, names in found.items()
    }


def test_all_modules_and_names(wanted, tmp_path):
    (tmp_path / "wanted.json").write_text(json.dumps(wanted))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOOK, str(tmp_path / "wanted.json")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    refused, lacking, counts = json.loads(done.stdout.splitlines()[-1])
    print("modules and names of PyTorch under the alias:", counts)
    assert not refused and not lacking


def test_the_table_holds_only_what_pytorch_has(wanted, maker):
    """And no name that this package has got since."""
    from flambeau.eager.compat.absent import table

    known = {table.inner(name): set(names) for name, names in wanted.items()}
    assert not set(table.lines()) - set(known)
    beyond = {path: sorted(set(table.names(path)) - known[path]) for path in table.lines()}
    assert not {path: names for path, names in beyond.items() if names}


# what PyTorch's star imports give and ours do not, though the name is there: its own types of numbers and errors that have a
# placeholder or an equal here
STAR_LACKS = {
    "": "AcceleratorError DisableTorchFunction DisableTorchFunctionSubclass FatalError JITException bit bits16 bits1x8 bits2x4 bits4x2 "
    "bits8 chalf complex32 float4_e2m1fn_x2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu has_lapack has_mkl has_openmp "
    "has_spectral int1 int2 int3 int4 int5 int6 int7 qint32 qint8 quint2x4 quint4x2 quint8 uint1 uint2 uint3 uint4 uint5 uint6 uint7",
    "_C": "Generator",
    "_prims_common": "ELEMENTWISE_TYPE_PROMOTION_KIND REDUCTION_OUTPUT_TYPE_KIND RETURN_TYPE Tensor",
    "compiler": "config",
    "cuda": "CudaError DeferredCudaCallError has_half has_magma",
    "distributed": "DistBackendError DistError DistNetworkError DistStoreError QueueEmptyError",
    "jit": "Future",
    "monitor": "STAT_EVENT",
    "onnx": "OnnxExporterError",
    "serialization": "LoadEndianness",
    "utils": "swap_tensors",
    "version": "rocm",
}


def starred(path):
    names = {}
    exec(f"from {path} import *", names)
    return names


def test_star_imports_give_what_pytorchs_do():
    """Names that ours has, but for modules and placeholders."""
    lacking = {}
    for path in ("", *sorted(flambeau._PUBLIC_MODULES)):
        name = f".{path}" if path else ""
        try:
            theirs = starred(f"torch{name}")
        except (ImportError, AttributeError):  # torch.sparse's own fails
            continue
        ours, module = starred(f"flambeau{name}"), importlib.import_module(f"flambeau{name}")
        found = {each: getattr(module, each) for each in theirs if each not in ours and hasattr(module, each)}
        real = [
            each
            for each, value in found.items()
            if not each.startswith("__") and not isinstance(value, type(sys)) and "missing" not in getattr(value, "__dict__", ())
        ]
        if real:
            lacking[path] = " ".join(sorted(real))
    assert lacking == STAR_LACKS

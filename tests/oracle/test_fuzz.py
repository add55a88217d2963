"""Random calls of every public function that a record stands behind, on flambeau and on PyTorch.

FUZZ_CASES: how many cases (default 20000); FUZZ_SEED: where they start (default 0; told in every
failure). A failure is made smaller and printed as a program of a few lines for both libraries.
"""

import os
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import flambeau
from flambeau.eager import dispatch
from flambeau.eager.op.op import OPS

from . import fuzz, fuzz_elements, fuzz_layers, fuzz_numbers, fuzz_shapes  # noqa: F401 (the tables)
from .fuzz_deviations import deviation
from .fuzz_draw import TABLE

CASES = int(os.environ.get("FUZZ_CASES", 20000))
SEED = int(os.environ.get("FUZZ_SEED", 0))
TOTAL = sum(entry.weight for entry in TABLE.values())
check = fuzz.checked(flambeau, torch, deviation)


def forms(call):
    """The forms that torch has of a function."""
    if not isinstance(call, str):
        return ("function",)
    space, _, name = call.partition(".")
    found = ["function"]
    if space == "torch":
        found += ["method"] * hasattr(torch.Tensor, name) + ["inplace"] * hasattr(torch.Tensor, name + "_")
    if "out=" in (fuzz.place(torch, call).__doc__ or ""):
        found.append("out")
    return tuple(found)


@pytest.mark.parametrize("name", TABLE)
def test_calls(name):
    entry = TABLE[name]
    available = forms(entry.call)
    count = max(5, round(CASES * entry.weight / TOTAL))
    for k in range(count):
        case = entry.case(SEED * 10**6 + k, available)
        text = check(case)
        if text:
            small, text = fuzz.minimized(case, check)
            pytest.fail(f"{name}, seed {SEED}, case {k} of {count}: {text}\n\n{fuzz.program(small)}", pytrace=False)


class Reached(dispatch.Mode):
    """Collects the names of the records that are dispatched, also inside others; those that work in place count."""

    def __init__(self):
        self.names = set()

    def __enter__(self):
        super().__enter__()
        return self

    def dispatch(self, op, args):
        self.names |= {op.name, op.name.rstrip("_")}
        return dispatch.execute(op, args)


# records that no public function dispatches in eager mode -> what does
UNREACHED = {
    **dict.fromkeys(
        ("roi_align", "roi_pool", "ps_roi_pool", "unsuppressed", "moved_columns"),
        "torchvision's operators: against plain sums in tests/eager/test_roi_ops.py",
    ),
    **dict.fromkeys(
        ("roi_align_backward", "roi_pool_backward", "ps_roi_pool_backward", "moved_columns_backward"),
        "gradients of torchvision's operators: by differences in tests/eager/test_roi_ops.py",
    ),
    "restrided": "graphs whose results have other strides than their loops",
    "bag_winners": "graphs of embedding_bag's maxima, which eager mode finds in one kernel",
    "custom_gradient": "graphs of programs with functions that have a gradient of their own",
    "custom_gradient_of_results": "graphs of programs with functions whose gradient needs their results",
    "windows_sum": "graphs with adaptive pooling of even windows, which is one kernel in eager mode",
    "intervals_sum": "graphs with adaptive pooling of uneven windows, which is one kernel in eager mode",
    "intervals_spread": "gradients of these in graphs",
    "keep_mask": "graphs with dropout, whose mask and product are one kernel in eager mode",
    "fractional_max": "windows that start where draws say: compared with the formula in tests/eager/test_quick_compounds.py",
    "dropped_attention": "attention with dropout, whose draws are not PyTorch's",
    "all_solved": "matrices without a solution under check_errors: in tests/semantics/test_refused_data.py",
    "antialias_weights": "graphs with antialiased resampling to sizes that only the call tells; eager mode has taps",
    "antialias_window": "the same",
    "contract": "what a recorded einsum or tensordot is, whose gradients are native: in tests/eager/test_quick_gradients.py",
    "cross": "the same of vector products",
    "kron": "the same of products of Kronecker",
    "grouped_mm": "PyTorch takes strides of 16 bytes only: compared with a product per group in tests/eager/test_numbers.py",
}


def test_every_record_is_reached():
    """By a drawn call or its gradients: ten cases of each table entry, more of those with many options. Records that only the
    compiler writes are here when something has been compiled."""
    from flambeau.inductor.graph import compiler_ops

    with Reached() as reached, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for entry in TABLE.values():
            available = forms(entry.call)
            for k in range(round(10 * max(entry.weight, 1.0) ** 2.7)):
                fuzz.run(flambeau, entry.case(k, available))
    writes = {name for name in OPS if name.endswith("_put")}  # writes through views: in graphs only
    derived = {op.cache["inplace"].name for op in OPS.values() if "inplace" in op.cache}  # made by whoever asked first
    of_graphs = {op.name for op in vars(compiler_ops).values() if isinstance(op, type(OPS["add"]))}
    of_devices = {"transfer"}  # made by whoever first asks for a device
    assert OPS.keys() - reached.names - writes - derived - of_graphs - of_devices == UNREACHED.keys()

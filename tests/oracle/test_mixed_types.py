"""Losses of operands of two types: the type of the result, of the gradient, or a refusal, as PyTorch's."""

import itertools

import pytest

torch = pytest.importorskip("torch")

import flambeau

FLOATS = ("float16", "bfloat16", "float32", "float64")
TYPES = (*FLOATS, "int64", "bool", "uint8")
LOSSES = (
    "binary_cross_entropy_with_logits",
    "binary_cross_entropy",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "kl_div",
    "poisson_nll_loss",
    "soft_margin_loss",
    "hinge_embedding_loss",
    "multilabel_soft_margin_loss",
    "gaussian_nll_loss",
)
WEIGHED = ("binary_cross_entropy", "binary_cross_entropy_with_logits")
BACKWARD = {"huber_loss"}  # its forward takes a target of another type, its backward refuses that: here both take it


def told(lib, name, first, second, weight=None):
    x = lib.tensor([[0.3, 0.7, 0.2]]).to(getattr(lib, first)).requires_grad_(name not in BACKWARD)
    target = lib.tensor([[1, 0, 1]]).to(getattr(lib, second))
    more = (lib.ones(1, 3, dtype=x.dtype),) if name == "gaussian_nll_loss" else ()
    keywords = {} if weight is None else {"weight": lib.tensor([1, 0, 1]).to(getattr(lib, weight))}
    try:
        loss = getattr(lib.nn.functional, name)(x, target, *more, **keywords)
        if x.requires_grad:
            loss.backward()
    except (RuntimeError, ValueError) as error:
        return type(error).__name__
    return str(loss.dtype), str(x.grad.dtype) if x.requires_grad else None, loss.item()


@pytest.mark.parametrize("name", LOSSES)
def test_types_of_losses(name):
    wrong = {}
    for first, second in itertools.product(FLOATS, TYPES):
        mine, theirs = told(flambeau, name, first, second), told(torch, name, first, second)
        low = {"float16", "bfloat16"} & {first, second}
        same = mine == theirs if str in map(type, (mine, theirs)) else mine[:2] == theirs[:2]
        if not same or type(mine) is tuple and mine[2] != pytest.approx(theirs[2], 3e-2 if low else 1e-6):
            wrong[first, second] = mine, theirs
    assert not wrong


@pytest.mark.parametrize("name", WEIGHED)
def test_types_of_weights(name):
    wrong = {}
    for first, weight in itertools.product(FLOATS, TYPES):
        mine, theirs = (told(lib, name, first, first, weight) for lib in (flambeau, torch))
        if (mine[:2] if type(mine) is tuple else mine) != (theirs[:2] if type(theirs) is tuple else theirs):
            wrong[first, weight] = mine, theirs
    assert not wrong

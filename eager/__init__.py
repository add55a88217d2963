"""The tensor runtime: tensors, op records, autograd, nn, optim, data. Importing it defines every op."""

from . import dispatch, ops, autograd, random  # noqa: I001  (dispatch first: records are called through it)

__all__ = ["autograd", "dispatch", "ops", "random"]

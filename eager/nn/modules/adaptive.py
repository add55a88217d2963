"""Softmax over many classes in clusters: frequent classes in the head, the others behind one entry per cluster."""

from collections import namedtuple
from typing import Any

from ...api import cat, log_softmax, zeros
from .. import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Classes sorted by frequency; `cutoffs` are the first classes of the clusters, whose inputs are projected down by
    `div_value` once more each. forward(input (N, D), target (N)) -> (log-probability of the targets, mean loss)."""

    def __init__(self, in_features, n_classes, cutoffs, div_value=4.0, head_bias=False, device=None, dtype=None):
        super().__init__()
        cutoffs, made = list(cutoffs), {"device": device, "dtype": dtype}
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            cutoffs != sorted(cutoffs)
            or min(cutoffs) <= 0
            or max(cutoffs) > n_classes - 1
            or len(set(cutoffs)) != len(cutoffs)
            or any(int(c) != c for c in cutoffs)
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, "
                "where each value is between 1 and n_classes-1"
            )
        self.in_features, self.n_classes, self.cutoffs = in_features, n_classes, cutoffs + [n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = self.cutoffs[0], len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, **made)
        self.tail = ModuleList()
        for k in range(self.n_clusters):
            width = int(in_features // div_value ** (k + 1))
            size = self.cutoffs[k + 1] - self.cutoffs[k]
            self.tail.append(Sequential(Linear(in_features, width, bias=False, **made), Linear(width, size, bias=False, **made)))

    def reset_parameters(self):
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def _fl_check(self, input, target):
        if target.dim() == 1:
            if input.shape[0] != target.shape[0]:
                raise RuntimeError("Input and target should have the same size in the batch dimension.")
            if input.dim() != 2:
                raise RuntimeError(f"1D target tensor expects 2D input tensors, but found inputs with size {input.size()}")
        elif target.dim() == 0:
            if input.dim() != 1:
                raise RuntimeError(f"0D target tensor expects 1D input tensors, but found inputs with size {input.size()}")
        else:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")

    def forward(self, input, target_):
        self._fl_check(input, target_)
        lone = target_.dim() == 0
        x, target = (input.unsqueeze(0), target_.unsqueeze(0)) if lone else (input, target_)
        low, high = int(target.min()), int(target.max())
        if low < 0 or high >= self.n_classes:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{low}, {high}] were found. "
            )
        places, output = target.clone(), zeros(target.shape, dtype=x.dtype, device=x.device)
        for k, (first, last) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            rows = ((target >= first) & (target < last)).nonzero().squeeze(1)
            if rows.numel():
                inner = log_softmax(self.tail[k](x.index_select(0, rows)), dim=1)
                own = (target.index_select(0, rows) - first).unsqueeze(1)
                output = output.index_copy(0, rows, inner.gather(1, own).squeeze(1))
                places = places.index_fill(0, rows, self.shortlist_size + k)
        head = log_softmax(self.head(x), dim=1)
        output = output + head.gather(1, places.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output.squeeze(0) if lone else output, loss)

    def log_prob(self, input):
        """(N, n_classes)"""
        head = self.head(input)
        out, parts = F.log_softmax(head, dim=1), []
        parts.append(out[:, : self.shortlist_size])
        for k, tail in enumerate(self.tail):
            entry = self.shortlist_size + k
            parts.append(F.log_softmax(tail(input), dim=1) + out[:, entry : entry + 1])
        return cat(parts, dim=1)

    def predict(self, input):
        """The likeliest class of each row; clusters are looked into only where the head chooses one."""
        head: Any = self.head(input)
        output = head.argmax(dim=1)
        outside = output >= self.shortlist_size
        if not bool(outside.any()):
            return output
        if bool(outside.all()):
            return self.log_prob(input).argmax(dim=1)
        output[outside] = self.log_prob(input[outside]).argmax(dim=1)
        return output

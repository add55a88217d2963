"""The names of PyTorch's backward nodes, where they are not those of the op: `AddmmBackward0` of a linear layer, `SumBackward1`
of a sum over some dims. Programs print them, draw graphs with them (torchviz) and look for them.

In: a node as it was recorded. Out: what follows `grad_fn=<`, without "Backward": `NativeLayerNorm0`. Names that PyTorch gives
to another number of ops than one (a split, the pieces of an LSTM) are those of our ops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _rank(node: Any) -> int:
    """Of the result."""
    return len(node.metas[0][0])


def _argument(node: Any, name: str) -> Any:
    """As it was saved: a tensor may be None; None, too, once the node is released."""
    names = [p.name for p in node.op.params]
    return node.args[names.index(name)] if node.args else None


def _is_tensor(node: Any, name: str) -> bool:
    """Whether an argument that may be a number was a tensor: one has an edge, or is no number."""
    names = [p.name for p in node.op.params]
    return node.edges[names.index(name)] is not None or not isinstance(
        _argument(node, name), (int, float, complex, bool, type(None))
    )


def _over_dims(name: str) -> Callable:
    """A reduction of everything, or over dims."""
    return lambda node: f"{name}{int(_rank(node) > 0 or bool(_argument(node, 'keepdim')))}"


def _spatial(one: str, more: str, sizes: str = "kernel_size") -> Callable:
    """Of images: `one` spatial dim, or so many, as many as the argument has numbers."""

    def name(node: Any) -> str:
        given = _argument(node, sizes)
        n = len(given) if isinstance(given, (tuple, list)) else _rank(node) - 2
        return one if n <= 1 else more.format(n)

    return name


def _by_operand(name: str, operand: str) -> Callable:
    """An operand that may be a number."""
    return lambda node: f"{name}{int(_is_tensor(node, operand))}"


def _clamp(node: Any) -> str:
    return f"Clamp{int(not (_is_tensor(node, 'min') or _is_tensor(node, 'max')))}"


def _matmul(node: Any) -> str:
    return {0: "Dot0", 1: "Mv0", 2: "Mm0"}.get(_rank(node), "UnsafeView0")


def _linear(node: Any) -> str:
    biased = node.edges[2] is not None
    return ("Addmm0" if biased else "Mm0") if _rank(node) == 2 else "View0" if biased else "UnsafeView0"


def _padded(node: Any) -> str:
    padding, mode = _argument(node, "padding"), _argument(node, "mode")
    kind = {"reflect": "ReflectionPad", "replicate": "ReplicationPad"}.get(mode, "PadCircular")
    return f"{kind}{len(padding) // 2 if padding else _rank(node) - 2}D0"


def _resampled(node: Any) -> str:
    n = _rank(node) - 2
    if _argument(node, "kind") in ("bicubic", "cubic"):
        return "UpsampleBicubic2D0"
    return f"Upsample{('Linear', 'Bilinear', 'Trilinear')[n - 1] if 0 < n < 4 else 'Linear'}{n}D0"


def _reduced_loss(name: str) -> Callable:
    """A loss that PyTorch composes, whose last step is its reduction."""
    return lambda node: {"mean": "Mean0", "sum": "Sum0"}.get(_argument(node, "reduction"), name)


NAMES: dict[str, str | Callable[[Any], str]] = {
    "adaptive_avg_pool": _spatial("Squeeze1", "AdaptiveAvgPool{}D0", "output_size"),
    "adaptive_max_pool": _spatial("Squeeze1", "AdaptiveMaxPool{}D0", "output_size"),
    "add_scaled": "Add0",
    "avg_pool": _spatial("Squeeze1", "AvgPool{}D0"),
    "bag_max": "EmbeddingBag0",
    "bag_sum": "EmbeddingBag0",
    "attention": "ScaledDotProductFlashAttentionForCpu0",
    "batch_norm": "NativeBatchNorm0",
    "batch_norm_eval": "NativeBatchNorm0",
    "cast": "ToCopy0",
    "cholesky": "LinalgCholeskyEx0",
    "cholesky_ex": "LinalgCholeskyEx0",
    "clamp": _clamp,
    "contiguous_copy": "Clone0",
    "cosine_similarity": "Sum1",
    "cross": "LinalgCross0",
    "cross_entropy": lambda node: "NllLoss2D0" if _rank(node) > 1 else "NllLoss0",
    "cube": "Pow0",
    "det": "LinalgDet0",
    "dropout": "Mul0",
    "eig": "LinalgEig0",
    "eigh": "LinalgEigh0",
    "embedding_lookup": "Embedding0",
    "entr": "SpecialEntr0",
    "erfcx": "SpecialErfcx0",
    "fft_c2c": "FftC2C0",
    "fft_c2r": "FftC2R0",
    "fft_r2c": "FftR2C0",
    "fmod": _by_operand("Fmod", "b"),
    "fold_windows": "Col2Im0",
    "gelu_tanh": "Gelu0",
    "gemm": lambda node: "Bmm0" if _rank(node) > 2 else "Mm0",
    "grid_sample": lambda node: f"GridSampler{_rank(node) - 2}D0",
    "group_norm": "NativeGroupNorm0",
    "i0e": "SpecialI0E0",
    "i1": "SpecialI10",
    "i1e": "SpecialI1E0",
    "inv": "LinalgInvEx0",
    "inv_ex": "LinalgInvEx0",
    "l1_loss": _reduced_loss("Abs0"),
    "layer_norm": "NativeLayerNorm0",
    "lerp": _by_operand("Lerp", "weight"),
    "linear": _linear,
    "log1p": "Log1P0",
    "log_ndtr": "SpecialLogNdtr0",
    "logit_within": "Logit0",
    "lu_factor": "LinalgLuFactorEx0",
    "matmul": _matmul,
    "matrix_exp": "LinalgMatrixExp0",
    "max_dim": "Max0",
    "max_of_all": "Max1",
    "max_pool": _spatial("Squeeze1", "MaxPool{}DWithIndices0"),
    "mean": _over_dims("Mean"),
    "min_dim": "Min0",
    "min_of_all": "Min1",
    "ndtri": "SpecialNdtri0",
    "nearest": lambda node: f"UpsampleNearest{_rank(node) - 2}D0",
    "norm": "LinalgVectorNorm0",
    "pad": "ConstantPadNd0",
    "pad_edges": _padded,
    "pair_distances": "Pdist0",
    "pow": _by_operand("Pow", "b"),
    "prelu": "PreluKernel0",
    "prod": _over_dims("Prod"),
    "pseudo_inverse": "LinalgPinv0",
    "qr": "LinalgQr0",
    "remainder": _by_operand("Remainder", "b"),
    "resample": _resampled,
    "row_distance": "Norm1",
    "scatter_value": "Scatter1",
    "select_put": "SelectScatter0",
    "slice_put": "SliceScatter0",
    "slogdet": "LinalgSlogdet0",
    "softsign": "Div0",
    "solve": "LinalgSolveEx0",
    "solve_ex": "LinalgSolveEx0",
    "solve_triangular": "LinalgSolveTriangular0",
    "square": "Pow0",
    "squeeze": lambda node: f"Squeeze{1 if len(_argument(node, 'dims') or ()) < 2 else 2}",
    "sum": _over_dims("Sum"),
    "svd": "LinalgSvd0",
    "trunc_divide": "Div1",
    "unfold_windows": "Im2Col0",
    "xlog1py": "SpecialXlog1Py0",
}


def name_of(node: Any) -> str:
    """`MulBackward0`, of a node with an op."""
    found = NAMES.get(node.op.name)
    found = found if isinstance(found, str) else found(node) if found else None
    if found is None:
        return "".join(part.capitalize() for part in node.op.name.split("_")) + "Backward0"
    return f"{found[:-1]}Backward{found[-1]}"

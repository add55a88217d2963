"""ShapeProp: runs a GraphModule and notes sizes, types and strides of every value in `node.meta`."""

from __future__ import annotations

from typing import Any, NamedTuple

from ....eager.compat.pytree import tree_map
from ....eager.tensor import Tensor
from ..interpreter import Interpreter


class TensorMetadata(NamedTuple):
    """What `node.meta["tensor_meta"]` says of a tensor."""

    shape: tuple
    dtype: object
    requires_grad: bool
    stride: tuple
    memory_format: object
    is_quantized: bool
    qparams: dict


def _metadata(t: Tensor) -> TensorMetadata:
    from ....eager.memory_formats import channels_last, contiguous_format

    form = next(
        (
            f
            for f in (contiguous_format, channels_last)
            if (f is not channels_last or t.ndim == 4) and t.is_contiguous(memory_format=f)
        ),
        None,
    )
    return TensorMetadata(t.shape, t.dtype, t.requires_grad, t.stride(), form, False, {})


class ShapeProp(Interpreter):
    """`ShapeProp(gm).propagate(*inputs)`: `meta["tensor_meta"]` where tensors are, `meta["type"]` everywhere."""

    def __init__(self, gm: Any, fake_mode: Any = None):
        super().__init__(gm)

    def run_node(self, n: Any) -> Any:
        result = super().run_node(n)
        found: list = []
        tree = tree_map(lambda x: (found.append(x), _metadata(x))[1] if isinstance(x, Tensor) else x, result)
        if found:
            n.meta["tensor_meta"] = tree
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        return super().run(*args)

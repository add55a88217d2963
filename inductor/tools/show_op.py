"""What the compiler makes of one op: the loop IR and the C++ of a call with these arguments."""

from __future__ import annotations

from ...capture.graph.graph import map_args
from ...eager.op.op import Op
from ...eager.tensor import Tensor
from ...runtime.errors import FlambeauError
from ..cpp.codegen import generate
from ..graph.decompose import decompose
from ..loops.lower import lower
from ..schedule.memory_planning import plan
from .repro import graph_of
from ..schedule.scheduler import schedule


def code_of(op: Op, args: tuple) -> dict[str, str]:
    """{"loop": text, "C++": text}; where a stage refuses the op, its reason in place of the text."""
    tensors: list[Tensor] = []
    places = map_args(tuple(args), lambda v: _TensorArgument(tensors, v) if isinstance(v, Tensor) else v)
    function = lambda *given: op(*map_args(places, lambda v: given[v.number] if isinstance(v, _TensorArgument) else v))
    try:
        program = plan(schedule(lower(decompose(graph_of(function, tensors)), op.name)))
        return {"loop": program.text().rstrip(), "C++": generate(program).text.rstrip()}
    except FlambeauError as reason:
        return {"loop": str(reason)}


class _TensorArgument:
    """Stands for a tensor among the arguments."""

    def __init__(self, tensors: list, tensor: Tensor):
        self.number = len(tensors)
        tensors.append(tensor)

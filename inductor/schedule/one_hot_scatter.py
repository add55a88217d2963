"""Maps that are zero but for one element of a row, as that element put into zeros.

In: a map's nest. Out: a `ScatterKernel` over the rows, or nothing. The idea: `where(index == place, x, 0)`, the gradient of a
maximum or of the element that was picked from each row, compares at every element; zeros are filled as fast as memory takes them,
and one element of each row is set afterwards. A place outside of the row gets the zero that lies at its end.
"""

from __future__ import annotations

from dataclasses import replace

from ...capture.shapes.expr import Expr, ExprLike
from ...eager.dtypes import int64
from ..loops.body import Body, Value, reachable
from ..loops.ir import Axis, ScatterKernel, Store
from ..loops.lower import hint
from .loop_nest import SchedulerContext, LoopNest, non_unit_axes

LONG = 16  # elements of a row from which they are not compared one by one


def as_one_hot_scatter(context: SchedulerContext, nest: LoopNest) -> ScatterKernel | None:
    """The kernel of a nest that does nothing else."""
    store = nest.items[0].store if nest.flexible and len(nest.items) == 1 else None
    if store is None or store.mode != "set" or store.value.op != "where" or len(non_unit_axes(nest.outer)) < 2:
        return None
    condition, value, rest = store.value.args
    if rest.op != "const" or rest.attrs or str(rest.attrs).startswith("-") or condition.op != "eq":
        return None
    for counted, place in (condition.args, condition.args[::-1]):
        axis = next((a for a in nest.outer if counted.op == "index" and counted.attrs == a.var), None)
        if (
            axis is not None
            and hint(axis.extent) >= LONG
            and store.index.count(axis.var) == 1
            and place.dtype is int64
            and not any(depends_on(v, axis) for v in (place, value))
        ):
            return make_scatter(context.body, nest, store, axis, place, value)
    return None


def make_scatter(body: Body, nest: LoopNest, store: Store, axis: Axis, place: Value, value: Value) -> ScatterKernel:
    last = body.index(axis.extent - 1)
    inside = body.prim("logical_and", body.prim("ge", place, 0), body.prim("le", place, last))
    kept = body.prim("maximum", body.prim("minimum", place, last), 0)
    at = body.indirect(kept, axis.extent, check=False)
    index = tuple(at if e == axis.var else e for e in store.index)
    made = body.where(inside, value, body.const(0, value.dtype))
    note = f"one element for each of {axis.extent} is put into zeros"
    return ScatterKernel(
        nest.name,
        tuple(a for a in nest.outer if a is not axis),
        None,
        replace(store, index=index, value=made),
        nest.origins,
        (*nest.notes, note),
    )


def depends_on(value: Value, axis: Axis) -> bool:
    """Whether a value moves with the axis."""
    return any(axis.name in e.free_names() for v in reachable((value,)) for e in index_expressions(v) if isinstance(e, Expr))


def index_expressions(value: Value) -> tuple[ExprLike, ...]:
    return value.attrs.index if value.op == "load" else (value.attrs,) if value.op == "index" else ()

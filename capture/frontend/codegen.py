"""Codegen: bytecode that makes the traced values again after the graph has run.

In: Variables, the side effects, the stack and locals of a break. Out: instructions written through an Emitter, and the list of
tensors that the graph must return (found while writing). Shared objects are made once and kept in temporaries.
"""

from __future__ import annotations

from typing import Any

from ...eager.tensor import Tensor
from ...runtime.errors import Unsupported
from ..breaks import CODES
from ..bytecode.emitter import Emitter
from ..graph.graph import evaluate_number
from ..shapes.symbolic_shapes import SymBool, SymInt
from ..variables.base import Variable
from ..variables.constant import ConstantVariable


class Codegen:
    """Writes the part of the new code that follows the graph call; `results` is the local that holds the graph's outputs."""

    def __init__(self, tx: Any, emit: Emitter):
        self.tx, self.emit = tx, emit
        self.results = emit.temp("graph")
        self.outputs: list = []  # fake tensors, in the order of the graph's outputs
        self.temps: dict[int, str] = {}
        self.kept: list = []  # keeps the variables of `temps` alive
        self.making: list = []  # variables whose parts are being written
        self.unfilled: list = []  # made empty: (variable, how to fill it) once all else is made
        self.filling = False
        self.behind_changes: list | None = []  # iterators that are moved once all changes are made; None then

    # -- loading ---------------------------------------------------------------------------------------------------

    def constant(self, value: Any) -> ConstantVariable:
        return ConstantVariable(value)

    def load_const(self, value: Any) -> None:
        self.emit.load_const(value)

    def load(self, variable: Variable) -> None:
        """Push a value; the second time from its temporary."""
        variable = variable.resolved()
        name = self.temps.get(id(variable))
        if name is not None:
            self.emit.load_fast(name)
        elif not variable.shared:
            variable.reconstruct(self)
        elif variable.source is not None:
            variable.source.reconstruct(self.emit)
        else:
            self.emit.load_fast(self.build(variable))

    def build(self, variable: Variable) -> str:
        """Make a shared value, keep it in a temporary, and give it the attributes that the trace stored."""
        if any(variable is outer for outer in self.making):
            raise Cycle(variable)
        self.making.append(variable)
        try:
            self.make(variable)
            name = self.store_temp(variable)
            if variable in self.tx.effects.attributes:
                self.tx.effects.fill(self, variable)
        finally:
            self.making.pop()
        if not self.making:
            self.fill_all()
        return name

    def fill_all(self) -> None:
        """What waits is filled in turn, also what begins to wait meanwhile: long rows of values that hold each other do not
        nest."""
        if self.filling:
            return
        self.filling = True
        try:
            while self.unfilled:
                waiting, fill = self.unfilled.pop(0)
                fill(self)
        finally:
            self.filling = False

    def make(self, variable: Variable) -> None:
        """Push the value. A container on a cycle is made empty, and filled when everything exists."""
        written, known, kept = len(self.emit.instrs), dict(self.temps), len(self.kept)
        place, waiting = (self.emit.position, self.emit.handler), len(self.unfilled)
        try:
            variable.reconstruct(self)
        except Cycle:
            fill = getattr(variable, "fill_later", None)
            if fill is None:
                raise
            del self.emit.instrs[written:], self.kept[kept:], self.unfilled[waiting:]
            self.temps, (self.emit.position, self.emit.handler) = known, place
            self.load_call(variable.python_type())
            self.unfilled.append((variable, fill))

    def store_temp(self, variable: Variable) -> str:
        """Pop the value of `variable` into its temporary."""
        name = self.temps[id(variable)] = self.temps.get(id(variable)) or self.emit.temp("v")
        self.kept.append(variable)
        self.emit.store_fast(name)
        return name

    def load_many(self, variables: Any) -> None:
        for variable in variables:
            self.load(variable)

    def keep(self, variable: Variable) -> None:
        """Have the value in a temporary now, before anything is changed."""
        variable = variable.resolved()
        if id(variable) in self.temps or not variable.shared:
            return
        if variable.source is None:
            self.build(variable)
        else:
            variable.source.reconstruct(self.emit)
            self.store_temp(variable)

    def keep_all(self, variables: Any) -> None:
        for variable in variables:
            self.keep(variable)

    def load_output(self, fake: Any) -> None:
        """Push a tensor that the graph computes."""
        index = next((i for i, known in enumerate(self.outputs) if known is fake), None)
        if index is None:
            index = len(self.outputs)
            self.outputs.append(fake)
        self.emit.load_fast(self.results)
        self.emit.load_const(index)
        self.emit.binary_subscr()

    def load_symbolic(self, number: Any) -> None:
        """Push a number over sizes: a small function of the symbols, which are read from their sources."""
        names = sorted(free_names(number))
        self.load_const(SymbolicNumber(number, tuple(names)))
        self.emit.as_callable()
        for name in names:
            self.load_symbol(name)
        self.emit.call(len(names))

    def load_symbol(self, name: str) -> None:
        read = self.tx.tracer.unbacked.get(name)
        if read is None:
            self.tx.load_symbol(self.emit, name)
            return
        self.load_output(read.value)  # the number itself, or the rows that it counts
        if isinstance(read.value, Tensor):
            self.emit.load_attr("shape")
            sizes = enumerate(read.value._fl_sizes)
            self.emit.load_const(next(d for d, n in sizes if isinstance(n, SymInt) and name in free_names(n)))
            self.emit.binary_subscr()

    # -- calls -----------------------------------------------------------------------------------------------------

    def load_call(self, fn: Any, args: Any = (), kwargs: Any = None) -> None:
        """Push fn(*args, **kwargs) for a constant function."""
        self.load_const(fn)
        self.emit.as_callable()
        self.load_many(args)
        kwargs = kwargs or {}
        self.load_many(v if isinstance(v, Variable) else self.constant(v) for v in kwargs.values())
        self.emit.call(len(args) + len(kwargs), tuple(kwargs))

    def wrap_call(self, fn: Any, *before: Variable) -> None:
        """top -> fn(*before, top)."""
        held = self.emit.temp("held")
        self.emit.store_fast(held)
        self.load_const(fn)
        self.emit.as_callable()
        self.load_many(before)
        self.emit.load_fast(held)
        self.emit.call(len(before) + 1)

    def wrap_under(self, argument: Variable) -> None:
        """top -> top(argument)."""
        self.emit.as_callable()
        self.load(argument)
        self.emit.call(1)

    def call_method(self, owner: Variable, name: str, args: Any = ()) -> None:
        """owner.name(*args), result dropped."""
        self.load(owner)
        self.emit.load_attr(name)
        self.emit.as_callable()
        self.load_many(args)
        self.emit.call(len(args))
        self.emit.pop()

    def store_attr_on_top(self, name: str, value: Variable) -> None:
        """top.name = value; the top stays."""
        held = self.emit.temp("held")
        self.emit.store_fast(held)
        self.load(value)
        self.emit.load_fast(held)
        self.emit.store_attr(name)
        self.emit.load_fast(held)

    def fill_cell(self, cell: Any) -> None:
        """top: a new empty cell that the trace made; gets its content when everything exists."""
        if cell.value is None:
            if cell.argument:
                self.emit.emit("DELETE_DEREF", cell.local)
                cell.argument = False
            return
        name = self.store_temp(cell)
        if len(self.making) > 1:
            self.unfilled.append((cell, lambda gen: gen.write_cell(cell, name)))
        else:
            self.write_cell(cell, name)
        self.emit.load_fast(name)

    def write_cell(self, cell: Any, name: str) -> None:
        self.load(cell.value)
        self.emit.load_fast(name)
        self.emit.store_attr("cell_contents")


class Cycle(Unsupported):
    """A value is reached again while its parts are being made."""

    def __init__(self, variable: Variable):
        super().__init__("resume", f"{variable} contains itself", CODES["resume"])


class SymbolicNumber:
    """Evaluates a number over symbols from their values."""

    def __init__(self, number: Any, names: tuple[str, ...]):
        self.number, self.names = number, names

    def __call__(self, *values: Any) -> Any:
        named = dict(zip(self.names, values))
        if isinstance(self.number, SymBool):
            return self.number.relation.evaluate(named)
        found = evaluate_number(self.number, named)
        return found if isinstance(self.number, SymInt) else float(found)

    def __repr__(self) -> str:
        return f"<{self.number}>"


def free_names(number: Any) -> frozenset:
    """Names of the symbols in a symbolic number."""
    return (
        number.expr.free_names()
        if isinstance(number, SymInt)
        else number.relation.free_names()
        if isinstance(number, SymBool)
        else number.free_names()
    )

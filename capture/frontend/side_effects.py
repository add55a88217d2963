"""What the traced code changed outside of the graph, replayed once after it.

Real objects are never changed while tracing: stores of attributes, contents of containers, cells and globals live here and
reads ask here first. `replay` writes the final states in the order of the first change. All values are loaded into
temporaries before the first write, because a source read after a write would give the new value.
"""

from __future__ import annotations

import contextlib
import types
from typing import Any

from ..breaks import unsupported
from ..variables.base import DELETED, Variable
from ..variables.dicts import DictVariable
from ..variables.iterators import advance_iterator
from ..variables.sequences import ListVariable
from ..variables.sets import SetVariable
from ..variables.tensor import TensorVariable


class SideEffects:
    """The changes of one trace."""

    def __init__(self, tx: Any):
        self.tx = tx
        self.attributes: dict[Variable, dict[str, Any]] = {}
        self.moved: set[tuple[Variable, str]] = set()  # deleted before they were stored
        self.unsure: set[tuple[Variable, str]] = set()  # stored before they were deleted: nobody asked whether they were there
        self.containers: dict[Variable, None] = {}
        self.cells: dict[Variable, None] = {}
        self.iterators: dict[Variable, None] = {}  # from outside, and moved on
        self.globals: dict[tuple[int, str], tuple[dict, Variable]] = {}
        self.late_globals: set[tuple[int, str]] = set()  # deleted before they were stored
        self.order: list[tuple[str, object]] = []
        self.held: list[int] = []  # for each lock that is taken: how many changes came before

    def forget(self) -> None:
        for table in (
            self.attributes,
            self.moved,
            self.unsure,
            self.containers,
            self.cells,
            self.globals,
            self.late_globals,
            self.order,
        ):
            table.clear()

    # -- recording -------------------------------------------------------------------------------------------------

    def _first(self, kind: str, key: Any, table: dict) -> bool:
        if key not in table:
            self.order.append((kind, key))
            return True
        if self.held and self.order.index((kind, key)) < self.held[-1]:  # it would be written before the lock is taken
            raise unsupported("mutation", "a change under a lock, of what was changed before the lock was taken")
        return False

    def store_attr(self, variable: Variable, name: str, value: Variable) -> None:
        self._first("attributes", variable, self.attributes)
        fields = self.attributes.setdefault(variable, {})
        if fields.get(name) is DELETED:  # deleted and stored again, it comes last
            del fields[name]
            self.moved.add((variable, name))
        fields[name] = value

    def delete_attr(self, variable: Variable, name: str) -> None:
        self._first("attributes", variable, self.attributes)
        fields = self.attributes.setdefault(variable, {})
        if name in fields and (variable, name) not in self.moved:
            self.unsure.add((variable, name))
        fields[name] = DELETED

    def mutate(self, container: Variable) -> None:
        """A container is about to change."""
        if container.source is not None and self._first("containers", container, self.containers):
            self.containers[container] = None

    def is_mutated(self, container: Variable | None) -> bool:
        return container is not None and container in self.containers

    def advance(self, iterator: Variable) -> None:
        """An iterator from outside gives its next member, or ends."""
        if self._first("iterators", iterator, self.iterators):
            self.iterators[iterator] = None

    def change_cell(self, cell: Variable) -> None:
        if self._first("cells", cell, self.cells):
            self.cells[cell] = None

    def store_global(self, namespace: dict, name: str, value: Any) -> None:
        key = id(namespace), name
        self._first("globals", key, self.globals)
        if self.stored_global(namespace, name) is DELETED:  # deleted and stored again, it comes last
            self.late_globals.add(key)
            del self.globals[key]
            self.order.remove(("globals", key))
            self.order.append(("globals", key))
        self.globals[key] = namespace, value

    def enter(self, manager: Variable) -> None:
        self.order.append(("managers", ("__enter__", manager)))

    def leave(self, manager: Variable) -> bool:
        """Whether this frame entered it; else its `__exit__` is replayed."""
        entered = [step for step in self.order if step[0] == "managers"]
        if entered and entered[-1][1] == ("__enter__", manager):
            self.order.remove(entered[-1])
            return True
        self.order.append(("managers", ("__exit__", manager)))
        return False

    def lock(self, lock: Variable, method: str) -> None:
        """A lock is taken or given back; where nothing was done under it, it is not taken at all."""
        if method == "acquire":
            self.held.append(len(self.order))
        elif self.held:
            self.held.pop()
        if method == "release" and self.order and self.order[-1] == ("locks", ("acquire", lock)):
            self.order.pop()
        else:
            self.order.append(("locks", (method, lock)))

    # -- reading ---------------------------------------------------------------------------------------------------

    def stored(self, variable: Variable, name: str) -> Variable | None:
        value = self.attributes.get(variable, {}).get(name)
        return None if value is None or value is DELETED else value

    def is_deleted(self, variable: Variable, name: str) -> bool:
        return self.attributes.get(variable, {}).get(name) is DELETED

    def names(self, variable: Variable) -> set:
        return {n for n, v in self.attributes.get(variable, {}).items() if v is not DELETED}

    def is_changed(self, cell: Variable) -> bool:
        return cell in self.cells

    def stored_global(self, namespace: dict, name: str) -> Any:
        found = self.globals.get((id(namespace), name))
        return found[1] if found is not None else None

    def is_late_global(self, namespace: dict, name: str) -> bool:
        return (id(namespace), name) in self.late_globals

    # -- replay ----------------------------------------------------------------------------------------------------

    def empty(self) -> bool:
        return not self.pending()

    def pending(self) -> bool:
        """Whether changes of the outer world are still to be made."""
        return any(self.is_visible(kind, key) for kind, key in self.order)

    def call(self, function: Any, args: list, kwargs: dict) -> None:
        """A call that is made behind the graph, in its turn, for what it does."""
        self.order.append(("calls", (function, tuple(args), tuple(kwargs.items()), self.tx.frames[0].instr.position)))

    def is_visible(self, kind: str, key: Any) -> bool:
        """Changes of what the trace made itself are seen only if it is built, which then fills it."""
        if kind == "attributes":
            return key.source is not None
        if kind == "cells":
            return key.real is not None
        return True

    def replay(self, gen: Any) -> None:
        """Write everything; `gen` has temporaries for all values."""
        steps = [(kind, key) for kind, key in self.order if self.is_visible(kind, key)]
        for kind, key in steps:
            getattr(self, "prepare_" + kind)(gen, key)
        for kind, key in steps:
            getattr(self, "replay_" + kind)(gen, key)
        waiting, gen.behind_changes = gen.behind_changes, None
        for iterator in waiting or ():
            gen.load(iterator)
            iterator.write_place(gen)

    def prepare_attributes(self, gen: Any, variable: Variable) -> None:
        gen.keep(variable)
        for value in self.attributes[variable].values():
            if value is not DELETED:
                gen.keep(value)

    def replay_attributes(self, gen: Any, variable: Variable) -> None:
        for name, value in self.attributes[variable].items():
            if value is DELETED or (variable, name) in self.moved:
                self.replay_deletion(gen, variable, name)
            if value is DELETED:
                continue
            if variable.has_own_setattr:
                self.store_past_setattr(gen, variable, name, value)
            else:
                gen.load(value)
                gen.load(variable)
                gen.emit.store_attr("_grad" if name == "grad" and is_gradient(variable, value) else name)

    def replay_deletion(self, gen: Any, variable: Variable, name: str) -> None:
        """What the trace stored and deleted again may never have been there for anyone else."""
        if (variable, name) in self.unsure:
            gen.load_call(delete_if_present, [variable, gen.constant(name), gen.constant(self.deletes_past(variable))])
            gen.emit.pop()
            return
        owner = getattr(variable, "value", None)
        if owner is not None and not (name in getattr(owner, "__dict__", ()) or is_slot(owner, name) and hasattr(owner, name)):
            return
        if self.deletes_past(variable):
            gen.load_const(object.__delattr__)
            gen.emit.as_callable()
            gen.load(variable)
            gen.load_const(name)
            gen.emit.call(2)
            gen.emit.pop()
        else:
            gen.load(variable)
            gen.emit.delete_attr(name)

    @staticmethod
    def deletes_past(variable: Variable) -> bool:
        """Whether the class has a `__delattr__` of its own, which was traced."""
        owner = getattr(variable, "value", None)
        return variable.has_own_setattr or isinstance(getattr(type(owner), "__delattr__", None), types.FunctionType)

    def fill(self, gen: Any, variable: Variable) -> None:
        """The attributes that the trace gave to a value of its own, which has just been built."""
        for value in self.attributes.get(variable, {}).values():
            if value is not DELETED:
                gen.keep(value)
        for name, value in self.attributes.get(variable, {}).items():
            if value is not DELETED:
                self.store_past_setattr(gen, variable, name, value)

    def store_past_setattr(self, gen: Any, variable: Variable, name: str, value: Variable) -> None:
        """A class's own __setattr__ was traced: what is left to do is the plain store it came to."""
        gen.load_const(object.__setattr__)
        gen.emit.as_callable()
        gen.load(variable)
        gen.load_const(name)
        gen.load(value)
        gen.emit.call(3)
        gen.emit.pop()

    def prepare_managers(self, gen: Any, step: Any) -> None:
        gen.keep(step[1])

    def replay_managers(self, gen: Any, step: Any) -> None:
        method, manager = step
        gen.call_method(manager, method, [gen.constant(None)] * 3 if method == "__exit__" else ())

    def prepare_calls(self, gen: Any, step: Any) -> None:
        gen.keep_all((*step[1], *(value for _, value in step[2])))

    def replay_calls(self, gen: Any, step: Any) -> None:
        function, args, kwargs, position = step
        with gen.emit.at(position):  # the line that a message or a warning tells
            gen.load_call(function, args, dict(kwargs))
            gen.emit.pop()

    def prepare_locks(self, gen: Any, step: Any) -> None:
        gen.keep(step[1])

    def replay_locks(self, gen: Any, step: Any) -> None:
        gen.call_method(step[1], step[0])

    def prepare_containers(self, gen: Any, container: Variable) -> None:
        gen.keep(container)
        gen.keep_all(container_contents(container))

    def replay_containers(self, gen: Any, container: Any) -> None:
        steps = getattr(container, "steps", None)
        if steps is None:
            steps = rewrite_calls(self.tx, container)
        for name, args in steps:
            gen.load_call(getattr(container.cls, name), [container, *args])  # (past methods that a derived class has)
            gen.emit.pop()

    def prepare_iterators(self, gen: Any, iterator: Variable) -> None:
        gen.keep(iterator)

    def replay_iterators(self, gen: Any, iterator: Any) -> None:
        gen.load_call(advance_iterator, [iterator, gen.constant(iterator.steps), gen.constant(iterator.ended)])
        gen.emit.pop()

    def prepare_cells(self, gen: Any, cell: Any) -> None:
        gen.keep(cell)
        if cell.value is not None:
            gen.keep(cell.value)

    def replay_cells(self, gen: Any, cell: Any) -> None:
        if cell.value is None:
            gen.load(cell)
            gen.emit.delete_attr("cell_contents")
        else:
            gen.load(cell.value)
            gen.load(cell)
            gen.emit.store_attr("cell_contents")

    def prepare_globals(self, gen: Any, key: tuple) -> None:
        value = self.globals[key][1]
        if value is not DELETED:
            gen.keep(value)

    def replay_globals(self, gen: Any, key: tuple) -> None:
        namespace, value = self.globals[key]
        if value is DELETED or key in self.late_globals:  # made and deleted again, it may never have been there
            gen.load_const(namespace.pop)
            gen.emit.as_callable()
            gen.load_const(key[1])
            gen.load_const(None)
            gen.emit.call(2)
            gen.emit.pop()
        if value is not DELETED:
            gen.load(value)
            gen.load_const(namespace)
            gen.load_const(key[1])
            gen.emit.store_subscr()


def delete_if_present(owner: Any, name: str, past: bool) -> None:
    """Delete an attribute if it is there; `past`: by what the class's own `__delattr__` came to."""
    with contextlib.suppress(AttributeError):
        (object.__delattr__ if past else delattr)(owner, name)


def is_gradient(variable: Variable, value: Variable) -> bool:
    """Whether the setter of `.grad` would have nothing to object to."""
    if not isinstance(variable, TensorVariable):
        return False
    value = value.resolved()
    if isinstance(value, TensorVariable):
        return value.fake._fl_sizes == variable.fake._fl_sizes and value.fake._fl_dtype is variable.fake._fl_dtype
    return value.is_constant() and value.plain() is None


def is_slot(owner: Any, name: str) -> bool:
    return any(isinstance(vars(base).get(name), types.MemberDescriptorType) for base in type(owner).__mro__)


def rewrite_calls(tx: Any, container: Variable) -> list:
    """Calls that give a container its contents."""
    if isinstance(container, ListVariable):
        return [("clear", ()), ("extend", (tx.tuple(container.items),))]
    if isinstance(container, DictVariable):
        return [("clear", ()), *(("__setitem__", pair) for pair in container.entries.values())]
    if isinstance(container, SetVariable):
        return [("clear", ()), ("update", (tx.tuple(container.members.values()),))]
    raise unsupported("mutation", f"changing {container}")


def container_contents(container: Any) -> list:
    steps = getattr(container, "steps", None)
    if steps is not None:
        return [value for _, args in steps for value in args]
    if isinstance(container, ListVariable):
        return list(container.items)
    if isinstance(container, DictVariable):
        return [v for pair in container.entries.values() for v in pair]
    return list(container.members.values())

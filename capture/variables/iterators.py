"""Iterators: lists, zips, enumerations, maps and the like, advanced one step at a time.

`next(tx)` gives the next Variable, or None at the end. Those whose rest is known can be made again after a graph break.
"""

from __future__ import annotations

import gc
import itertools
from collections import deque
from typing import Any

from ..breaks import unsupported
from ..guards.source import IteratorItem, Source
from .base import LazyVariable, Variable


class IteratorVariable(Variable):
    """Base: an object with `next`."""

    cls = type(iter(()))

    def python_type(self) -> type:
        return self.cls

    def next(self, tx: Any) -> Variable | None:
        raise NotImplementedError

    def iterate(self, tx: Any) -> IteratorVariable:
        return self

    def length(self, tx: Any) -> Any:
        tx.raise_error(TypeError, f"object of type {self.cls.__name__!r} has no len()")

    def get_attr(self, tx: Any, name: str) -> IteratorMethod:
        return IteratorMethod(self, name)

    def call_method(self, tx: Any, name: str, args: list, kwargs: dict) -> Variable:
        if name == "__next__":
            return tx.next_or_raise(self)
        if name == "__iter__":
            return self
        return super().call_method(tx, name, args, kwargs)


class IteratorMethod(Variable):
    def __init__(self, owner: Any, name: str):
        super().__init__()
        self.owner, self.name = owner, name

    def call(self, tx: Any, args: list, kwargs: dict) -> Variable:
        if self.name not in ("__next__", "__iter__", "send", "close", "throw"):
            raise unsupported("iterator", f"method {self.name} of an iterator")
        return self.owner.call_method(tx, self.name, args, kwargs)


class ListIterator(IteratorVariable):
    """Follows a tuple or list variable, seeing its changes. `index`: of the member that comes next; None when it has ended."""

    def __init__(self, owner: Any, backwards: bool = False):
        super().__init__()
        self.owner, self.by, self.index = owner, -1 if backwards else 1, len(owner.items) - 1 if backwards else 0
        self.cls = type(reversed([])) if backwards else self.cls

    def next(self, tx: Any) -> Any:
        at = self.index
        if at is None or not 0 <= at < len(self.owner.items):
            self.index = None
            return None
        self.index = at + self.by
        return self.owner.at(at)

    def reconstruct(self, gen: Any) -> None:
        """The iterator of the same object, moved to the same place; behind the changes that are still to be made, where the
        place may not be there yet."""
        if self.index is None or self.by < 0 and self.index >= len(self.owner.items):
            FixedIterator([]).reconstruct(gen)
            return
        gen.load(self.owner)
        gen.wrap_call(reversed if self.by < 0 else iter)
        if self.index or self.by < 0:
            if gen.behind_changes is not None and self.owner in gen.tx.effects.containers:
                gen.behind_changes.append(self)
            else:
                gen.emit.copy(1)
                self.write_place(gen)

    def write_place(self, gen: Any) -> None:
        """Move the iterator on top of the stack, and pop it."""
        gen.emit.load_attr("__setstate__")
        gen.emit.as_callable()
        gen.emit.load_const(self.index)
        gen.emit.call(1)
        gen.emit.pop()


class DequeIterator(IteratorVariable):
    """Over a deque, whose members must stay where they are. `index`: how many it gave."""

    def __init__(self, owner: Any, backwards: bool = False):
        super().__init__()
        self.owner, self.index = owner, 0
        self.backwards, self.state, self.members = backwards, owner.state, len(owner.items) if backwards else 0
        self.cls = type(reversed(deque()) if backwards else iter(deque()))

    def next(self, tx: Any) -> Any:
        if self.backwards and self.index >= self.members:
            return None
        if self.owner.state != self.state:
            self.members = 0  # (asked again, one that goes backwards has ended)
            tx.raise_error(RuntimeError, "deque mutated during iteration")
        if self.index >= len(self.owner.items):
            return None
        self.index += 1
        return self.owner.at(len(self.owner.items) - self.index if self.backwards else self.index - 1)

    def reconstruct(self, gen: Any) -> None:
        if self.owner.state != self.state:
            ended = self.backwards and self.index >= self.members
            gen.load_call(iter, [gen.constant(())]) if ended else gen.load_call(iterator_of_moved, [gen.constant(self.backwards)])
        elif self.owner in gen.tx.effects.containers:
            gen.load_call(members_then, [self.owner, gen.constant(self.index), gen.constant(self.backwards)])
        else:
            gen.load(self.owner)
            gen.wrap_call(reversed if self.backwards else iter)
            if self.index:
                gen.wrap_call(skip_members, gen.constant(self.index))


def iterator_of_moved(backwards: bool) -> Any:
    """An iterator over a deque whose members have moved meanwhile: asking it for one raises."""
    moved: deque = deque([None])
    iterator = reversed(moved) if backwards else iter(moved)
    moved.append(None)
    return iterator


def members_then(members: deque, steps: int, backwards: bool) -> Any:
    """The members behind the first `steps`, of the deque as it is when the first of them is asked for."""
    yield from itertools.islice(reversed(members) if backwards else members, steps, None)


def skip_members(steps: int, iterator: Any) -> Any:
    """The iterator behind its first members."""
    for _ in range(steps):
        next(iterator, None)
    return iterator


class FixedIterator(IteratorVariable):
    """Over members that are known now: dict views, sets, ranges, strings."""

    def __init__(self, members: list, cls: type | None = None):
        super().__init__()
        self.members, self.index, self.ended = members, 0, False
        self.cls = cls or self.cls

    def next(self, tx: Any) -> Variable | None:
        if self.index >= len(self.members):
            self.ended = True
            return None
        self.index += 1
        return self.members[self.index - 1].realize()

    def reconstruct(self, gen: Any) -> None:
        rest = self.members[self.index :]
        gen.load_many(rest)
        gen.emit.build_tuple(len(rest))
        gen.wrap_call(iter)


class RangeIterator(IteratorVariable):
    """Over a range that is known, however long it is."""

    cls = type(iter(range(0)))

    def __init__(self, rest: Any):
        super().__init__()
        self.rest = rest

    def next(self, tx: Any) -> Variable | None:
        if not self.rest:
            return None
        value, self.rest = self.rest[0], self.rest[1:]
        return tx.fresh(value)

    def reconstruct(self, gen: Any) -> None:
        gen.emit.load_const(self.rest)
        gen.wrap_call(iter)


class ZipIterator(IteratorVariable):
    cls = zip

    def __init__(self, tx: Any, parts: tuple, strict: bool = False):
        super().__init__()
        self.parts, self.strict = [tx.iterate(part) for part in parts], strict

    def next(self, tx: Any) -> Variable | None:
        values = []
        for number, part in enumerate(self.parts):
            value = part.next(tx)
            if value is None:
                return self.end(tx, number)
            values.append(value)
        return tx.tuple(values) if values else None

    def end(self, tx: Any, number: int) -> None:
        if not self.strict:
            return None
        at, word = number, "shorter"
        if not number:
            at, word = next((k for k in range(1, len(self.parts)) if self.parts[k].next(tx) is not None), 0), "longer"
        if at:
            others = "argument 1" if at == 1 else f"arguments 1-{at}"
            tx.raise_error(ValueError, f"zip() argument {at + 1} is {word} than {others}")
        return None

    def reconstruct(self, gen: Any) -> None:
        gen.load_call(zip, self.parts, {"strict": True} if self.strict else {})


def fills_again(iterator: Any) -> bool:
    """Whether it gives the same tuple, filled again, while nobody holds what it gave before."""
    inner = getattr(iterator, "inner", None)
    return (
        isinstance(iterator, (ZipIterator, EnumerateIterator, PairwiseIterator, LongestIterator, ArrangedIterator))
        or isinstance(iterator, (FilterIterator, SliceIterator))
        and fills_again(inner)
    )


class EnumerateIterator(IteratorVariable):
    cls = enumerate

    def __init__(self, tx: Any, inner: Variable, start: Any):
        super().__init__()
        self.inner, self.count = tx.iterate(inner), start

    def next(self, tx: Any) -> Variable | None:
        value = self.inner.next(tx)
        if value is None:
            return None
        self.count += 1
        return tx.tuple([tx.fresh(self.count - 1), value])

    def reconstruct(self, gen: Any) -> None:
        gen.load_call(enumerate, [self.inner], {"start": self.count})


class MapIterator(IteratorVariable):
    cls = map

    def __init__(self, tx: Any, function: Variable, parts: tuple):
        super().__init__()
        self.function, self.parts = function, [tx.iterate(part) for part in parts]

    def next(self, tx: Any) -> Variable | None:
        if self.function.is_constant() and self.function.plain() is id and any(map(fills_again, self.parts)):
            raise unsupported("iterator", "the ids of tuples that nobody else holds, which C code may fill again")
        values = []
        for part in self.parts:
            value = part.next(tx)
            if value is None:
                return None
            values.append(value)
        return tx.call(self.function, values, {})

    def reconstruct(self, gen: Any) -> None:
        gen.load_call(map, [self.function, *self.parts])


class FilterIterator(IteratorVariable):
    cls = filter

    def __init__(self, tx: Any, function: Variable, inner: Variable):
        super().__init__()
        self.function, self.inner = function, tx.iterate(inner)

    def next(self, tx: Any) -> Variable | None:
        while (value := self.inner.next(tx)) is not None:
            if self.accepts(tx, value):
                return value
        return None

    def accepts(self, tx: Any, value: Variable) -> bool:
        by_truth = self.function.is_constant() and self.function.plain() is None
        return tx.truth(value if by_truth else tx.call(self.function, [value], {}))

    def reconstruct(self, gen: Any) -> None:
        gen.load_call(filter, [self.function, self.inner])


class ChainIterator(IteratorVariable):
    """itertools.chain: `parts` is an iterator over iterables."""

    cls = itertools.chain

    def __init__(self, parts: Any):
        super().__init__()
        self.parts, self.current = parts, None

    def next(self, tx: Any) -> Any:
        while True:
            if self.current is None:
                following = self.parts.next(tx)
                if following is None:
                    return None
                self.current = tx.iterate(following)
            value = self.current.next(tx)
            if value is not None:
                return value
            self.current = None


class CountIterator(IteratorVariable):
    """itertools.count and itertools.repeat."""

    def __init__(self, cls: type, value: Variable, step: Variable | None = None, times: int | None = None):
        super().__init__()
        self.cls, self.value, self.step, self.times = cls, value, step, times

    def next(self, tx: Any) -> Variable | None:
        if self.times is not None:
            if self.times <= 0:
                return None
            self.times -= 1
        value = self.value
        if self.step is not None:
            self.value = tx.add(value, self.step)
        return value

    def reconstruct(self, gen: Any) -> None:
        extra = [self.step] if self.step is not None else []
        gen.load_call(self.cls, [self.value, *extra] + ([gen.constant(self.times)] if self.times is not None else []))


class SliceIterator(IteratorVariable):
    """itertools.islice: what it leaves out is read, and not before it is asked for."""

    cls = itertools.islice

    def __init__(self, inner: Any, start: int, stop: Any, step: int):
        super().__init__()
        self.inner, self.following, self.stop, self.by, self.read = inner, start, stop, step, 0

    def next(self, tx: Any) -> Variable | None:
        end = self.following if self.stop is None else min(self.following, self.stop)
        while self.read < end:
            tx.step()
            if self.take(tx) is None:
                return None
        return None if self.stop is not None and self.following >= self.stop else self.advance(tx)

    def take(self, tx: Any) -> Any:
        value = self.inner.next(tx)
        self.read += 1
        if value is None:
            self.inner, self.read, self.following, self.stop = FixedIterator([]), 0, 0, 0
        return value

    def advance(self, tx: Any) -> Any:
        value = self.take(tx)
        if value is not None:
            self.following += self.by
        return value

    def reconstruct(self, gen: Any) -> None:
        stop = None if self.stop is None else max(self.stop - self.read, 0)
        start = self.following - self.read if stop is None else min(self.following - self.read, stop)
        gen.load_call(itertools.islice, [self.inner, *(gen.constant(n) for n in (start, stop, self.by))])


class AccumulateIterator(IteratorVariable):
    """itertools.accumulate; `total`: what it gave last, or gives first if nothing was given."""

    cls = itertools.accumulate

    def __init__(self, inner: Any, function: Any, initial: Any):
        super().__init__()
        self.inner, self.function, self.initial, self.total = inner, function, initial, None

    def next(self, tx: Any) -> Any:
        if self.total is None and self.initial is not None:
            self.total, self.initial = self.initial, None
            return self.total
        value = self.inner.next(tx)
        if value is None:
            return None
        self.total = (
            value
            if self.total is None
            else tx.add(self.total, value)
            if self.function is None
            else tx.call(self.function, [self.total, value], {})
        )
        return self.total

    def reconstruct(self, gen: Any) -> None:
        if self.total is not None:
            raise unsupported("iterator", "an accumulate that is half consumed lives across the break")
        named = {"initial": self.initial} if self.initial is not None else {}
        gen.load_call(itertools.accumulate, [self.inner, *([self.function] if self.function is not None else [])], named)


class PairwiseIterator(IteratorVariable):
    """itertools.pairwise."""

    cls = itertools.pairwise

    def __init__(self, inner: Any):
        super().__init__()
        self.inner, self.before = inner, None

    def next(self, tx: Any) -> Variable | None:
        before = self.inner.next(tx) if self.before is None else self.before
        self.before = self.inner.next(tx) if before is not None else None
        return None if self.before is None else tx.tuple([before, self.before])

    def reconstruct(self, gen: Any) -> None:
        if self.before is not None:
            raise unsupported("iterator", "a pairwise that is half consumed lives across the break")
        gen.load_call(itertools.pairwise, [self.inner])


class LongestIterator(IteratorVariable):
    """itertools.zip_longest; a part that has ended is None."""

    cls = itertools.zip_longest

    def __init__(self, parts: Any, fill: Any):
        super().__init__()
        self.parts, self.fill = parts, fill

    def next(self, tx: Any) -> Variable | None:
        values = [None] * len(self.parts)
        for k, part in enumerate(self.parts):
            values[k] = part.next(tx) if part is not None else None
            if values[k] is None:
                self.parts[k] = None
                if all(p is None for p in self.parts):
                    return None
        return tx.tuple([self.fill if value is None else value for value in values]) if values else None

    def reconstruct(self, gen: Any) -> None:
        gen.load_call(
            itertools.zip_longest, [FixedIterator([]) if part is None else part for part in self.parts], {"fillvalue": self.fill}
        )


class ArrangedIterator(IteratorVariable):
    """itertools.product, permutations, combinations: `rows` is the real iterator, over Variables."""

    def __init__(self, cls: type, rows: Any, args: list, named: dict):
        super().__init__()
        self.cls, self.rows, self.args, self.named, self.given = cls, rows, args, named, 0

    def next(self, tx: Any) -> Variable | None:
        row = next(self.rows, None)
        if row is None:
            return None
        self.given += 1
        return tx.tuple(list(row))

    def reconstruct(self, gen: Any) -> None:
        gen.load_call(self.cls, self.args, self.named)
        if self.given:
            gen.wrap_call(skip_members, gen.constant(self.given))


class TeeIterator(IteratorVariable):
    """One of itertools.tee's: all of them read the same `shared_source`."""

    cls = type(itertools.tee(())[0])

    def __init__(self, source: Any, index: int = 0):
        super().__init__()
        self.shared_source, self.index = source, index
        self.number = source.enter(self)

    def next(self, tx: Any) -> Variable | None:
        value = self.shared_source.value(tx, self.index)
        self.index += value is not None
        return value

    def reconstruct(self, gen: Any) -> None:
        gen.load(self.shared_source)
        gen.emit.load_const(self.number)
        gen.emit.binary_subscr()


class TeeSource(Variable):
    """What a family of tees has read so far; generated code has the tuple of them."""

    reading = False

    def __init__(self, inner: Any):
        super().__init__()
        self.inner, self.values, self.family = inner, [], []

    def enter(self, tee: Variable) -> int:
        self.family.append(tee)
        return len(self.family) - 1

    def value(self, tx: Any, index: Any) -> Any:
        if index == len(self.values):
            if self.reading:
                tx.raise_error(RuntimeError, "cannot re-enter the tee iterator")
            self.reading = True
            try:
                value = self.inner.next(tx)
            finally:
                self.reading = False
            if value is None:
                return None
            self.values.append(value)
        return self.values[index]

    def reconstruct(self, gen: Any) -> None:
        first = min(tee.index for tee in self.family)
        gen.load_call(
            tees_again,
            [self.inner, FixedIterator(self.values[first:])],
            {"places": gen.constant(tuple(tee.index - first for tee in self.family))},
        )


def tees(inner: Any, count: Any) -> list:
    """itertools.tee; of a tee it makes copies, and is the first itself."""
    if isinstance(inner, TeeIterator):
        return [inner if k == 0 else TeeIterator(inner.shared_source, inner.index) for k in range(count)]
    source = TeeSource(inner)
    return [TeeIterator(source) for _ in range(count)]


def tees_again(inner: Any, values: Any, places: Any) -> tuple:
    made = itertools.tee(itertools.chain(values, inner), len(places))
    return tuple(skip_members(steps, tee) for steps, tee in zip(places, made))


MOST_KNOWN = 64  # members of an iterator from outside that are guarded one by one
TELLING = tuple({type(iter(v)) for v in ([], (), set(), {}, {}.values(), {}.items())})


def rest_of(iterator: Any) -> tuple:
    """What it has still to give, without giving it."""
    _, given, *place = iterator.__reduce__()
    return tuple(given[0])[place[0] if place else 0 :] if given else ()


def advance_iterator(iterator: Any, steps: int, ended: bool) -> None:
    """What a trace took of an iterator is gone from the real one."""
    skip_members(steps + ended, iterator)


class OutsideIterator(IteratorVariable):
    """A real iterator object from outside. Those of lists, tuples, dicts and sets tell what they have still to give: that is
    guarded, and generated code moves the real one on. The position of any other is not guarded: advancing it is a graph break."""

    source: Source
    cls: type

    def __init__(self, value: Any, source: Source):
        super().__init__(source)
        self.value, self.cls = value, type(value)
        self.rest: list[LazyVariable] | None = None  # None before it is advanced
        self.steps, self.ended = 0, False

    def begin(self, tx: Any) -> list[LazyVariable]:
        try:
            rest = rest_of(self.value) if self.cls in TELLING else None
        except RuntimeError:  # what it is over has changed its size: it raises, and says so
            rest = None
        if rest is None or len(rest) > MOST_KNOWN:
            raise unsupported("iterator", f"advancing {self.source.name()} ({self.cls.__name__}), which came from outside")
        tx.watch.relies(self.source, self.source.name(), len(rest), grows=True)
        tx.guard(self.source, "len", len(rest))
        self.owners = gc.get_referents(self.value)
        self.rest = [LazyVariable(tx, member, IteratorItem(self.source, k, int)) for k, member in enumerate(rest)]
        return self.rest

    def next(self, tx: Any) -> Variable | None:
        rest = self.begin(tx) if self.rest is None else self.rest
        if any(tx.effects.is_mutated(tx.known(owner)) for owner in self.owners):
            raise unsupported("iterator", f"advancing {self.source.name()}, over a container that the function has changed")
        tx.effects.advance(self)
        self.ended = self.steps == len(rest)
        if self.ended:
            return None
        self.steps += 1
        return rest[self.steps - 1].realize()

"""The scheduler: which kernels become one loop nest, and how each nest's loops run.

In: an unscheduled program, one kernel a realised value. Out: a program of fewer kernels in execution order, with flat addresses.
The idea: a kernel is a space of outer points and a list of items (a store or a reduction, each over its own inner axes). Two
kernels fuse when their spaces agree after splitting axes and when every value that passes between them stays at its point;
the value then passes as SSA, and the steps follow from what waits for which accumulator.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from typing import Callable, Iterable, Iterator

from ..capture.expr import Bounds, Expr, ExprLike, plain, product, simplify
from ..eager.prims import COMBINES
from .body import Body, Buffer, Rewriter, Value, reachable
from .loops import Axis, GemmKernel, Kernel, LoopKernel, Origin, Program, Reduce, ScatterKernel, Step, Store
from .loops import reads, step_bounds, writes
from .lower import DEAR_WORK, SYMBOL, WORK

MAX_BUFFERS = 24             # arrays that one nest may touch
MAX_VALUES = 600             # SSA values of one nest
MAX_SCRATCH = 1 << 16        # elements of a row scratch
PARALLEL_POINTS = 64         # outer points that make a split of reductions unnecessary
SPLIT_FROM = 1 << 15         # elements per point from which a reduction is split
REREAD_LOADS = 3             # loads that a scratch must save
SPLITTABLE = ("sum", "prod", "max", "min", "any", "all")


def schedule(program: Program) -> Program:
    """Fuse, order, split large reductions, and choose the loops of every kernel."""
    scheduler = Scheduler(program)
    scheduler.fuse()
    kernels = [made for nest in scheduler.ordered() for made in scheduler.finished(nest)]
    return replace(program, buffers=(*program.buffers, *scheduler.new_buffers)).with_kernels(kernels)


# -- nests

@dataclass(frozen=True, eq=False)
class Item:
    """One store or one reduction over inner axes, at every outer point."""

    axes: tuple[Axis, ...]
    store: Store | None = None
    reduce: Reduce | None = None

    def roots(self) -> tuple[Value, ...]:
        if self.reduce is not None:
            return self.reduce.values
        return (self.store.value, *self.store.value.body.indirect_args(self.store.index))


@dataclass(eq=False)
class Nest:
    """A kernel while it is being fused. `head`: the template whose epilogue the items are, or a kernel that stays as it is.

    `flexible`: all items are stores at the outer points alone (a map), so that trailing outer axes may become inner ones.
    `ids`: the original kernels inside, as bits; `before`: all kernels that must run earlier.
    """

    outer: tuple[Axis, ...]
    items: list[Item]
    ids: int
    head: Kernel | None = None
    name: str = ""
    before: int = 0
    origins: tuple[Origin, ...] = ()
    notes: list[str] = field(default_factory=list)
    reads: set[str] = field(default_factory=set)
    loads_cache: dict | None = None

    @property
    def flexible(self) -> bool:
        return not any(item.axes or item.reduce for item in self.items)

    @property
    def open(self) -> bool:
        return self.head is None or isinstance(self.head, GemmKernel)

    @property
    def inner(self) -> tuple[Axis, ...]:
        """The axes of the largest inner space."""
        return max((item.axes for item in self.items), key=len, default=())

    def values(self) -> list[Value]:
        return reachable(v for item in self.items for v in item.roots())

    def loads(self) -> dict[str, list[Value]]:
        """Load values by buffer name."""
        if self.loads_cache is None:
            self.loads_cache = {}
            for v in self.values():
                if v.op == "load":
                    self.loads_cache.setdefault(v.attrs.buffer.name, []).append(v)
        return self.loads_cache

    def stores(self) -> dict[str, Item]:
        return {item.store.buffer.name: item for item in self.items if item.store is not None}


def nest_of(kernel: Kernel, bit: int) -> Nest:
    base = dict(ids=bit, name=kernel.name, origins=kernel.origins, notes=list(kernel.notes))
    if isinstance(kernel, LoopKernel):
        items = [Item(step.axes, reduce=r) for step in kernel.steps for r in step.reduces]
        items += [Item(step.axes, store=s) for step in kernel.steps for s in step.stores]
        return Nest(kernel.outer, items, **base)
    if isinstance(kernel, GemmKernel):
        return Nest(kernel.epilogue.axes, [Item((), store=s) for s in kernel.epilogue.stores], head=kernel, **base)
    return Nest((), [], head=kernel, **base)


class Scheduler:
    """Nests in order of the graph, what each touches, and the decisions so far."""

    def __init__(self, program: Program):
        self.program = program
        self.new_buffers: list[Buffer] = []
        self.outputs = {b.name for b in program.outputs if isinstance(b, Buffer)}
        self.nests = [nest_of(k, 1 << i) for i, k in enumerate(program.kernels)]
        self.body = next((v.body for k in program.kernels for s in steps_of(k) for v in s.roots()), None) or Body()
        self.bounds = Bounds({})
        self.tidied: dict[Expr, ExprLike] = {}
        self.linears: dict[tuple, ExprLike] = {}
        self.writer: dict[str, Nest] = {}
        self.readers: dict[str, list[Nest]] = {}
        for nest, kernel in zip(self.nests, program.kernels):
            self.register(nest, kernel)

    def register(self, nest: Nest, kernel: Kernel) -> None:
        for step in steps_of(kernel):
            ranges = step_bounds(kernel.outer if isinstance(kernel, LoopKernel) else (), step).ranges
            self.bounds.ranges.update(ranges)
        nest.reads = {b.name for b in reads(kernel)}
        for name in nest.reads:
            producer = self.writer.get(name)
            if producer is not None:
                nest.before |= producer.ids | producer.before
            self.readers.setdefault(name, []).append(nest)
        for buffer in writes(kernel):
            self.writer[buffer.name] = nest

    # -- places

    def tidy(self, e: ExprLike) -> ExprLike:
        if not isinstance(e, Expr):
            return e
        found = self.tidied.get(e)
        if found is None:
            found = self.tidied[e] = simplify(e, self.bounds)
        return found

    def linear(self, buffer: Buffer, index: tuple) -> ExprLike:
        """The element offset of a place, simplified."""
        key = (buffer.name, index)
        found = self.linears.get(key)
        if found is None:
            found = self.linears[key] = self.tidy(plain(buffer.linear(index)))
        return found

    def axis(self, like: Axis, taken: set[str]) -> Axis:
        """An axis of the same extent with a name that is not taken."""
        name, k = like.name, 1
        while name in taken:
            name, k = f"{like.name}_{k}", k + 1
        return self.named(Axis(name, like.extent))

    def named(self, axis: Axis) -> Axis:
        self.bounds.ranges.setdefault(axis.name, (0, axis.extent - 1))
        return axis

    # -- fusion

    def fuse(self) -> None:
        """Offer every nest, in order, to its producers and to nests that read what it reads."""
        for nest in list(self.nests):
            if nest.head is not None:
                continue
            current = nest
            for other, vertical in self.candidates(nest):
                if other is not current and any(other is n for n in self.nests):
                    merged = self.try_fuse(other, current, vertical)
                    current = merged or current

    def candidates(self, nest: Nest) -> list[tuple[Nest, bool]]:
        """(nest, whether it writes what this one reads), the largest common traffic first."""
        score: dict[int, list] = {}
        for name in nest.loads():
            size = self.size_of(name, nest)
            producer = self.writer.get(name)
            if producer is not None and producer.open:
                entry = score.setdefault(id(producer), [producer, False, 0])
                entry[1], entry[2] = True, entry[2] + 2 * size
            for reader in self.readers.get(name, ()):
                if reader is not nest and reader.head is None and reader.ids < nest.ids:
                    entry = score.setdefault(id(reader), [reader, False, 0])
                    entry[2] += size
        ranked = sorted(score.values(), key=lambda e: (not e[1], -e[2], e[0].ids))
        return [(other, vertical) for other, vertical, _ in ranked]

    def size_of(self, name: str, nest: Nest) -> int:
        return hint(nest.loads()[name][0].attrs.buffer.numel())

    def try_fuse(self, first: Nest, second: Nest, vertical: bool) -> Nest | None:
        """The fused nest, or None where it is not legal or does not pay."""
        if first.head is not None and second.head is not None or self.between(first, second):
            return None
        if isinstance(second.head, GemmKernel) and first.head is None:
            first, second = second, first
        if isinstance(first.head, GemmKernel) and {first.head.a.buffer.name, first.head.b.buffer.name} & second.stores().keys():
            return None                         # an operand must lie in memory before the product begins
        for spaces in self.common_spaces(first, second, vertical):
            a, b = self.moved(first, spaces.first), self.moved(second, spaces.second)
            items = self.passed(a, b)
            if items is None or not (vertical or self.share(a, b)) or self.too_large(a, items):
                continue
            return self.merge(first, second, a.outer, items, vertical, spaces.why)
        return None

    def between(self, a: Nest, b: Nest) -> bool:
        """Whether some third nest must run between the two."""
        if a.before & b.ids:
            a, b = b, a
        elif not b.before & a.ids:
            return False
        producers = (self.writer[name] for name in b.reads if name in self.writer)
        return any(x is not a and x is not b and x.before & a.ids for x in producers)

    def merge(self, first: Nest, second: Nest, outer: tuple, items: list[Item], vertical: bool, why: str) -> Nest:
        kind = "reads its result" if vertical else "reads the same memory"
        made = Nest(outer, items, first.ids | second.ids, first.head, first.name if first.head else second.name,
                    origins=(*first.origins, *second.origins),
                    notes=[*first.notes, *second.notes, f"{second.name} joined {first.name}: {kind}, {why}"])
        made.before = (first.before | second.before) & ~made.ids
        made.reads = set(made.loads())
        if isinstance(made.head, GemmKernel):
            made.reads |= {made.head.a.buffer.name, made.head.b.buffer.name}
        self.replace(first, second, made)
        return made

    def replace(self, first: Nest, second: Nest, made: Nest) -> None:
        """Put the fused nest in the place of both, in every table."""
        self.nests[self.nests.index(first)] = made
        self.nests.remove(second)
        for x in self.nests:
            if x is not made and x.before & made.ids:
                x.before |= made.before | made.ids
        for name in made.stores():
            self.writer[name] = made
        for name in first.reads | second.reads:
            self.readers[name] = [r for r in self.readers[name] if r is not first and r is not second]
        for name in made.reads:
            self.readers.setdefault(name, []).append(made)

    def too_large(self, a: Nest, items: list[Item]) -> bool:
        values = reachable(v for item in items for v in item.roots())
        touched = {v.attrs.buffer.name for v in values if v.op == "load"} | {i.store.buffer.name for i in items if i.store}
        return len(values) > MAX_VALUES or len(touched) > MAX_BUFFERS

    def share(self, a: Nest, b: Nest) -> bool:
        """Whether both read some element at the same point (hash-consing makes it the same value)."""
        mine = {v.id for v in a.values() if v.op == "load" and v.attrs.buffer.kind != "const"}
        shared = [v for v in b.values() if v.op == "load" and v.id in mine]
        full = hint(product(x.extent for x in (*a.outer, *a.inner)))
        return any(hint(v.attrs.buffer.numel()) * 2 > full for v in shared)

    # -- spaces

    def common_spaces(self, a: Nest, b: Nest, vertical: bool) -> Iterator[Spaces]:
        """The ways to give two nests one outer space, the best first."""
        if isinstance(a.head, GemmKernel):
            if b.flexible and vertical:
                yield from epilogue_space(a, b, f"one epilogue over ({names(a.outer)})")
                yield from permuted_space(a, b, f"one epilogue over ({names(a.outer)}), written in another order")
            return
        if b.head is not None:
            return
        if a.flexible and b.flexible:
            yield from unified(self, a.outer, b.outer, (), (), f"equal ranges ({names(a.outer)})")
            return
        if not a.flexible and not b.flexible:
            yield from unified(self, a.outer, b.outer, a.inner, b.inner, f"the same rows ({names(a.outer)})")
            return
        rows, flat = (b, a) if a.flexible else (a, b)
        if is_rows(rows) and not (b.flexible and lonely(rows)):
            turned = a.flexible
            yield from split_space(self, flat, rows, turned, f"a row of ({names(rows.inner)}) at a time")
        yield from unified(self, a.outer, b.outer, a.inner, b.inner, f"once a row ({names(rows.outer)})")

    def moved(self, nest: Nest, move: Move) -> Nest:
        """The nest with its axes renamed, split, or its trailing outer axes made inner ones."""
        if not move.mapping and not move.demoted and move.outer == nest.outer:
            return nest
        rewrite = Rewriter(self.body, move.mapping, tidy=self.tidy) if move.mapping else None
        items = []
        for item in nest.items:
            axes = tuple(x for axis in item.axes for x in move.axes.get(axis.name, (axis,)))
            items.append(rewritten(item, (*move.demoted, *axes), rewrite))
        return replace(nest, outer=move.outer, items=items, loads_cache=None)

    # -- values that pass between two nests

    def passed(self, a: Nest, b: Nest) -> list[Item] | None:
        """The items of both with b's reads of what a writes (and the other way round) made SSA; None where that is not legal."""
        for source, user in ((b, a), (a, b)):
            written = source.stores()
            mine = user.loads()
            crossing = [name for name in written if name in mine]
            if crossing:
                items = self.forwarded(source, user, crossing)
                if items is None:
                    return None
                return source.items + items
        return a.items + b.items

    def forwarded(self, source: Nest, user: Nest, crossing: list[str]) -> list[Item] | None:
        written = source.stores()
        outer = {x.name for x in source.outer}
        legal = True

        def leaf(value: Value) -> Value | None:
            nonlocal legal
            if value.op != "load" or value.attrs.buffer.name not in crossing:
                return None
            item = written[value.attrs.buffer.name]
            load, store = value.attrs, item.store
            if load.index == store.index or self.linear(load.buffer, load.index) == self.linear(store.buffer, store.index):
                return self.body.where(value.args[0], store.value, load.other) if load.masked else store.value
            legal = legal and covers(item, load.index, outer)
            return None
        rewrite = Rewriter(self.body, {}, leaf)
        items = [rewritten(item, item.axes, rewrite) for item in user.items]
        return items if legal else None

    # -- after fusion

    def ordered(self) -> list[Nest]:
        """Execution order: as in the graph, but what reads only inputs runs just before its first user."""
        users: dict[int, list[Nest]] = {id(n): [] for n in self.nests}
        waiting = {}
        for nest in self.nests:
            makers = {id(w): w for name in nest.reads if (w := self.writer.get(name)) is not None and w is not nest}
            waiting[id(nest)] = len(makers)
            for maker in makers.values():
                users[id(maker)].append(nest)
        place = {id(n): float(n.ids.bit_length()) for n in self.nests}
        for nest in sorted(self.nests, key=lambda n: -n.before.bit_count()):
            if waiting[id(nest)] == 0 and users[id(nest)]:
                place[id(nest)] = max(place[id(nest)], min(place[id(u)] for u in users[id(nest)]) - 0.5)
        ready = [(place[id(n)], n.ids, n) for n in self.nests if waiting[id(n)] == 0]
        heapq.heapify(ready)
        order = []
        while ready:
            nest = heapq.heappop(ready)[2]
            order.append(nest)
            for user in users[id(nest)]:
                waiting[id(user)] -= 1
                if waiting[id(user)] == 0:
                    heapq.heappush(ready, (place[id(user)], user.ids, user))
        return order

    def finished(self, nest: Nest) -> list[Kernel]:
        """The kernels of a nest: what nobody reads dropped, large reductions split, loops chosen."""
        if nest.head is not None and not nest.open:
            return [flat_kernel(self, nest.head)]
        self.prune(nest)
        if isinstance(nest.head, GemmKernel):
            return [finish_gemm(self, nest)]
        if not nest.items:
            return []
        return [finish_loops(self, part) for part in split_reductions(self, nest)]

    def prune(self, nest: Nest) -> None:
        """Drop stores that nobody reads; those that only this nest reads become row scratch."""
        keep = []
        for item in nest.items:
            if item.store is not None and item.store.buffer.name not in self.outputs:
                name = item.store.buffer.name
                others = [r for r in self.readers.get(name, ()) if r is not nest]
                if not others and name not in nest.loads():
                    continue
            keep.append(item)
        nest.items, nest.loads_cache = keep, None
        needed = {v.attrs for v in nest.values() if v.op == "acc"}
        nest.items = [i for i in keep if i.reduce is None or needed & set(i.reduce.names)]
        nest.loads_cache = None

    def temp(self, name: str, dtype, sizes: tuple) -> Buffer:
        strides, step = [], 1
        for n in reversed(sizes):
            strides.append(step)
            step = plain(step * n)
        taken = {b.name for b in (*self.program.buffers, *self.new_buffers)}
        while name in taken:
            name += "_"
        made = Buffer(name, dtype, tuple(sizes), tuple(reversed(strides)), 0, "temp", name)
        self.new_buffers.append(made)
        return made


def steps_of(kernel: Kernel) -> tuple[Step, ...]:
    if isinstance(kernel, LoopKernel):
        return kernel.steps
    if isinstance(kernel, GemmKernel):
        return (kernel.epilogue,)
    return (kernel.step,) if isinstance(kernel, ScatterKernel) else ()


def hint(e: ExprLike) -> int:
    """A size as a number, for choices."""
    return e if isinstance(e, int) else int(e.evaluate(dict.fromkeys(e.free_names(), SYMBOL)))


def names(axes: Iterable[Axis]) -> str:
    return ", ".join(str(a.extent) for a in axes)


def rewritten(item: Item, axes: tuple, rewrite: Rewriter | None) -> Item:
    if rewrite is None:
        return replace(item, axes=axes)
    if item.reduce is not None:
        return Item(axes, reduce=replace(item.reduce, values=tuple(map(rewrite, item.reduce.values))))
    for v in item.store.value.body.indirect_args(item.store.index):
        rewrite(v)
    value = rewrite(item.store.value)
    return Item(axes, store=replace(item.store, index=tuple(rewrite.expr(e) for e in item.store.index), value=value))


def covers(item: Item, index: tuple, outer: set[str]) -> bool:
    """Whether the place that `index` reads was written earlier at the same outer point: dimensions that the store indexes by
    outer axes are read at the same index, the others are written whole by its inner axes."""
    inner = {a.var: a for a in item.axes}
    for stored, read, size in zip(item.store.index, index, item.store.buffer.sizes):
        axis = inner.get(stored) if isinstance(stored, Expr) else None
        if axis is not None:
            if plain(axis.extent) != plain(size):
                return False
            inner.pop(stored)
        elif stored != read or isinstance(stored, Expr) and not stored.free_names() <= outer:
            return False
    return bool(item.axes) and not inner


# -- making two spaces one

@dataclass(frozen=True)
class Move:
    """What happens to one nest: its new outer axes, the substitution, inner axes replaced by others, outer axes made inner."""

    outer: tuple[Axis, ...]
    mapping: dict
    axes: dict
    demoted: tuple[Axis, ...] = ()


@dataclass(frozen=True)
class Spaces:
    first: Move
    second: Move
    why: str


def refine(a: tuple[Axis, ...], b: tuple[Axis, ...]) -> tuple[dict, dict] | None:
    """Row-major spaces of equal size: for each side, axis name -> the finer axes that make it up; None where they do not nest."""
    left: dict[str, tuple] = {}
    right: dict[str, tuple] = {}
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i].extent == b[j].extent:
            left[a[i].name], right[b[j].name] = (a[i],), (a[i],)
            i, j = i + 1, j + 1
            continue
        run = grow(a[i:], b[j].extent)
        if run:
            right[b[j].name] = run
            left.update({x.name: (x,) for x in run})
            i, j = i + len(run), j + 1
            continue
        run = grow(b[j:], a[i].extent)
        if not run:
            return None
        left[a[i].name] = run
        right.update({x.name: (x,) for x in run})
        i, j = i + 1, j + len(run)
    return (left, right) if i == len(a) and j == len(b) else None


def grow(axes: tuple[Axis, ...], extent: ExprLike) -> tuple[Axis, ...]:
    """The leading axes whose sizes multiply to `extent`."""
    total: ExprLike = 1
    for k, axis in enumerate(axes[:6]):
        total = plain(total * axis.extent)
        if total == extent:
            return axes[:k + 1]
    return ()


def joined(axes: tuple[Axis, ...]) -> ExprLike:
    """The row-major position in the space of some axes."""
    total: ExprLike = 0
    for axis in axes:
        total = total * axis.extent + axis.var
    return total


def mapping_of(parts: dict) -> dict:
    """Variable name -> expression, where they differ."""
    return {name: joined(run) for name, run in parts.items() if len(run) != 1 or run[0].name != name}


def real(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    return tuple(a for a in axes if not (isinstance(a.extent, int) and a.extent == 1))


def epilogue_space(gemm: Nest, user: Nest, why: str) -> Iterator[Spaces]:
    """The template's axes stay; a user with finer axes gets them by division."""
    parts = refine(real(gemm.outer), real(user.outer))
    if parts is None:
        return
    mapping = {}
    for axis in real(gemm.outer):
        run = parts[0][axis.name]
        step: ExprLike = 1
        for k, fine in reversed(list(enumerate(run))):
            if len(run) > 1:
                at = axis.var // step if k == 0 else axis.var // step % fine.extent
                mapping[fine.name] = plain(at)
            step = plain(step * fine.extent)
    coarse = {name: joined(run) for name, run in parts[1].items() if len(run) != 1 or run[0].name != name}
    still = Move(gemm.outer, {}, {})
    yield Spaces(still, Move(gemm.outer, coarse | mapping, {}), why)


def permuted_space(gemm: Nest, user: Nest, why: str) -> Iterator[Spaces]:
    """A user whose axes are the template's in another order: read off from the index at which it reads the result."""
    for name, item in gemm.stores().items():
        for load in user.loads().get(name, ()):
            mapping = {e.name: at for e, at in zip(load.attrs.index, item.store.index) if isinstance(e, Expr) and e.is_var}
            sizes = {e.name: size for e, size in zip(load.attrs.index, item.store.buffer.sizes) if isinstance(e, Expr) and e.is_var}
            if mapping.keys() == {a.name for a in real(user.outer)} and all(sizes[a.name] == a.extent for a in real(user.outer)):
                yield Spaces(Move(gemm.outer, {}, {}), Move(gemm.outer, mapping, {}), why)
                return


def unified(scheduler: Scheduler, a: tuple, b: tuple, a_inner: tuple, b_inner: tuple, why: str) -> Iterator[Spaces]:
    """One outer space for both; inner spaces of equal size get the same axes."""
    parts = refine(real(a), real(b))
    if parts is None:
        return
    outer = tuple(x for axis in real(a) for x in parts[0][axis.name])
    taken = {x.name for x in outer}
    first, a_axes = freed(scheduler, parts[0], a_inner, taken)
    target = tuple(x for axis in a_inner for x in a_axes.get(axis.name, (axis,)))
    inner = refine(target, b_inner) if target and b_inner else None
    if inner is not None and not mapping_of(inner[0]):
        second = mapping_of(parts[1]) | mapping_of(inner[1])
        b_axes = {name: run for name, run in inner[1].items()}
    else:
        second, b_axes = freed(scheduler, parts[1], b_inner, taken)
    yield Spaces(Move(outer, first, a_axes), Move(outer, second, b_axes), why)


def freed(scheduler: Scheduler, parts: dict, inner: tuple, taken: set[str]) -> tuple[dict, dict]:
    """The substitution of the outer axes, with inner axes renamed where their names are taken."""
    mapping, axes = mapping_of(parts), {}
    for axis in inner:
        if axis.name in taken:
            fresh = scheduler.axis(axis, taken | {x.name for x in inner})
            mapping[axis.name] = fresh.var
            axes[axis.name] = (fresh,)
    return mapping, axes


def split_space(scheduler: Scheduler, flat: Nest, rows: Nest, flat_first: bool, why: str) -> Iterator[Spaces]:
    """A map over the elements of the rows: its space is the rows' outer and inner space together."""
    whole = (*real(rows.outer), *rows.inner)
    parts = refine(real(flat.outer), whole)
    if parts is None:
        return
    left, right = parts
    outer = tuple(x for axis in real(rows.outer) for x in right[axis.name])
    inner = tuple(x for axis in rows.inner for x in right[axis.name])
    mine = Move(outer, mapping_of(left), {}, demoted=inner)
    theirs = Move(outer, mapping_of(right), {axis.name: right[axis.name] for axis in rows.inner})
    yield Spaces(mine, theirs, why) if flat_first else Spaces(theirs, mine, why)


def is_rows(nest: Nest) -> bool:
    """Whether the inner space follows the outer one in the order of the axes' places (rows, not columns)."""
    return [place(x) for x in (*nest.outer, *nest.inner)] == sorted(place(x) for x in (*nest.outer, *nest.inner))


def place(axis: Axis) -> int:
    return int(axis.name[1:].split("_", 1)[0])


def lonely(nest: Nest) -> bool:
    """A reduction of everything: a map after it would run on one core."""
    return not real(nest.outer) and hint(product(a.extent for a in nest.inner)) >= 4096


# -- large reductions

def split_reductions(scheduler: Scheduler, nest: Nest) -> list[Nest]:
    """Two nests for a reduction with too few points to run in parallel: partial results, then the rest."""
    reduces = [item for item in nest.items if item.reduce is not None]
    inner = nest.inner
    if not reduces or hint(product(a.extent for a in nest.outer)) >= PARALLEL_POINTS or \
            hint(product(a.extent for a in inner)) < SPLIT_FROM:
        return [nest]
    wide = [item for item in nest.items if item.axes]
    plain_kinds = all(item.axes == inner and not waits(item) for item in wide) and \
        all(item.axes == inner and item.reduce.combine in SPLITTABLE for item in reduces)
    if not plain_kinds or len(nest.loads().keys() & nest.stores().keys()):
        return [nest]
    return two_stages(scheduler, nest, inner)


def waits(item: Item) -> bool:
    return any(v.op == "acc" for v in reachable(item.roots()))


def two_stages(scheduler: Scheduler, nest: Nest, inner: tuple[Axis, ...]) -> list[Nest]:
    """Leading inner axes become outer ones; a single axis is cut into chunks."""
    nest, inner = chunked(scheduler, nest, inner)
    lead, rest = leading(inner)
    body = scheduler.body
    first, second, done = [], [], {}
    for item in nest.items:
        if item.axes == inner and item.reduce is None:
            first.append(replace(item, axes=rest))
        elif item.reduce is not None:
            name, dtype = item.reduce.names[0], item.reduce.dtypes[0]
            partial = scheduler.temp(f"{name}_partial", dtype, tuple(a.extent for a in (*nest.outer, *lead)))
            index = tuple(a.var for a in (*nest.outer, *lead))
            part = f"{name}_part"
            first.append(Item(rest, reduce=replace(item.reduce, names=(part,))))
            first.append(Item((), store=Store(partial, index, body.acc(part, dtype))))
            second.append(Item(lead, reduce=replace(item.reduce, values=(body.load(partial, index),))))
            done[partial.name] = partial
        else:
            second.append(item)
    note = f"split: {names(inner)} reduced by {names(lead)} parallel parts"
    parts = Nest((*nest.outer, *lead), first, nest.ids, name=nest.name + "_parts", origins=nest.origins, notes=[*nest.notes, note])
    final = Nest(nest.outer, second, nest.ids, name=nest.name, origins=nest.origins, notes=[note])
    return [parts, final]


def leading(inner: tuple[Axis, ...]) -> tuple[tuple, tuple]:
    """The fewest leading axes that give enough parallel parts (never all)."""
    points = 1
    for k, axis in enumerate(inner[:-1], 1):
        points *= hint(axis.extent)
        if points >= 16:
            return inner[:k], inner[k:]
    return inner[:-1], inner[-1:]


def chunked(scheduler: Scheduler, nest: Nest, inner: tuple[Axis, ...]) -> tuple[Nest, tuple[Axis, ...]]:
    """A single long axis as (chunks, elements): elements past the end of the last chunk are masked to the identity."""
    if len(inner) > 1 and hint(product(a.extent for a in inner[:-1])) >= 16:
        return nest, inner
    long = inner[-1]
    count = divisor(long.extent)
    size = plain(long.extent // count if isinstance(long.extent, int) and long.extent % count == 0 else (long.extent + count - 1) // count)
    taken = {a.name for a in (*nest.outer, *inner)}
    chunk = scheduler.axis(Axis(f"{long.name}_chunk", count), taken)
    part = scheduler.axis(Axis(f"{long.name}_part", size), taken)
    position = chunk.var * size + part.var
    whole = isinstance(long.extent, int) and long.extent == count * size
    rewrite = masking(scheduler, {long.name: position}, None if whole else (position, long.extent))
    new = (*inner[:-1], chunk, part)
    items = []
    for item in nest.items:
        if item.axes == inner:
            if not whole and item.reduce is None:
                return nest, inner              # a masked store does not exist
            item = rewritten(item, new, rewrite)
            if not whole:
                item = replace(item, reduce=only_inside(scheduler.body, item.reduce, position, long.extent))
        items.append(item)
    return replace(nest, items=items, loads_cache=None), new


def divisor(n: ExprLike) -> int:
    """How many chunks: a divisor of a known size where there is one."""
    if isinstance(n, int):
        return next((d for d in range(64, 15, -1) if n % d == 0), 32)
    return 32


def masking(scheduler: Scheduler, mapping: dict, limit: tuple | None) -> Rewriter:
    body = scheduler.body
    if limit is None:
        return Rewriter(body, mapping, tidy=scheduler.tidy)
    inside = body.prim("lt", body.index(limit[0]), body.index(limit[1]))

    def leaf(value: Value) -> Value | None:
        if value.op != "load":
            return None
        load = value.attrs
        mask = body.prim("logical_and", value.args[0], inside) if load.masked else inside
        return body.load(load.buffer, load.index, mask, load.other)
    return Rewriter(body, mapping, leaf, scheduler.tidy)


def only_inside(body: Body, reduce: Reduce, position: ExprLike, extent: ExprLike) -> Reduce:
    inside = body.prim("lt", body.index(position), body.index(extent))
    identity = body.const(COMBINES[reduce.combine].identity(reduce.dtypes[0]), reduce.dtypes[0])
    return replace(reduce, values=(body.where(inside, reduce.values[0], identity),))


# -- from nests to kernels

def finish_loops(scheduler: Scheduler, nest: Nest) -> LoopKernel:
    """Levels, scratch, loop order, collapsed axes, flat addresses."""
    if nest.flexible:
        return emit_map(scheduler, nest, map_order(scheduler, nest))
    nest = contiguous_inner(scheduler, copied_rows(scheduler, replace(nest, outer=real(nest.outer))))
    groups: dict[tuple, list[Item]] = {}
    for item, level in sorted(zip(nest.items, levels_of(nest)), key=lambda pair: (pair[1], len(pair[0].axes))):
        groups.setdefault((level, item.axes), []).append(item)
    steps = [(axes, items) for (_, axes), items in groups.items()]
    rows = own_rows(scheduler, nest)
    steps = share_rows(scheduler, steps, rows)
    if is_columns(scheduler, nest):
        return emit(scheduler, replace(nest, outer=unit_last(scheduler, nest)), steps, rows, "outer")
    return emit(scheduler, nest, steps, rows, "inner")


def levels_of(nest: Nest) -> list[int]:
    """The pass over the row in which each item can run: after the accumulators and stored rows that it reads."""
    wrote = {item.store.buffer.name: i for i, item in enumerate(nest.items) if item.store is not None}
    owner = {name: i for i, item in enumerate(nest.items) if item.reduce for name in item.reduce.names}
    found: dict[int, int] = {}

    def level(i: int) -> int:
        if i not in found:
            found[i] = max((level(j) + 1 for j in needed(nest.items[i], i)), default=0)
        return found[i]

    def needed(item: Item, i: int) -> Iterator[int]:
        for v in reachable(item.roots()):
            if v.op == "acc":
                yield owner[v.attrs]
            elif v.op == "load" and wrote.get(v.attrs.buffer.name, i) != i:
                yield wrote[v.attrs.buffer.name]
    return [level(i) for i in range(len(nest.items))]


# -- loop order

def stride(linear: ExprLike, axis: Axis) -> int:
    """The stride along an axis as a number; a large one where it is no plain stride."""
    if not isinstance(linear, Expr) or axis.name not in linear.free_names():
        return 0
    parts = linear.affine([axis.var])
    return 1 << 40 if parts is None else abs(hint(plain(parts[0][axis.var])))


def places(scheduler: Scheduler, items: Iterable[Item]) -> Iterator[ExprLike]:
    """The element offsets of all loads and stores."""
    for item in items:
        if item.store is not None:
            yield scheduler.linear(item.store.buffer, item.store.index)
        for v in reachable(item.roots()):
            if v.op == "load":
                yield scheduler.linear(v.attrs.buffer, v.attrs.index)


def map_order(scheduler: Scheduler, nest: Nest) -> tuple[Axis, ...]:
    """The axes of a map by falling stride of what it writes."""
    store = nest.items[0].store
    written = scheduler.linear(store.buffer, store.index)
    return tuple(sorted(real(nest.outer), key=lambda a: -stride(written, a)))


def contiguous_inner(scheduler: Scheduler, nest: Nest) -> Nest:
    """Inner axes by falling stride, where the order as it stands has no contiguous innermost axis."""
    items = []
    order: dict[tuple, tuple] = {}
    for item in nest.items:
        if len(item.axes) > 1 and item.axes not in order:
            found = list(places(scheduler, [i for i in nest.items if i.axes == item.axes]))
            weight = {a.name: sum(stride(e, a) for e in found) for a in item.axes}
            units = {a.name: sum(stride(e, a) == 1 for e in found) for a in item.axes}
            best = max(item.axes, key=lambda a: units[a.name])
            if units[item.axes[-1].name] < units[best.name]:
                order[item.axes] = tuple(sorted(item.axes, key=lambda a: -weight[a.name]))
        items.append(replace(item, axes=order.get(item.axes, item.axes)))
    return replace(nest, items=items, loads_cache=None)


def is_columns(scheduler: Scheduler, nest: Nest) -> bool:
    """Whether the reductions run down columns: most loads are contiguous along an outer axis, not along the inner one."""
    across = along = 0
    for item in nest.items:
        if item.axes and nest.outer:
            for e in places(scheduler, [item]):
                along += stride(e, item.axes[-1]) == 1
                across += any(stride(e, a) == 1 for a in nest.outer)
    return across > along


def unit_last(scheduler: Scheduler, nest: Nest) -> tuple[Axis, ...]:
    """The outer axes with the one along which most loads are contiguous last."""
    found = list(places(scheduler, nest.items))
    best = max(nest.outer, key=lambda a: (sum(stride(e, a) == 1 for e in found), nest.outer.index(a)))
    return (*(a for a in nest.outer if a is not best), best)


# -- row scratch

def copied_rows(scheduler: Scheduler, nest: Nest) -> Nest:
    """What the nest stores for others and reads back at another place of the row, it reads from a copy of the row."""
    stores, loads = nest.stores(), nest.loads()
    copies = {name: Buffer(f"{name}_copy", b.dtype, b.sizes, b.strides, b.offset, "temp", b.origin)
              for name, item in stores.items() if name in loads for b in [item.store.buffer] if not private(scheduler, nest, name)}
    if not copies:
        return nest

    def leaf(value: Value) -> Value | None:
        load = value.attrs
        if value.op != "load" or load.buffer.name not in copies:
            return None
        return scheduler.body.load(copies[load.buffer.name], load.index, value.args[0] if load.masked else None, load.other)
    rewrite = Rewriter(scheduler.body, {}, leaf)
    items = [rewritten(item, item.axes, rewrite) for item in nest.items]
    items += [Item(i.axes, store=replace(i.store, buffer=copies[i.store.buffer.name]))
              for i in items if i.store is not None and i.store.buffer.name in copies]
    return replace(nest, items=items, loads_cache=None)


def private(scheduler: Scheduler, nest: Nest, name: str) -> bool:
    """Whether nothing outside of the nest needs this buffer."""
    return name not in scheduler.outputs and all(r.ids & nest.ids for r in scheduler.readers.get(name, ()))


def own_rows(scheduler: Scheduler, nest: Nest) -> dict[str, tuple[Buffer, tuple[int, ...]]]:
    """Temps that only this nest reads, and not at the point where they are stored: name -> (row scratch, dimensions kept)."""
    rows = {}
    for item in nest.items:
        if item.store is not None and item.axes:
            name = item.store.buffer.name
            if private(scheduler, nest, name):
                inner = {a.name for a in item.axes}
                kept = tuple(d for d, e in enumerate(item.store.index) if isinstance(e, Expr) and e.free_names() & inner)
                sizes = tuple(item.store.buffer.sizes[d] for d in kept)
                rows[name] = (row_buffer(name, item.store.buffer.dtype, sizes), kept)
    return rows


def row_buffer(name: str, dtype, sizes: tuple) -> Buffer:
    return Buffer("row_" + name, dtype, sizes, row_major(sizes), 0, "local", name)


def row_major(sizes: tuple) -> tuple:
    strides, step = [], 1
    for n in reversed(sizes):
        strides.append(step)
        step = plain(step * n)
    return tuple(reversed(strides))


def share_rows(scheduler: Scheduler, steps: list, rows: dict) -> list:
    """Values that a later step would compute again at a high price are kept from the first step that has them."""
    steps = [(axes, list(items)) for axes, items in steps]
    kept: dict[int, Value] = {}
    for late, (axes, items) in enumerate(steps):
        if not axes or hint(product(a.extent for a in axes)) > MAX_SCRATCH:
            continue
        for early, (early_axes, early_items) in enumerate(steps[:late]):
            if set(early_axes) == set(axes):
                stored = {i.store.value.id for i in early_items if i.store is not None}
                for value in repeated(early_items, items, axes, stored):
                    if value.id not in kept:
                        kept[value.id] = keep(scheduler, value, axes, early_items, rows)
        if kept:
            rewrite = Rewriter(scheduler.body, {})
            made_here = {i.store.value.id for i in items if i.store is not None and i.store.buffer.kind == "local"}
            rewrite.done.update({ident: load for ident, load in kept.items() if ident not in made_here})
            items[:] = [rewritten(item, item.axes, rewrite) for item in items]
    return steps


def repeated(early: list[Item], late: list[Item], axes: tuple, stored: set[int]) -> list[Value]:
    """The largest values of both lists that are dear and differ along the row; what is stored anyway is dear sooner."""
    first = {v.id for v in reachable(v for item in early for v in item.roots())}
    last = reachable(v for item in late for v in item.roots())
    roots = {v.id for item in late for v in item.roots()}
    used_alone = {a.id for u in last if u.id not in first for a in u.args} | roots
    inside = {a.name for a in axes}
    return [v for v in last if v.id in first and v.id in used_alone and v.op not in LEAVES
            and dear(v, inside, REREAD_LOADS - (v.id in stored))]


LEAVES = ("load", "const", "index", "scalar", "acc", "indirect", "cast")


def dear(value: Value, inside: set[str], many: int) -> bool:
    """Whether computing a value again costs more than keeping it; what does not vary along the row costs nothing."""
    work, loads, varies = 0.0, 0, set()
    for v in reachable((value,)):
        exprs = v.attrs.index if v.op == "load" else (v.attrs,) if v.op == "index" else ()
        names = {n for e in exprs if isinstance(e, Expr) for n in e.free_names()}
        if names & inside or any(a.id in varies for a in v.args):
            varies.add(v.id)
            work += WORK.get(v.op, 1)
            loads += v.op == "load"
    return value.id in varies and (work >= DEAR_WORK or loads >= many)


def keep(scheduler: Scheduler, value: Value, axes: tuple, early: list[Item], rows: dict) -> Value:
    """Store a value where it is first computed (unless it is stored there anyway); the load that reads it back."""
    for item in early:
        if item.store is not None and item.store.value is value and item.store.buffer.name not in rows:
            return scheduler.body.load(item.store.buffer, item.store.index)
    buffer = row_buffer(f"{value.op}_{value.id}", value.dtype, tuple(a.extent for a in axes))
    rows[buffer.name] = (buffer, tuple(range(len(axes))))
    index = tuple(a.var for a in axes)
    early.append(Item(axes, store=Store(buffer, index, value)))
    return scheduler.body.load(buffer, index)


# -- kernels with flat addresses

class Flatten(Rewriter):
    """Renames and merges axes, and turns every index into an element offset."""

    def __init__(self, scheduler: Scheduler, mapping: dict, rows: dict):
        super().__init__(scheduler.body, mapping)
        self.scheduler, self.rows = scheduler, rows

    def offset(self, buffer: Buffer, index: tuple) -> ExprLike:
        return self.expr(self.scheduler.linear(*self.local(buffer, index)))

    def local(self, buffer: Buffer, index: tuple) -> tuple[Buffer, tuple]:
        row = self.rows.get(buffer.name)
        return (row[0], tuple(index[k] for k in row[1])) if row else (buffer, index)

    def rebuild_load(self, value: Value, args: tuple) -> Value:
        load = value.attrs
        buffer, index = self.local(load.buffer, load.index)
        offset = self.expr(self.scheduler.linear(buffer, index))
        return self.body.load(buffer.flat, (offset,), args[0] if load.masked else None, load.other)

    def store(self, store: Store) -> Store:
        for v in self.body.indirect_args(store.index):
            self(v)
        buffer, index = self.local(store.buffer, store.index)
        return Store(buffer.flat, (self.expr(self.scheduler.linear(buffer, index)),), self(store.value), store.mode)

    def step(self, axes: tuple, items: list[Item]) -> Step:
        stores = tuple(self.store(i.store) for i in items if i.store is not None)
        reduces = tuple(replace(i.reduce, values=tuple(map(self, i.reduce.values))) for i in items if i.reduce is not None)
        return Step(axes, stores, reduces)


def emit(scheduler: Scheduler, nest: Nest, steps: list, rows: dict, vector: str) -> LoopKernel:
    """Collapse what is contiguous in every array, name axes i (outer) and j (inner), address memory by element offsets."""
    found = [list(index_forms(scheduler, items, rows)) for _, items in steps]
    outer, mapping = collapsed(nest.outer, [e for forms in found for e in forms], "i")
    made = []
    for (axes, items), forms in zip(steps, found):
        inner, more = collapsed(axes, forms, "j")
        made.append(Flatten(scheduler, mapping | more, rows).step(inner, items))
    used = {b for step in made for b in local_buffers(step)}
    local = tuple(row.flat for row, _ in rows.values() if row in used)
    return LoopKernel(nest.name, outer, tuple(made), local, vector, unique(nest.origins), tuple(nest.notes))


def emit_map(scheduler: Scheduler, nest: Nest, axes: tuple[Axis, ...]) -> LoopKernel:
    """A map: what is contiguous everywhere is one axis, and the last axis is the inner loop."""
    merged, mapping = collapsed(axes, list(index_forms(scheduler, nest.items, {})), "i")
    inner = tuple(Axis("j0", a.extent) for a in merged[-1:])
    mapping = {name: inner[0].var if isinstance(e, Expr) and e == merged[-1].var else e for name, e in mapping.items()}
    step = Flatten(scheduler, mapping, {}).step(inner, nest.items)
    return LoopKernel(nest.name, merged[:-1], (step,), (), "inner", unique(nest.origins), tuple(nest.notes))


def local_buffers(step: Step) -> Iterator[Buffer]:
    yield from (s.buffer for s in step.stores)
    yield from (v.attrs.buffer for v in step.values() if v.op == "load")


def unique(origins: tuple) -> tuple:
    return tuple(dict.fromkeys(origins))


def index_forms(scheduler: Scheduler, items: list[Item], rows: dict) -> Iterator[ExprLike]:
    """Every expression over axes in some items."""
    flatten = Flatten(scheduler, {}, rows)
    for item in items:
        if item.store is not None:
            yield scheduler.linear(*flatten.local(item.store.buffer, item.store.index))
        for v in reachable(item.roots()):
            if v.op == "load":
                yield scheduler.linear(*flatten.local(v.attrs.buffer, v.attrs.index))
            elif v.op == "index":
                yield v.attrs


def collapsed(axes: tuple[Axis, ...], forms: list[ExprLike], letter: str) -> tuple[tuple[Axis, ...], dict]:
    """The axes with neighbours merged where every form allows it, and the substitution."""
    groups: list[list[Axis]] = []
    forms = list({e: None for e in forms if isinstance(e, Expr)})
    for axis in axes:
        if groups and mergeable(groups[-1], axis, forms):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    made, mapping = [], {}
    for k, group in enumerate(groups):
        new = Axis(f"{letter}{k}", plain(product(a.extent for a in group)))
        made.append(new)
        mapping |= {a.name: 0 for a in group[:-1]} | {group[-1].name: new.var}
    return tuple(made), mapping


def mergeable(group: list[Axis], axis: Axis, forms: list[Expr]) -> bool:
    """Whether one counter can stand for the group's last axis and the next: strides continue in every form."""
    last = group[-1]
    for e in forms:
        names = e.free_names()
        if last.name in names or axis.name in names:
            parts = e.affine([last.var, axis.var])
            if parts is None or plain(parts[0][last.var]) != plain(parts[0][axis.var] * axis.extent):
                return False
    return True


def finish_gemm(scheduler: Scheduler, nest: Nest) -> GemmKernel:
    """Batch axes merge into the rows where the second operand does not vary along them and memory continues."""
    kernel: GemmKernel = nest.head
    *batch, m, n = kernel.epilogue.axes
    a, b = kernel.a.strides, kernel.b.strides
    forms = [e for e in index_forms(scheduler, nest.items, {}) if isinstance(e, Expr)]
    rows = [(m, a[-2])]
    while batch and plain(b[len(batch) - 1]) == 0 and rows_continue(batch[-1], a[len(batch) - 1], rows, forms):
        rows = [(batch[-1], a[len(batch) - 1]), *(row for row in rows if not is_one(row[0].extent))]
        batch.pop()
    new_batch = tuple(Axis(f"b{k}", axis.extent) for k, axis in enumerate(batch))
    new_m = Axis("m", plain(product(axis.extent for axis, _ in rows)))
    new_n, new_k = Axis("n", n.extent), Axis("k", kernel.k.extent)
    mapping = {old.name: new.var for old, new in zip(batch, new_batch)} | {axis.name: 0 for axis, _ in rows[:-1]}
    mapping |= {rows[-1][0].name: new_m.var, n.name: new_n.var}
    step = Flatten(scheduler, mapping, {}).step((*new_batch, new_m, new_n), nest.items)
    return replace(kernel, batch=new_batch, m=new_m, n=new_n, k=new_k, epilogue=step,
                   a=replace(kernel.a, strides=(*a[:len(batch)], rows[-1][1], a[-1])),
                   b=replace(kernel.b, strides=(*b[:len(batch)], *b[-2:])),
                   origins=unique(nest.origins), notes=tuple(nest.notes))


def rows_continue(axis: Axis, stride_: ExprLike, rows: list, forms: list) -> bool:
    """Whether one more batch axis can be counted by the rows: memory of the first operand and of all arrays continues."""
    first, inner = rows[0]
    return is_one(first.extent) or plain(stride_) == plain(inner * first.extent) and mergeable([axis], first, forms)


def is_one(n: ExprLike) -> bool:
    return isinstance(n, int) and n == 1


def flat_kernel(scheduler: Scheduler, kernel: Kernel) -> Kernel:
    """Scatters and library calls keep the geometry of their buffers."""
    return kernel

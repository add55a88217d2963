"""The scheduler: which kernels become one loop nest.

In: an unscheduled program, one kernel a realised value. Out: a program of fewer kernels in execution order, with flat addresses.
The idea: two kernels fuse when their spaces agree after splitting axes and when every value that passes between them stays at
its point; the value then passes as SSA, and the steps follow from what waits for which accumulator. Fusion is vertical
(a nest with the producer of what it reads) or horizontal (with a nest that reads the same memory, for one pass over it).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import replace

from ...capture.shapes.expr import product
from .mix_order_reduction import sums_beside_rows
from ..loops.body import Rewriter, Value, reachable
from .emit_kernel import finish_gemm, finish_loops, is_columns
from ..loops.ir import GemmKernel, Kernel, Program, buffers_read, buffers_written
from ..loops.lower import hint
from .loop_nest import (
    PROCESSOR,
    SchedulerContext,
    Item,
    LoopNest,
    Parallelism,
    covers,
    is_rows,
    is_full_reduction,
    extents_text,
    nest_of,
    rewrite_item,
)
from .one_hot_scatter import as_one_hot_scatter
from .iteration_space import CommonSpace, epilogue_space, map_axes, permuted_space, split_space, unify_spaces
from .column_slabs import walks_slabs
from .split_reduction import split_reductions

MAX_BUFFERS = 24  # arrays that one nest may touch
MAX_VALUES = 600  # SSA values of one nest
LARGE = 1 << 20  # elements of an array that is better read first along its rows


def schedule(program: Program, parallel: Parallelism = PROCESSOR) -> Program:
    """Fuse, order, split large reductions, and choose the loops of every kernel. `parallel`: what keeps the target busy."""
    scheduler = Scheduler(program, parallel)
    scheduler.fuse()
    scheduler.fuse_parts()
    if parallel.beside:
        sums_beside_rows(scheduler, LARGE)
    kernels = [made for nest in scheduler.ordered() for made in scheduler.finished(nest)]
    return replace(program, buffers=(*program.buffers, *scheduler.new_buffers)).with_kernels(kernels)


class Scheduler(SchedulerContext):
    """Nests in order of the graph, what each touches, and the decisions so far."""

    def __init__(self, program: Program, parallel: Parallelism):
        super().__init__(program, parallel)
        self.nests = [nest_of(k, 1 << i) for i, k in enumerate(program.kernels)]
        for nest, kernel in zip(self.nests, program.kernels):
            self.register(nest, kernel)

    def register(self, nest: LoopNest, kernel: Kernel) -> None:
        nest.reads = {b.name for b in buffers_read(kernel)}
        for name in nest.reads:
            producer = self.writer.get(name)
            if producer is not None:
                nest.before |= producer.ids | producer.before
            self.readers.setdefault(name, []).append(nest)
        for buffer in buffers_written(kernel):
            self.writer[buffer.name] = nest

    # -- fusion

    def fuse(self) -> None:
        """Offer every nest, in order, to its producers (vertical fusion) and to nests that read what it reads (horizontal)."""
        for nest in list(self.nests):
            if nest.head is not None:
                continue
            current = nest
            for other, vertical in self.candidates(nest):
                if other is not current and any(other is n for n in self.nests):
                    merged = self.try_fuse(other, current, vertical)
                    current = merged or current

    def fuse_parts(self) -> None:
        """A reduction of everything that is made of the rows' results joins a nest that reads these rows anyway."""
        for nest in list(self.nests):
            others = [
                n
                for n in self.nests
                if n.head is None and n is not nest and not n.flexible and n.reads & nest.reads and not n.before & nest.ids
            ]  # who waits for the whole cannot make its parts
            if nest.head is None and others and is_full_reduction(nest):
                self.try_parts(nest, others)

    def try_parts(self, nest: LoopNest, others: list[LoopNest]) -> None:
        known = len(self.new_buffers)
        halves = split_reductions(self, nest)
        if len(halves) == 2:
            parts, final = halves
            parts.before, parts.reads = nest.before, nest.reads
            self.nests[self.nests.index(nest)] = parts
            for name in nest.reads:
                self.readers[name] = [parts if r is nest else r for r in self.readers[name]]
            made = next((m for other in others if (m := self.try_fuse(other, parts, False)) is not None), None)
            if made is not None:
                return self.add_final(nest, made, final)
            self.nests[self.nests.index(parts)] = nest
            for name in nest.reads:
                self.readers[name] = [nest if r is parts else r for r in self.readers[name]]
        del self.new_buffers[known:]

    def add_final(self, nest: LoopNest, made: LoopNest, final: LoopNest) -> None:
        """The nest that combines the rows' results runs after them and before whoever waited for the whole."""
        final.ids = 1 << (1 + max(n.ids.bit_length() for n in self.nests))
        final.before, final.reads = made.ids | made.before, set(final.loads())
        for x in self.nests:
            if x is not made and x.before & nest.ids:
                x.before |= final.ids
        self.nests.append(final)
        for name in final.reads:
            self.readers.setdefault(name, []).append(final)
        for name in final.stores():
            self.writer[name] = final

    def candidates(self, nest: LoopNest) -> list[tuple[LoopNest, bool]]:
        """(nest, whether the fusion is vertical: it writes what this one reads), the largest common traffic first."""
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

    def size_of(self, name: str, nest: LoopNest) -> int:
        return hint(nest.loads()[name][0].attrs.buffer.numel())

    def try_fuse(self, first: LoopNest, second: LoopNest, vertical: bool) -> LoopNest | None:
        """The fused nest, or None where it is not legal or does not pay."""
        if first.head is not None and second.head is not None or self.between(first, second):
            return None
        if isinstance(second.head, GemmKernel) and first.head is None:
            first, second = second, first
        if isinstance(first.head, GemmKernel) and {first.head.a.buffer.name, first.head.b.buffer.name} & second.stores().keys():
            return None  # an operand must lie in memory before the product begins
        for spaces in self.common_spaces(first, second, vertical):
            a, b = map_axes(self, first, spaces.first), map_axes(self, second, spaces.second)
            items = self.passed(a, b)
            if items is None or not (vertical or self.share(a, b)) or self.too_large(a, items):
                continue
            return self.merge(first, second, a.outer, items, vertical, spaces.why)
        return None

    def between(self, a: LoopNest, b: LoopNest) -> bool:
        """Whether some third nest must run between the two."""
        if a.before & b.ids:
            a, b = b, a
        elif not b.before & a.ids:
            return False
        producers = (self.writer[name] for name in b.reads if name in self.writer)
        return any(x is not a and x is not b and x.before & a.ids for x in producers)

    def merge(self, first: LoopNest, second: LoopNest, outer: tuple, items: list[Item], vertical: bool, why: str) -> LoopNest:
        kind = "reads its result" if vertical else "reads the same memory"
        made = LoopNest(
            outer,
            items,
            first.ids | second.ids,
            first.head,
            first.name if first.head else second.name,
            origins=(*first.origins, *second.origins),
            notes=[*first.notes, *second.notes, f"{second.name} joined {first.name}: {kind}, {why}"],
        )
        made.before = (first.before | second.before) & ~made.ids
        made.reads = set(made.loads())
        if isinstance(made.head, GemmKernel):
            made.reads |= {made.head.a.buffer.name, made.head.b.buffer.name}
        self.replace(first, second, made)
        return made

    def replace(self, first: LoopNest, second: LoopNest, made: LoopNest) -> None:
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

    def too_large(self, a: LoopNest, items: list[Item]) -> bool:
        values = reachable(v for item in items for v in item.roots())
        touched = {v.attrs.buffer.name for v in values if v.op == "load"} | {i.store.buffer.name for i in items if i.store}
        return len(values) > MAX_VALUES or len(touched) > MAX_BUFFERS

    def share(self, a: LoopNest, b: LoopNest) -> bool:
        """Whether both read some element at the same point (hash-consing makes it the same value)."""
        mine = {v.id for v in a.values() if v.op == "load" and v.attrs.buffer.kind != "const"}
        shared = [v for v in b.values() if v.op == "load" and v.id in mine]
        full = hint(product(x.extent for x in (*a.outer, *a.inner)))
        return any(hint(v.attrs.buffer.numel()) * 2 > full for v in shared)

    # -- spaces

    def common_spaces(self, a: LoopNest, b: LoopNest, vertical: bool) -> Iterator[CommonSpace]:
        """The ways to give two nests one outer space, the best first; none where nothing is computed."""
        if any(type(x.extent) is int and x.extent == 0 for x in (*a.outer, *a.inner, *b.outer, *b.inner)):
            return
        if isinstance(a.head, GemmKernel):
            if b.flexible and vertical:
                yield from epilogue_space(a, b, f"one epilogue over ({extents_text(a.outer)})")
                yield from permuted_space(a, b, f"one epilogue over ({extents_text(a.outer)}), written in another order")
            return
        if b.head is not None:
            return
        if a.flexible and b.flexible:
            yield from unify_spaces(self, a.outer, b.outer, (), (), f"equal ranges ({extents_text(a.outer)})")
            return
        if not a.flexible and not b.flexible:
            yield from unify_spaces(self, a.outer, b.outer, a.inner, b.inner, f"the same rows ({extents_text(a.outer)})")
            return
        rows, flat = (b, a) if a.flexible else (a, b)
        turned = a.flexible
        if is_rows(rows) and not (b.flexible and is_full_reduction(rows)):
            yield from split_space(self, flat, rows, turned, f"a row of ({extents_text(rows.inner)}) at a time")
        elif vertical and walks_slabs(self, flat, rows):
            yield from split_space(self, flat, rows, turned, f"a slab of columns of ({extents_text(rows.inner)}) at a time")
        yield from unify_spaces(self, a.outer, b.outer, a.inner, b.inner, f"once a row ({extents_text(rows.outer)})")

    # -- values that pass between two nests

    def passed(self, a: LoopNest, b: LoopNest) -> list[Item] | None:
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

    def forwarded(self, source: LoopNest, user: LoopNest, crossing: list[str]) -> list[Item] | None:
        written = source.stores()
        outer = {x.name for x in source.outer}
        legal = True

        def leaf(value: Value) -> Value | None:
            nonlocal legal
            if value.op != "load" or value.attrs.buffer.name not in crossing:
                return None
            item = written[value.attrs.buffer.name]
            load, store = value.attrs, item.written
            if load.index == store.index or self.linear(load.buffer, load.index) == self.linear(store.buffer, store.index):
                return self.body.where(value.args[0], store.value, load.other) if load.masked else store.value
            legal = legal and covers(item, load.index, outer)
            return None

        rewrite = Rewriter(self.body, {}, leaf)
        items = [rewrite_item(item, item.axes, rewrite) for item in user.items]
        return items if legal else None

    # -- after fusion

    def ordered(self) -> list[LoopNest]:
        """Execution order: as in the graph, but what reads only inputs runs just before its first user."""
        users: dict[int, list[LoopNest]] = {id(n): [] for n in self.nests}
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
        self.columns_last(place)
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

    def columns_last(self, place: dict[int, float]) -> None:
        """A large array is read along its rows before it is read by columns: the first reading fetches it from memory."""
        reducing = [n for n in self.nests if n.head is None and not n.flexible and n.outer]
        for nest in reducing:
            large = {name for name in nest.loads() if self.size_of(name, nest) >= LARGE}
            rows = [n for n in reducing if n is not nest and n.reads & large and not n.before & nest.ids and is_rows(n)]
            if rows and is_columns(self, nest):
                place[id(nest)] = max(place[id(nest)], *(place[id(n)] + 0.25 for n in rows))

    def finished(self, nest: LoopNest) -> list[Kernel]:
        """The kernels of a nest: what nobody reads dropped, large reductions split, loops chosen."""
        if nest.head is not None and not nest.open:
            return [nest.head]
        self.prune(nest)
        if not nest.items:
            return []
        if isinstance(nest.head, GemmKernel):
            return [finish_gemm(self, nest, nest.head)]
        single = as_one_hot_scatter(self, nest) if self.parallel.lanes else None
        if single is not None:
            return [single]
        return [finish_loops(self, part) for part in split_reductions(self, nest)]

    def prune(self, nest: LoopNest) -> None:
        """Drop stores that nobody reads; those that only this nest reads become row scratch."""
        keep = []
        for item in nest.items:
            if item.store is not None and item.store.buffer.name not in self.outputs:
                name = item.store.buffer.name
                if self.private(nest, name) and name not in nest.loads():
                    continue
            keep.append(item)
        nest.items, nest.loads_cache = keep, None
        needed = {v.attrs for v in nest.values() if v.op == "acc"}
        nest.items = [i for i in keep if i.reduce is None or needed & set(i.reduce.names)]
        nest.loads_cache = None

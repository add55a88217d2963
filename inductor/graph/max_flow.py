"""Maximum flow and minimum cut on a small directed network (Dinic's algorithm).

In: edges with integer capacities. Out: the set of vertices on the source's side of a minimum cut.
"""

from __future__ import annotations

from collections import deque

INFINITE = 1 << 60


class Network:
    """Vertices are 0..n-1; `edge` adds one with a capacity, INFINITE for what must not be cut."""

    def __init__(self):
        self.heads: list[list[int]] = []  # vertex -> numbers of edges that leave it
        self.targets: list[int] = []
        self.left: list[int] = []  # capacity left; edge e ^ 1 is the reverse of e

    def vertex(self) -> int:
        self.heads.append([])
        return len(self.heads) - 1

    def edge(self, a: int, b: int, capacity: int) -> None:
        for start, end, amount in ((a, b, capacity), (b, a, 0)):
            self.heads[start].append(len(self.targets))
            self.targets.append(end)
            self.left.append(amount)

    def source_side(self, source: int, sink: int) -> set[int]:
        """Saturate, then what the source still reaches."""
        while True:
            level = self._levels(source)
            if level[sink] < 0:
                return {v for v, depth in enumerate(level) if depth >= 0}
            nexts = [0] * len(self.heads)
            while self._augment(source, sink, level, nexts):
                pass

    def _levels(self, source: int) -> list[int]:
        level = [-1] * len(self.heads)
        level[source] = 0
        queue = deque([source])
        while queue:
            v = queue.popleft()
            for e in self.heads[v]:
                w = self.targets[e]
                if self.left[e] > 0 and level[w] < 0:
                    level[w] = level[v] + 1
                    queue.append(w)
        return level

    def _augment(self, source: int, sink: int, level: list[int], nexts: list[int]) -> int:
        """Push flow along one path of the level graph; 0 when there is none left."""
        path: list[int] = []
        v = source
        while v != sink:
            e = self._admissible(v, level, nexts)
            if e is not None:
                path.append(e)
                v = self.targets[e]
            elif not path:
                return 0
            else:
                level[v] = -1
                v = self.targets[path.pop() ^ 1]
        amount = min(self.left[e] for e in path)
        if amount >= INFINITE // 2:
            raise ValueError("no finite cut: an uncuttable path leads from the source to the sink")
        for e in path:
            self.left[e] -= amount
            self.left[e ^ 1] += amount
        return amount

    def _admissible(self, v: int, level: list[int], nexts: list[int]) -> int | None:
        edges = self.heads[v]
        while nexts[v] < len(edges):
            e = edges[nexts[v]]
            if self.left[e] > 0 and level[self.targets[e]] == level[v] + 1:
                return e
            nexts[v] += 1
        return None

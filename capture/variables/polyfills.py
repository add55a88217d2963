"""Functions of the standard library that are written in C, in Python: the tracer inlines these in their place.

Each does what the original does for the arguments it names. They are traced like a user's code, so their callbacks, iterators
and containers may hold anything.
"""

from __future__ import annotations

import bisect
import collections
import functools
import heapq
import itertools
import operator
import os

REPLACED: dict = {}


def replaces(*originals):
    """Register a function for what it stands in for."""

    def register(fn):
        REPLACED.update(dict.fromkeys(originals, fn))
        return fn

    return register


# -- itertools -------------------------------------------------------------------------------------------------------


@replaces(itertools.cycle)
def cycle(iterable):
    saved = []
    for value in iterable:
        yield value
        saved.append(value)
    while saved:
        for value in saved:
            yield value


@replaces(itertools.takewhile)
def takewhile(predicate, iterable):
    for value in iterable:
        if not predicate(value):
            break
        yield value


@replaces(itertools.dropwhile)
def dropwhile(predicate, iterable):
    iterator = iter(iterable)
    for value in iterator:
        if not predicate(value):
            yield value
            break
    for value in iterator:
        yield value


@replaces(itertools.filterfalse)
def filterfalse(predicate, iterable):
    for value in iterable:
        if not (value if predicate is None else predicate(value)):
            yield value


@replaces(itertools.compress)
def compress(data, selectors):
    for value, chosen in zip(data, selectors):
        if chosen:
            yield value


@replaces(itertools.starmap)
def starmap(function, iterable):
    for args in iterable:
        yield function(*args)


@replaces(itertools.groupby)
def groupby(iterable, key=None):
    source, now, value, held, started, number = iter(iterable), None, None, False, False, 0

    def read():
        nonlocal now, value, held
        for value in source:
            now, held = value if key is None else key(value), True
            return True
        return False

    def group(mine, wanted):
        nonlocal held
        while mine == number and (held or read()) and (wanted is now or wanted == now):
            held = False
            yield value

    wanted = None
    while True:
        number += 1  # the group before has ended
        while not started or wanted is now or wanted == now:
            if not read():
                return
            if not started:
                started = True
                break
        wanted = now
        yield now, group(number, wanted)


def call_until(function, sentinel):
    """iter(function, sentinel)."""
    while True:
        value = function()
        if value == sentinel:
            break
        yield value


# -- operator and functools ------------------------------------------------------------------------------------------


@replaces(operator.attrgetter)
def attrgetter(*names):
    def get(owner, name):
        for part in name.split("."):
            owner = getattr(owner, part)
        return owner

    def getter(owner):
        return get(owner, names[0]) if len(names) == 1 else tuple([get(owner, name) for name in names])

    return getter


@replaces(operator.itemgetter)
def itemgetter(*keys):
    def getter(owner):
        return owner[keys[0]] if len(keys) == 1 else tuple([owner[key] for key in keys])

    return getter


@replaces(operator.methodcaller)
def methodcaller(name, /, *args, **kwargs):
    def caller(owner):
        return getattr(owner, name)(*args, **kwargs)

    return caller


@replaces(operator.concat)
def concat(a, b):
    return a + b


@replaces(operator.iconcat)
def iconcat(a, b):
    a += b
    return a


@replaces(operator.length_hint)
def length_hint(owner, default=0):
    return len(owner) if hasattr(owner, "__len__") else default


class Compared:
    """What cmp_to_key's keys are."""

    def __init__(self, compare, value):
        self.compare, self.value = compare, value

    def __lt__(self, other):
        return self.compare(self.value, other.value) < 0

    def __gt__(self, other):
        return self.compare(self.value, other.value) > 0

    def __eq__(self, other):
        return self.compare(self.value, other.value) == 0


@replaces(functools.cmp_to_key)
def cmp_to_key(mycmp):
    def key(obj):
        return Compared(mycmp, obj)

    return key


# -- heapq, bisect, os -----------------------------------------------------------------------------------------------


def sift_down(heap, first, at):
    new = heap[at]
    while at > first:
        above = (at - 1) >> 1
        if not new < heap[above]:
            break
        heap[at] = heap[above]
        at = above
    heap[at] = new


def sift_up(heap, at):
    end, first, new = len(heap), at, heap[at]
    child = 2 * at + 1
    while child < end:
        if child + 1 < end and not heap[child] < heap[child + 1]:
            child += 1
        heap[at] = heap[child]
        at = child
        child = 2 * at + 1
    heap[at] = new
    sift_down(heap, first, at)


@replaces(heapq.heapify)
def heapify(heap):
    for i in reversed(range(len(heap) // 2)):
        sift_up(heap, i)


@replaces(heapq.heappush)
def heappush(heap, item):
    heap.append(item)
    sift_down(heap, 0, len(heap) - 1)


@replaces(heapq.heappop)
def heappop(heap):
    if not heap:
        raise IndexError("index out of range")
    last = heap.pop()
    if not heap:
        return last
    first, heap[0] = heap[0], last
    sift_up(heap, 0)
    return first


@replaces(heapq.heapreplace)
def heapreplace(heap, item):
    if not heap:
        raise IndexError("index out of range")
    first, heap[0] = heap[0], item
    sift_up(heap, 0)
    return first


@replaces(heapq.heappushpop)
def heappushpop(heap, item):
    return heapreplace(heap, item) if heap and heap[0] < item else item


@replaces(heapq.nlargest)
def nlargest(n, iterable, key=None):
    return sorted(iterable, key=key, reverse=True)[:n]


@replaces(heapq.nsmallest)
def nsmallest(n, iterable, key=None):
    return sorted(iterable, key=key)[:n]


@replaces(bisect.bisect_right)
def bisect_right(a, x, lo=0, hi=None, *, key=None):
    hi = len(a) if hi is None else hi
    while lo < hi:
        middle = (lo + hi) // 2
        if x < (a[middle] if key is None else key(a[middle])):
            hi = middle
        else:
            lo = middle + 1
    return lo


@replaces(bisect.bisect_left)
def bisect_left(a, x, lo=0, hi=None, *, key=None):
    hi = len(a) if hi is None else hi
    while lo < hi:
        middle = (lo + hi) // 2
        if (a[middle] if key is None else key(a[middle])) < x:
            lo = middle + 1
        else:
            hi = middle
    return lo


@replaces(bisect.insort_right)
def insort_right(a, x, lo=0, hi=None, *, key=None):
    a.insert(bisect_right(a, x if key is None else key(x), lo, hi, key=key), x)


@replaces(bisect.insort_left)
def insort_left(a, x, lo=0, hi=None, *, key=None):
    a.insert(bisect_left(a, x if key is None else key(x), lo, hi, key=key), x)


@replaces(collections._count_elements)  # pyright: ignore[reportAttributeAccessIssue] (a private name of Python)
def count_elements(mapping, iterable):
    for element in iterable:
        mapping[element] = mapping.get(element, 0) + 1


@replaces(os.fspath)
def fspath(path):
    if isinstance(path, (str, bytes)):
        return path
    return type(path).__fspath__(path)


# -- copy ------------------------------------------------------------------------------------------------------------

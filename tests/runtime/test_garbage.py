"""Blocks without garbage collection: nested, in threads, in forked children, and around a compilation."""

import gc
import os
import threading

import pytest

import flambeau
from flambeau.runtime.gc_pause import Uncollected, uncollected


def test_collecting_goes_on_when_the_last_block_ends():
    block, opened, done = Uncollected(), threading.Event(), threading.Event()

    def other():
        with block:
            opened.set()
            done.wait()

    thread = threading.Thread(target=other)
    with block, block:
        thread.start()
        opened.wait()
    assert not gc.isenabled()  # the thread's block is open
    done.set()
    thread.join()
    assert gc.isenabled()


def test_what_was_off_stays_off():
    gc.disable()
    try:
        with Uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_forked_child_knows_no_blocks_of_other_threads(in_child):
    opened, done = threading.Event(), threading.Event()

    def other():
        with uncollected:
            opened.set()
            done.wait()

    thread = threading.Thread(target=other)
    thread.start()
    opened.wait()
    try:
        assert not gc.isenabled()
        assert in_child(lambda: os._exit(0 if gc.isenabled() else 3)) == 0
        with uncollected:
            assert in_child(lambda: os._exit(0 if not gc.isenabled() else 3)) == 0
    finally:
        done.set()
        thread.join()
    assert gc.isenabled()


def test_nothing_is_collected_while_a_function_is_compiled():
    seen = []

    def backend(graph, inputs):
        seen.append(gc.isenabled())
        return lambda *given: (given[0] + 1,)

    flambeau.compile(lambda x: x + 1, backend=backend)(flambeau.zeros(2))
    assert seen == [False] and gc.isenabled()


@pytest.mark.parametrize("stays", [True, False])
def test_what_imports_make_is_old(stays):
    gc.collect()
    block = Uncollected()
    block.enter(stays=True)
    block.enter(stays=stays)
    made = [[] for _ in range(1000)]
    block.__exit__()
    block.__exit__()
    old = {id(x) for x in gc.get_objects(generation=2)}
    assert sum(id(x) in old for x in made) == (1000 if stays else 0)


def test_what_the_program_froze_stays_frozen():
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        block = Uncollected()
        block.enter(stays=True)
        block.__exit__()
        assert gc.get_freeze_count() >= frozen - 100 and gc.isenabled()  # some of it may have died
    finally:
        gc.unfreeze()


def test_what_the_first_block_makes_counts_as_old():
    """The next collection does not walk over it; what a later one makes is young, as garbage of it is to be found."""
    block, generations = Uncollected(), []
    for _ in range(2):
        with block:
            made = [[] for _ in range(10)]
        young = {id(x) for x in gc.get_objects(generation=0)}
        generations.append(sum(id(x) in young for x in made))
    assert generations == [0, 10]

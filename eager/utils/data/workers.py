"""Worker processes of a DataLoader: each has a queue of its own for indices, all answer into one.

A worker's random numbers come from base seed + its number, for flambeau, `random` and numpy. An exception in a worker is
raised again by the loader, with the worker's traceback in its message; a worker that dies is reported; workers end when
their loader or its process does.
"""

from __future__ import annotations

import itertools
import os
import queue
import random
from dataclasses import dataclass

import numpy as np

from ....runtime import native
from ....runtime.spawn import PickledValue
from ... import random as own_random
from .fetch import END, IterableFetcher, MapFetcher
from .transport import folder, pack, unpack

POLL = 5.0  # seconds between looks at whether the other side lives


@dataclass
class WorkerInfo:
    """What `get_worker_info()` tells inside a worker."""

    id: int
    num_workers: int
    seed: int
    dataset: object


_info = None


def get_worker_info():
    """The WorkerInfo of this worker process; None in the main process."""
    return _info


class Failure:
    """An exception of a worker, to be raised in the loader."""

    def __init__(self, error, where):
        import traceback

        self.kind, self.where, self.text = type(error), where, traceback.format_exc()

    def reraise(self):
        message = f"Caught {self.kind.__name__} {self.where}.\nOriginal {self.text}"
        try:
            error = self.kind(message=message) if getattr(self.kind, "message", None) else self.kind(message)
        except Exception:  # its constructor wants something else
            error = RuntimeError(message)
        raise error


@dataclass
class Plan:
    """What a worker needs to know."""

    dataset: object
    iterable: bool
    batched: bool
    collate: object
    drop_last: bool
    init: object
    count: int


# -- in the worker


def work(number, job, seed, tasks, results, where, parent):
    """The body of a worker process: answers (epoch, place) tasks until told None or orphaned."""
    global _info
    native.set_num_threads(1)
    plan, fetcher, failure = None, None, None
    try:
        plan = job.open()
        _seed(seed, number, plan)
        if plan.init is not None:
            plan.init(number)
    except Exception as error:
        failure = Failure(error, f"in DataLoader worker process {number}")
    while (task := _next(tasks, parent)) is not None:
        epoch, place, indices, seed = task
        if place is None:  # a new epoch of persistent workers
            fetcher = None
            if failure is None:
                _seed(seed, number, plan)
            continue
        fetcher, answer = _answer(plan, fetcher, indices, number) if failure is None else (None, failure)
        results.put((epoch, place, number, _packed(answer, where, f"{number}-{epoch}-{place}", number)))
    results.cancel_join_thread()
    results.close()


def _seed(seed, number, plan):
    global _info
    _info = WorkerInfo(number, plan.count, seed + number, plan.dataset)
    own_random.manual_seed(seed + number)
    random.seed(seed + number)
    np.random.seed((seed + number) % 2**32 if own_random.in_order is None else _numpy_seed(seed, number))


def _numpy_seed(seed, number):
    """As torch.utils.data._utils.worker mixes it: numpy's way to spread a seed."""
    return np.random.SeedSequence([number, seed % 2**32, seed >> 32, 0]).generate_state(4)


def _next(tasks, parent):
    """The next task; None at the end, or when the loader's process is gone."""
    while True:
        try:
            return tasks.get(timeout=POLL)
        except queue.Empty:
            if os.getppid() != parent:
                return None
        except (EOFError, KeyboardInterrupt):
            return None


def _answer(plan, fetcher, indices, number):
    try:
        if fetcher is None:
            kind = IterableFetcher if plan.iterable else MapFetcher
            fetcher = kind(plan.dataset, plan.batched, plan.collate, plan.drop_last)
        return fetcher, fetcher(indices)
    except Exception as error:
        return fetcher, Failure(error, f"in DataLoader worker process {number}")


def _packed(answer, where, name, number):
    if answer is END:
        return None
    try:
        return pack(answer, where, name)
    except Exception as error:
        return pack(Failure(error, f"in DataLoader worker process {number}"), where, name)


# -- in the loader


class Workers:
    """The processes, and what is on its way. One epoch at a time."""

    def __init__(self, plan: Plan, context, seed, prefetch, timeout, in_order):
        self.count, self.prefetch, self.timeout, self.in_order = plan.count, prefetch, timeout, in_order
        self.iterable, self.folder, self.epoch = plan.iterable, folder(), 0
        self.results, self.tasks, self.processes = context.Queue(), [], []
        for number in range(plan.count):
            tasks = context.Queue()
            process = context.Process(
                target=work,
                daemon=True,
                args=(number, PickledValue(plan), seed, tasks, self.results, self.folder.name, os.getpid()),
            )
            process.start()
            self.tasks.append(tasks)
            self.processes.append(process)

    def renew(self, seed):
        """Begin another epoch with the same processes; what is left of the last one is dropped when it arrives."""
        self.epoch += 1
        for tasks in self.tasks:
            tasks.put((self.epoch, None, None, seed))

    def batches(self, indices):
        """Batches of one epoch, in the order of `indices` (an iterator) unless in_order is off."""
        live, sent, waiting, ready, give = list(range(self.count)), itertools.count(), {}, {}, 0
        turn = itertools.cycle(range(self.count))

        def send():
            if not live:
                return
            index = next(indices, END)
            if index is not END:
                worker = next(w for w in turn if w in live)
                place = next(sent)
                waiting[place] = worker
                self.tasks[worker].put((self.epoch, place, index, None))

        for _ in range(self.prefetch * self.count):
            send()
        while waiting or ready:
            if self.in_order and give not in waiting and give not in ready:
                give += 1  # an answer that was the end of a worker's rows
                continue
            if self.in_order and give in ready:
                answer = ready.pop(give)
                give += 1
                send()
                yield self._value(answer)
                continue
            place, worker, answer = self._receive()
            waiting.pop(place, None)
            if answer is None:  # this worker's rows are at an end
                if worker in live:
                    live.remove(worker)
                send()
            elif self.in_order:
                ready[place] = answer
            else:
                send()
                yield self._value(answer)

    def _value(self, answer):
        value = unpack(answer)
        if isinstance(value, Failure):
            value.reraise()
        return value

    def _receive(self):
        """The next answer of this epoch. RuntimeError when a worker died, or `timeout` seconds have passed."""
        waited = 0.0
        while True:
            step = min(POLL, self.timeout - waited) if self.timeout > 0 else POLL
            try:
                epoch, place, worker, answer = self.results.get(timeout=step)
            except queue.Empty:
                waited += step
                self._check_alive()
                if 0 < self.timeout <= waited:
                    raise RuntimeError(f"DataLoader timed out after {self.timeout} seconds") from None
                continue
            if epoch == self.epoch:
                return place, worker, answer
            if answer is not None and answer[1] is not None:
                os.unlink(answer[1])

    def _check_alive(self):
        dead = [p for p in self.processes if not p.is_alive()]
        if dead:
            about = ", ".join(f"{p.pid} (exit code {p.exitcode})" for p in dead)
            raise RuntimeError(f"DataLoader worker (pid(s) {about}) exited unexpectedly")

    def close(self):
        """End the processes and remove what they left."""
        for tasks in self.tasks:
            tasks.put(None)
        for process in self.processes:
            process.join(POLL)
            if process.is_alive():
                process.terminate()
                process.join()
        for channel in (*self.tasks, self.results):
            channel.cancel_join_thread()
            channel.close()
        self.folder.cleanup()

"""Starting several processes of one function and waiting for them; the first error ends all.

In: `f(rank, *args)` and a number. Out: a context whose `join` raises the child's error with its traceback.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
import sys
import traceback
from typing import Any


class ProcessException(Exception):
    """A child ended badly."""

    def __init__(self, msg: str, error_index: int, pid: int):
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """A child raised; the message has its traceback."""


class ProcessExitedException(ProcessException):
    """A child was killed by a signal or left with a code."""

    def __init__(self, msg, error_index, error_pid, exit_code, signal_name=None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _run(f, rank, args, errors):
    try:
        f(rank, *args)
    except KeyboardInterrupt:
        return
    except Exception:  # told to the parent, which raises it
        errors.send(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """The started processes."""

    def __init__(self, processes, errors):
        self.processes, self.errors = processes, errors
        self.sentinels = {process.sentinel: rank for rank, process in enumerate(processes)}

    def pids(self) -> list:
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits until one ends; True if all have ended well. Raises the error of the first that ended badly, after
        stopping the others."""
        if not self.sentinels:
            return True
        failed = None
        for sentinel in multiprocessing.connection.wait(list(self.sentinels), timeout):
            rank = self.sentinels.pop(sentinel)
            self.processes[rank].join()
            if self.processes[rank].exitcode != 0:
                failed = rank
                break
        if failed is None:
            return not self.sentinels
        for process in self.processes:
            if process.is_alive():
                process.terminate()
            process.join(grace_period)
        self.fail(failed)

    def fail(self, rank):
        process = self.processes[rank]
        if self.errors[rank].poll():
            told = self.errors[rank].recv()
            raise ProcessRaisedException(f"\n\n-- Process {rank} terminated with the following error:\n{told}", rank, process.pid)
        code = process.exitcode
        if code < 0:
            name = signal.Signals(-code).name
            raise ProcessExitedException(f"process {rank} terminated with signal {name}", rank, process.pid, code, name)
        raise ProcessExitedException(f"process {rank} terminated with exit code {code}", rank, process.pid, code)


SpawnContext = ProcessContext


def start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """`fn(rank, *args)` in `nprocs` new processes; None once all have ended, or (join=False) their context."""
    context: Any = multiprocessing.get_context(start_method)
    processes, errors = [], []
    for rank in range(nprocs):
        receiving, sending = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(fn, rank, args, sending), daemon=daemon)
        process.start()
        sending.close()
        processes.append(process)
        errors.append(receiving)
    running = ProcessContext(processes, errors)
    if not join:
        return running
    while not running.join():
        pass
    return None


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """`start_processes` with new interpreters."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)

"""torch.futures: values that are there later. Source: PyTorch's `torch.futures`.

A future is set once, by `set_result` or `set_exception`; what waits, or was given to `then` and `add_done_callback`, goes on
then, in the thread that set it (at once if it is set already).
"""

import threading
import warnings
from typing import Any


class Future:
    """A value that is there later. `devices` are accepted as PyTorch accepts them: results lie in memory that all threads see."""

    def __init__(self, *, devices=None):
        self._changed, self._done = threading.Condition(), False
        self._value: Any = None
        self._error = None
        self._callbacks = []

    def done(self):
        return self._done

    def wait(self):
        """The value, when it is there; raises the error that was set instead."""
        with self._changed:
            self._changed.wait_for(lambda: self._done)
        return self.value()

    def value(self):
        """The value that is there already; RuntimeError before."""
        if not self._done:
            raise RuntimeError("Future.value(): the future is not done; wait() waits for it")
        if self._error is not None:
            raise self._error
        return self._value

    def set_result(self, result):
        self._set(result, None)

    def set_exception(self, result):
        if not isinstance(result, Exception):
            raise AssertionError(f"{result!r} is of type {type(result).__name__}, not an Exception.")
        self._set(None, result)

    def _set(self, value, error):
        with self._changed:
            if self._done:
                raise RuntimeError("Future can only be marked completed once")
            self._value, self._error, self._done = value, error, True
            waiting, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in waiting:
            callback(self)

    def _when_done(self, callback):
        with self._changed:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback(self)

    def add_done_callback(self, callback):
        """`callback(future)` when it is done; an error of the callback is a warning."""

        def run(future):
            try:
                callback(future)
            except Exception as error:
                warnings.warn(f"a callback of a future raised {type(error).__name__}: {error}", stacklevel=2)

        self._when_done(run)

    def then(self, callback):
        """A future of `callback(self)`, which runs when this one is done."""
        following = Future()

        def run(future):
            try:
                value = callback(future)
            except Exception as error:
                following.set_exception(error)
            else:
                following.set_result(value)

        self._when_done(run)
        return following

    @classmethod
    def __class_getitem__(cls, item):
        return cls


def collect_all(futures):
    """A future of the list of these futures, done when all are; its value raises the first error among them."""
    futures, gathered = list(futures), Future()
    left, lock = [len(futures)], threading.Lock()

    def one_more(_):
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            failed = next((f._error for f in futures if f._error is not None), None)
            gathered.set_result(futures) if failed is None else gathered.set_exception(failed)

    for future in futures:
        future._when_done(one_more)
    if not futures:
        gathered.set_result([])
    return gathered


def wait_all(futures):
    """The values of all, in order; raises the first error."""
    return [future.wait() for future in collect_all(futures).wait()]


__all__ = ["Future", "collect_all", "wait_all"]

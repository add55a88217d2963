"""Errors that cross the layers.

`Unsupported` is a graph break with its reason, `CheckFailed` discards a compiled call before anything was written,
`InternalError` is an inconsistency of the compiler itself.
"""

from __future__ import annotations


class FlambeauError(RuntimeError):
    """Base of all errors of this package that are not PyTorch's own spellings (RuntimeError, TypeError, ...)."""


class InternalError(FlambeauError):
    """The compiler contradicted itself; the text carries the IR around the place."""


class CheckFailed(FlambeauError):
    """A compiled call found a bad value (an index out of range) before it committed anything.

    The caller discards the call and runs the original Python from the same generator state, so that eager's own
    error and partial effects are what the user sees.
    """

    def __init__(self, check: str):
        super().__init__(f"compiled check failed: {check}")
        self.check = check


class RecompileError(FlambeauError):
    """A function would be compiled again where the user has forbidden it; the text lists the guards that failed."""


class ConstraintViolation(FlambeauError):
    """A dimension was marked dynamic, and the program needs it to be one number."""


class BackendError(FlambeauError):
    """The backend that was asked for by name cannot do this; the text names the op, its shapes and what to do. Unlike a graph
    break it always reaches the caller: another backend would run the program.
    """

    def __init__(self, text: str, fix: str = ""):
        super().__init__(text + (f"\n  what to do: {fix}" if fix else ""))


class Unsupported(FlambeauError):
    """A graph break: `code` is the counted reason, `text` says what happened here, `fix` what to do about it."""

    def __init__(self, code: str, text: str = "", fix: str = ""):
        self.code, self.text, self.fix = code, text or code, fix
        super().__init__(self.text + (f"\n  what to do: {fix}" if fix else ""))

"""`set_stance`: how compiled functions behave for a while, in all threads.

In: a name of STANCES. Out: a context manager and decorator; the stance holds from the call on, and `with` or the end of the
decorated function gives the earlier one back. `current` is what `Compiled.miss` asks.
"""

from __future__ import annotations

import functools
from typing import Any
from collections.abc import Callable

from ...runtime.dataclass import data
from . import backends
from ..state import native

STANCES = {
    "default": "compile where no entry fits",
    "force_eager": "run the original functions",
    "eager_on_recompile": "use the entries that there are, run eagerly where none fits",
    "fail_on_recompile": "use the entries that there are, raise RecompileError where none fits",
    "eager_then_compile": "run eagerly once to see which sizes change, then compile",
}


@data
class Stance:
    name: str = "default"
    backend: str | Callable | None = None

    @property
    def compiles(self) -> bool:
        return self.name in ("default", "eager_then_compile")


current = Stance()


def _take(stance: Stance) -> None:
    global current
    current = stance
    if native is not None:
        native.force_eager(stance.name == "force_eager")


class set_stance:  # noqa: N801  (a public name)
    """Change what compiled functions do: "default", "force_eager" (run the originals), "eager_on_recompile" and
    "fail_on_recompile" (serve what is compiled; else run eagerly, or raise RecompileError), "eager_then_compile" (the
    first call runs eagerly). `force_backend` compiles with another backend, under "default" only. Guards are always
    evaluated: `skip_guard_eval_unsafe` has no effect. Use it as a call, in `with`, or as a decorator."""

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: str | Callable | None = None
    ):
        if stance not in STANCES:
            raise RuntimeError(f"invalid torch.compile stance {stance!r}; stances are: {', '.join(STANCES)}")
        if force_backend is not None:
            if stance != "default":
                raise RuntimeError("force_backend goes with the stance 'default' only")
            backends.exists(force_backend)
        self.stance, self.before = Stance(stance, force_backend), current
        _take(self.stance)

    def __enter__(self) -> set_stance:
        _take(self.stance)
        return self

    def __exit__(self, *error: Any) -> None:
        _take(self.before)

    def __call__(self, function: Callable) -> Callable:
        """A function that runs under the stance; making it leaves the present one as it was."""
        _take(self.before)

        @functools.wraps(function)
        def under(*args: Any, **kwargs: Any) -> Any:
            before = current
            _take(self.stance)
            try:
                return function(*args, **kwargs)
            finally:
                _take(before)

        return under

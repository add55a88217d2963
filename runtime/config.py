"""Settings: each a typed field with its environment variable, default and meaning.

Read as `config.threads`; change for a while with `with config.patch(threads=1):`. Values given by environment
variables are read once, at import; a value that cannot be understood raises, naming the variable.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from typing import Any
from collections.abc import Callable

from . import torch_environ
from .dataclass import data


@data
class Field:
    name: str
    parse: Callable[[str], Any]
    default: Any
    env: str | None
    doc: str


def _flag(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in ("1", "true", "yes", "on"):
        return True
    if lowered in ("", "0", "false", "no", "off"):
        return False
    raise ValueError("expected 1 or 0")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _isa(text: str) -> str:
    if text not in ("auto", "amx", "avx512bf16", "avx512", "avx2", "baseline"):
        raise ValueError("expected auto, amx, avx512bf16, avx512, avx2 or baseline")
    return text


def _numbers(text: str) -> str:
    if text not in ("philox", "torch"):
        raise ValueError("expected philox or torch")
    return text


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise ValueError("expected a positive number")
    return count


def _size(text: str) -> int:
    size = int(text)
    if size < 0:
        raise ValueError("expected a number from 0")
    return size


def _level(text: str) -> int:
    level = int(text)
    if not 0 <= level <= 3:
        raise ValueError("expected 0, 1, 2 or 3")
    return level


def _cache_dir() -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "flambeau")


FIELDS = {
    field.name: field
    for field in (
        Field("cache_dir", str, None, "FLAMBEAU_CACHE_DIR", "folder of compiled artefacts (default: ~/.cache/flambeau)"),
        Field(
            "cache_megabytes",
            _size,
            1024,
            "FLAMBEAU_CACHE_MEGABYTES",
            "largest size of that folder; what was used longest ago goes first; 0: no limit",
        ),
        Field(
            "threads",
            _count,
            None,
            "FLAMBEAU_THREADS",
            "threads of the pool and of numpy's OpenBLAS (default: the cores this process may use)",
        ),
        Field("dump", str, None, "FLAMBEAU_DUMP", "folder that receives one readable file per stage of every compilation"),
        Field(
            "report",
            str,
            None,
            "FLAMBEAU_REPORT",
            "folder that receives, when the process ends, the report page of each function that was compiled, and its data",
        ),
        Field("logs", _names, (), "FLAMBEAU_LOGS", "channels to print on stderr, or all (see the table of channels)"),
        Field("verify", _flag, False, "FLAMBEAU_VERIFY", "check every IR between stages (always on in the project's tests)"),
        Field("isa", _isa, "auto", "FLAMBEAU_ISA", "instructions to use: auto, amx, avx512bf16, avx512, avx2, baseline"),
        Field(
            "keep_half_rounding",
            _flag,
            False,
            "FLAMBEAU_KEEP_HALF_ROUNDING",
            "round to bfloat16/float16 between fused operations as eager does (on in the project's tests)",
        ),
        Field("recompile_limit", _count, 8, "FLAMBEAU_RECOMPILE_LIMIT", "entries per door before a function runs plain"),
        Field(
            "error_on_recompile",
            _flag,
            False,
            "FLAMBEAU_ERROR_ON_RECOMPILE",
            "a function that would be compiled again raises RecompileError with the guards that failed",
        ),
        Field(
            "strict", _flag, False, "FLAMBEAU_STRICT", "internal errors of the compiler raise instead of falling back to eager"
        ),
        Field(
            "slow_compile_seconds",
            float,
            1.0,
            "FLAMBEAU_SLOW_COMPILE_SECONDS",
            "a compilation that takes longer is told on the terminal",
        ),
        Field(
            "optimize",
            _level,
            2,
            "FLAMBEAU_OPTIMIZE",
            "how much the C++ compiler optimises, 0 to 3: with less, kernels are made sooner and run slower",
        ),
        Field(
            "random",
            _numbers,
            "philox",
            "FLAMBEAU_RANDOM",
            "random numbers on the CPU: philox, or torch: those of PyTorch for the same seed (in a program "
            '`alias_torch(random="torch")` or `random.use("torch")`)',
        ),
        Field("kernel_times", _flag, False, "FLAMBEAU_KERNEL_TIMES", "keep the time of each generated kernel"),
    )
}


# What holds where the setting's own variable is not there
ELSE = {"cache_dir": _cache_dir, "logs": torch_environ.channels, "dump": torch_environ.dump_folder}


def _initial(field: Field) -> Any:
    text = os.environ.get(field.env) if field.env else None
    if text is None or (text == "" and field.parse is not _flag):
        return ELSE[field.name]() if field.name in ELSE else field.default
    try:
        return field.parse(text)
    except ValueError as error:
        raise ValueError(f"{field.env}={text!r} cannot be understood: {error}. It sets: {field.doc}") from None


def _tell_unknown_variables() -> None:
    """A FLAMBEAU_ variable that sets nothing is most likely a typing error."""
    known = [field.env for field in FIELDS.values() if field.env is not None]
    for name in sorted(os.environ):
        if name.startswith("FLAMBEAU_") and name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, 1)
            told = f": is {near[0]} meant?" if near else f" (settings are: {', '.join(known)})"
            warnings.warn(f"{name} sets nothing{told}", RuntimeWarning, stacklevel=2)


class Config:
    """The settings object; unknown names raise, so that a typing error is never silent."""

    __slots__ = tuple(FIELDS)

    def __init__(self):
        for field in FIELDS.values():
            setattr(self, field.name, _initial(field))

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in FIELDS:
            self.__getattr__(name)
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        """Only asked for names that are no settings."""
        raise AttributeError(f"flambeau has no setting {name!r}; settings are: {', '.join(FIELDS)}")

    @contextlib.contextmanager
    def patch(self, **changes: Any):
        """Change settings inside a `with` block; restored also when the block raises."""
        before = {name: getattr(self, name) for name in changes}
        try:
            for name, value in changes.items():
                setattr(self, name, value)
            yield self
        finally:
            for name, value in before.items():
                setattr(self, name, value)


_tell_unknown_variables()
config = Config()

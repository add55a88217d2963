"""The public `compile`: functions and modules in, callables with guarded entries out.

A compiled object is a `Compiled` cache with doors. A door that has no entry for a call asks `Compiled.miss`: it learns from
the guards that failed which sizes change, respects the recompile limit, runs the conversion, and adds the entry. What
cannot be compiled runs plain, counted and told.
"""

from __future__ import annotations

import copyreg
import dataclasses
import functools
import platform
import sys
import time
import types
import warnings
import weakref
from typing import Any
from collections.abc import Callable

from ...eager.nn.modules.module import Module
from ...runtime import counters, locks, log, compile_log
from ...runtime.config import config
from ...runtime.dataclass import data
from ...runtime.errors import BackendError, ConstraintViolation, InternalError, RecompileError, Unsupported
from ...runtime.gc_pause import uncollected
from . import backends, stance
from .. import skipfiles, state
from ..guards.growth import Growth, History
from ..guards.recompiles import AutomaticDynamic, changed_dimensions, describe, learn_dynamic, reasons, shapes_of, warning
from ..state import Disabled, native

OPTIONS = {
    "verify": (bool, "run every stage on the real inputs and name the first that differs"),
    "epilogue_fusion": (bool, "taken, as programs for PyTorch give it; pointwise work is always fused into products"),
    "max_autotune": (bool, "on a GPU, measure blocks of kernels and keep the best; on the CPU kernels are chosen by rules"),
    "trace.enabled": (bool, "write one file per stage, as FLAMBEAU_DUMP does"),
    "dry_run": (int, "backend triton: compile and dump kernels for this compute capability, e.g. 90; C++ runs the calls"),
}


@data
class Settings:
    """The arguments of `compile`, checked; `convert` gets them with what was learned about sizes."""

    fullgraph: bool = False
    dynamic: bool | None = None
    backend_given: Any = "inductor"
    mode: str | None = None
    option_items: tuple = ()
    name: str = ""
    symbolic: dict = dataclasses.field(default_factory=dict)  # source name -> dims, or True for an int
    history: History | None = None  # what the door has relied on so far

    @property
    def backend(self) -> backends.Backend:
        """The backend, to be called with (graph, example_inputs); its module is imported at the first use."""
        return backends.find(self.backend_given).bound(self.options, self.mode)

    @property
    def backend_name(self) -> str:
        return self.backend_given if isinstance(self.backend_given, str) else backends.lookup(self.backend_given)[0]

    @property
    def options(self) -> dict:
        return dict(self.option_items)

    def arguments(self) -> dict:
        """Keyword arguments that make these settings again."""
        return {
            "fullgraph": self.fullgraph,
            "dynamic": self.dynamic,
            "backend": self.backend_given,
            "mode": self.mode,
            "options": self.options or None,
        }


def check_options(options: dict | None) -> tuple:
    """Options as a tuple of pairs; unknown names and wrong types raise."""
    for name, value in (options or {}).items():
        if name not in OPTIONS:
            raise ValueError(f"unknown option {name!r}; options are: {', '.join(OPTIONS)}")
        kind, doc = OPTIONS[name]
        if not isinstance(value, kind):
            raise TypeError(f"option {name!r} ({doc}) takes {kind.__name__}, not {value!r}")
    return tuple(sorted((options or {}).items()))


def make_settings(fullgraph: bool | None, dynamic: Any, backend: Any, mode: str | None, options: dict | None) -> Settings:
    for name, value in (("fullgraph", fullgraph), ("dynamic", dynamic)):
        if value not in (True, False) and not (value is None and name == "dynamic"):
            raise TypeError(f"compile: {name} takes True or False, not {value!r}")
    if mode is not None and options:
        raise ValueError("compile: give mode or options, not both")
    backend = backends.get_default_backend() if backend is None else backend
    backends.exists(backend)
    backends.check_mode(mode)
    return Settings(bool(fullgraph), dynamic, backend, mode, check_options(options))


# -- the compiled object

MODULES = 8  # for how many modules a door makes as many entries as the limit says

_living: weakref.WeakSet = weakref.WeakSet()
listeners: list[Callable] = []  # functions (compiled object, record), told of every conversion


def default_converter(*args: Any) -> Any:
    """The conversion of frames; imported at the first compilation, not at start-up."""
    with locks.importing:
        from .convert_frame import convert
    return convert(*args)


Base: Any = getattr(native, "Cache", object)


class Compiled(Base):
    """What one `compile()` owns: settings, doors, and what it learned about sizes."""

    def __init__(self, settings: Settings, converter: Callable = default_converter):
        self.settings, self.converter = settings, converter
        self.records: list = []
        self.tries, self.growth = skipfiles.CaptureAttempts(), Growth()
        self.wrapper: Callable = lambda: None  # weak reference to the door of the compiled function itself
        _living.add(self)

    def all_doors(self) -> list:
        """The wrapper's door, if it lives, and those of resume points and nested frames."""
        wrapper = self.wrapper()
        return ([] if wrapper is None else [wrapper]) + self.doors

    def frame(self, code: types.CodeType, globals: dict) -> bool:
        """Asked by the hook when it first meets a code object: may it be captured?"""
        reason = state.uncapturable(code, globals)
        if reason == "generator" and not state.is_library_file(code.co_filename):
            counters.add("breaks", "generator frame")
        return reason is None

    def special(self) -> None:
        """Told by a door that runs plain because ops mean something else now."""
        counters.add("fallbacks", "called inside a dispatch mode, saved-tensor hooks or anomaly mode")

    def miss(self, door: Any, code: types.CodeType, globals: dict, builtins: dict, closure: tuple | None, slots: dict) -> Any:
        """Asked by a door without an entry for a call. Returns the new entry, or None: run plain."""
        surroundings = (slots, globals, builtins, closure)
        if not stance.current.compiles or stance.current.name == "eager_then_compile" and not _seen_before(door, slots):
            return self._refused(door, code, surroundings)
        try:
            if (why := self.tries.refuses(door, code, globals, closure, slots)) is not None:
                return skipfiles.leave_to_python(door, why, slots)
            failures = [entry.guards.explain(*surroundings) for entry in door.entries]
        except RecursionError:
            return _without_room()
        if failures and not self._recompile(door, code, surroundings, failures):
            return None
        symbolic = _learned(door).symbolic if self.settings.dynamic is not False else {}
        history = door.__dict__.setdefault("history", History())
        history.conversions += 1
        settings = dataclasses.replace(self.settings, symbolic=symbolic, name=code.co_qualname, history=history)
        if stance.current.backend is not None:
            settings = dataclasses.replace(settings, backend_given=stance.current.backend)
        return self._convert(door, code, surroundings, settings, reasons(failures))

    def _refused(self, door: Any, code: types.CodeType, surroundings: tuple) -> None:
        """What the stance says about a call that no entry serves: run plain, or raise."""
        if stance.current.name == "fail_on_recompile":
            failures = [entry.guards.explain(*surroundings) for entry in door.entries]
            raise RecompileError("the stance is 'fail_on_recompile', and " + describe(code, failures))
        counters.add("fallbacks", f"stance {stance.current.name}")

    def _recompile(self, door: Any, code: types.CodeType, surroundings: tuple, failures: list[list]) -> bool:
        """Learn from the entries that failed; False when the door has had enough."""
        learned = _learned(door)
        learn_dynamic(learned, failures)
        mine = sum(same_modules(made_for, surroundings[0]) for made_for in door.__dict__.get("made_for", ()))
        if mine >= config.recompile_limit or len(door.entries) >= config.recompile_limit * MODULES:
            door.plain = "recompile limit"
            counters.add("fallbacks", "recompile limit")
            warnings.warn(warning(code, config.recompile_limit, learned), RuntimeWarning, stacklevel=4)
            return False
        if config.error_on_recompile:
            raise RecompileError("error_on_recompile is set, and " + describe(code, failures))
        counters.add("recompiles")
        log.channel("recompiles")(describe(code, failures))
        return True

    def _convert(self, door: Any, code: types.CodeType, surroundings: tuple, settings: Settings, failed: list[str]) -> Any:
        record = compile_log.begin(code.co_name)
        record.function, record.door, record.failed = code, door.kind, failed
        start = time.perf_counter()
        try:
            with uncollected, compile_log.active(record):
                entry = self._new_entry(door, code, surroundings, settings, record)
        except Unsupported as reason:
            if settings.fullgraph:
                self._account(code, record, time.perf_counter() - start)
            entry = self._unsupported(reason, settings)
        except (ConstraintViolation, BackendError):
            raise
        except RecursionError as error:
            if sys.getrecursionlimit() - _depth() > ROOM:
                raise InternalError(f"compiling {code.co_qualname} nests without end") from error
            return _without_room()
        except Exception as error:
            entry = self._failed(error, code, settings)
        self._account(code, record, time.perf_counter() - start)
        self.tries.learn(door, code, record, time.perf_counter() - start, self.doors)
        if entry is None:
            door.plain = door.plain or "not compiled"
        else:
            counters.add("frames")
        return entry

    def _new_entry(
        self, door: Any, code: types.CodeType, surroundings: tuple, settings: Settings, record: compile_log.CompileRecord
    ) -> Any:
        slots, globals, builtins, closure = surroundings
        entry = self.converter(code, globals, builtins, closure, slots, settings, self)
        if entry is None:
            return None
        _check_guards(entry, surroundings)
        text = "\n".join(entry.guards.lines())
        record.texts.setdefault("guards.txt", text)
        log.channel("guards")(f"{code.co_qualname}\n{text}")
        other = door.lookup(slots, globals, builtins, closure)  # another thread may have made one meanwhile
        if other is None:
            door.add(entry)
            door.__dict__.setdefault("made_for", []).append(modules_of(slots))
        return other or entry

    def _account(self, code: types.CodeType, record: compile_log.CompileRecord, seconds: float) -> None:
        counters.add("compile_seconds", amount=seconds)
        log.channel("perf")(
            f"{code.co_qualname} was compiled in {seconds:.3f} s",
            **{stage: f"{taken:.3f} s" for stage, taken in record.seconds.items()},
        )
        self.records.append(record)
        for listen in listeners:
            listen(self, record)
        if seconds > config.slow_compile_seconds:
            print(f"flambeau: compiling {code.co_qualname} took {seconds:.1f} s", file=sys.stderr, flush=True)

    def _unsupported(self, reason: Unsupported, settings: Settings) -> None:
        if settings.fullgraph:
            raise reason
        counters.add("breaks", reason.code)
        log.channel("breaks")(str(reason))

    def _failed(self, error: Exception, code: types.CodeType, settings: Settings) -> None:
        if settings.fullgraph or config.strict:
            raise error
        counters.add("fallbacks", "internal error")
        import traceback

        where = traceback.format_exception(error)[-2:]
        warnings.warn(
            f"flambeau could not compile {code.co_qualname} and runs it eagerly; this is an error of the compiler "
            f"(FLAMBEAU_STRICT=1 raises it):\n{''.join(where)}",
            RuntimeWarning,
            stacklevel=5,
        )


ROOM = 800  # Python frames that compiling a function does with


def _without_room() -> None:
    """The call runs plain; the next one may have more room."""
    counters.add("fallbacks", "near the recursion limit")


def _depth() -> int:
    """How many Python frames this thread is in."""
    frame, depth = sys._getframe(1), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


def _seen_before(door: Any, slots: dict) -> bool:
    """Whether the door was called before; what differs from that call is learned as changing."""
    seen, now = door.__dict__.get("seen"), shapes_of(slots)
    door.__dict__["seen"] = now
    if seen is not None and not door.entries:
        _learned(door).symbolic = changed_dimensions(seen, now)
    return seen is not None


def modules_of(slots: dict) -> dict:
    """The modules among the arguments of a call, held weakly: each may need entries of its own."""
    return {name: weakref.ref(value) for name, value in slots.items() if isinstance(value, Module)}


def same_modules(made_for: dict, slots: dict) -> bool:
    return all(made() is slots.get(name) for name, made in made_for.items())


def _learned(door: Any) -> AutomaticDynamic:
    return door.__dict__.setdefault("learned", AutomaticDynamic())


def _check_guards(entry: Any, surroundings: tuple) -> None:
    """A guard that does not hold for the very call it was made for is an error of the compiler."""
    failures = entry.guards.explain(*surroundings)
    if failures:
        told = "".join(f"\n  {f.name}: {f.kind}: expected {f.old!r}, is {f.new!r}" for f in failures)
        raise InternalError(f"guards of a new entry do not hold for the call that it was made for:{told}")


# -- compile


def compile(
    f: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable | None = None,
    mode: str | None = None,
    options: dict | None = None,
    disable: bool = False,
) -> Any:
    """Compile a function, a method, a callable object or a Module; without `f`, a decorator.

    `fullgraph`: a graph break is an error. `dynamic`: True makes sizes symbolic from the first call, False never, None
    when a second size is seen. `backend`: a name of `compiler.list_backends()` or a callable (graph, example_inputs) ->
    callable; None: "inductor", or what `compiler.set_default_backend` said. `disable`: give `f` back as it is. Compilation
    happens at the first call.
    """
    settings = make_settings(fullgraph, dynamic, backend, mode, options)
    if f is None:
        return lambda given: compile(
            given, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable
        )
    if not callable(f):
        raise TypeError(f"compile() takes a callable or a Module, not {type(f).__name__}")
    if isinstance(f, type):
        raise TypeError(f"compile() takes a callable or a Module, not the class {f.__name__}: compile its instance or a method")
    if disable or not _can_compile():
        return f
    return compile_callable(f, settings)


_kinds: list[tuple[type, Callable]] = []


def compiles(kind: type) -> Any:
    """Decorator: the function compiles objects of this class, as (object, settings, converter) -> callable."""

    def enter(function: Callable) -> Callable:
        _kinds.append((kind, function))
        return function

    return enter


def compile_callable(f: Callable, settings: Settings, converter: Callable = default_converter) -> Any:
    """`compile` after its arguments were checked; `converter` is the seam where frames become entries."""
    for kind, compile_it in _kinds:
        if isinstance(f, kind):
            return compile_it(f, settings, converter)
    if isinstance(f, Disabled):
        return f
    if isinstance(f, native.Wrapper):
        return wrap(f.function, settings, converter)
    if isinstance(f, types.MethodType):
        return types.MethodType(compile_callable(f.__func__, settings, converter), f.__self__)
    if isinstance(f, functools.partial):
        return functools.partial(compile_callable(f.func, settings, converter), *f.args, **f.keywords)
    if isinstance(f, types.FunctionType):
        return wrap(f, settings, converter)
    method = type(f).__call__
    if isinstance(method, types.FunctionType):
        return types.MethodType(wrap(method, settings, converter), f)
    return wrap(_call_of(f), settings, converter)


def _call_of(f: Callable) -> Callable:
    """A Python function that calls something that has no bytecode of its own."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs)

    return functools.update_wrapper(call, f) if hasattr(f, "__name__") else call


def wrap(function: types.FunctionType, settings: Settings, converter: Callable) -> Any:
    compiled = Compiled(settings, converter)
    wrapper = native.Wrapper(compiled, function)
    compiled.wrapper = weakref.ref(wrapper)
    functools.update_wrapper(wrapper, function)
    if function.__code__.co_flags & state.GENERATOR_FLAGS:
        counters.add("breaks", "generator frame")
        wrapper.plain = "generator"
    return wrapper


@functools.cache
def _warn_unsupported_python() -> None:
    warnings.warn(
        f"flambeau does not compile on Python {platform.python_version()} (3.11 to 3.13 are known, and the extension "
        "must be built for it): compiled functions run eagerly",
        RuntimeWarning,
        stacklevel=4,
    )


def _can_compile() -> bool:
    if state.native is None:
        _warn_unsupported_python()
    return state.native is not None


def living() -> list[Compiled]:
    """Every compiled object that is still in use."""
    return list(_living)


def reset() -> None:
    """Forget everything compiled so far, in all compiled objects, and set the counters to zero."""
    for compiled in living():
        for door in compiled.all_doors():
            if door.plain != "generator":
                door.clear()
            for name in ("learned", "history", "seen", "made_for", "barren"):
                door.__dict__.pop(name, None)
        compiled.reset()
        compiled.tries, compiled.growth = skipfiles.CaptureAttempts(), Growth()
        compiled.records.clear()
    counters.reset()


# -- pickling


def _rebuild(function: Callable, arguments: dict) -> Any:
    return compile(function, **arguments)


def _is_global(wrapper: Any) -> bool:
    found: Any = sys.modules.get(wrapper.__module__)
    for part in wrapper.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is wrapper


def _reduce(wrapper: Any) -> Any:
    """A wrapper that stands in its module under its own name is pickled as functions are; another is compiled anew."""
    if _is_global(wrapper):
        return wrapper.__qualname__
    return _rebuild, (wrapper.function, wrapper.cache.settings.arguments())


if native is not None:
    copyreg.pickle(native.Wrapper, _reduce)

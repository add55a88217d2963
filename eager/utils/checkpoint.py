"""Activation checkpointing: trade computing a region again in the backward for the memory of what it saves.

In: a function and its arguments. Out: its results. Without reentry, each tensor that the region would save becomes an
empty place; the first place that backward asks for runs the region again, whose saved tensors fill the places. With
reentry, one node runs the region again and a backward of its own inside the backward.
"""

from __future__ import annotations

import contextlib
import enum
import warnings
import weakref

from .. import random
from ..amp import autocast_mode
from ..autograd import Function, backward, enable_grad, no_grad
from ..autograd.graph import saved_tensors_hooks
from ..autograd_node import Packed
from ..state import setting, state
from ..tensor import Tensor
from ...runtime.identity import WeakIdKeyDictionary

__all__ = [
    "checkpoint",
    "checkpoint_sequential",
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "GraphExecGroup",
    "SAC_IGNORED_OPS",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]


class CheckpointError(RuntimeError):
    """The region did something else when it ran again."""


class _Settings:
    early_stop = True
    debug: bool | None = None


@contextlib.contextmanager
def _setting(name: str, value: bool | None):
    previous = getattr(_Settings, name)
    setattr(_Settings, name, value)
    try:
        yield
    finally:
        setattr(_Settings, name, previous)


def set_checkpoint_early_stop(enable: bool):
    """Inside, regions that run again stop (or not) as soon as all that is needed is there."""
    return _setting("early_stop", enable)


def set_checkpoint_debug_enabled(enabled: bool | None):
    """Inside, errors of regions that differ list the tensors of both runs, or not; None leaves it to `debug=`."""
    return _setting("debug", enabled)


def noop_context_fn():
    return contextlib.nullcontext(), contextlib.nullcontext()


# -- what a region depends on besides its arguments


class Surroundings:
    """Random state and autocast as they were when a region first ran."""

    def __init__(self, preserve_rng_state: bool):
        self.rng = random.get_rng_state() if preserve_rng_state else None
        self.autocast = autocast_mode.settings()

    @contextlib.contextmanager
    def again(self):
        with random.fork_rng(enabled=self.rng is not None), autocast_mode.restored(self.autocast):
            if self.rng is not None:
                random.set_rng_state(self.rng)
            yield


class DefaultDeviceType:
    """The device type whose random state is kept where no argument tells one."""

    _type = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        DefaultDeviceType._type = device

    @staticmethod
    def get_device_type() -> str:
        return DefaultDeviceType._type


def get_device_states(*args) -> tuple:
    """([], []): the cpu's random state is kept apart, and there are no other devices."""
    return [], []


def set_device_states(devices, states, *, device_type=None) -> None:
    if devices:
        raise RuntimeError(f"set_device_states: no such devices: {devices}")


def detach_variable(inputs) -> tuple:
    """The tensors of a tuple detached, with `requires_grad` as it was."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type:  {type(inputs).__name__}")
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs)


def check_backward_validity(inputs) -> None:
    if not any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


# -- with reentry


class CheckpointFunction(Function):
    """The region as one node."""

    @staticmethod
    def forward(ctx, run_function, preserve_rng_state, *args):
        check_backward_validity(args)
        ctx.run_function, ctx.surroundings = run_function, Surroundings(preserve_rng_state)
        ctx.args = [None if isinstance(a, Tensor) else a for a in args]
        ctx.at = [k for k, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*(args[k] for k in ctx.at))
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx, *grads):
        if state.task is None or not state.task.whole:
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or call "
                ".backward() without passing the `inputs` argument."
            )
        args = list(ctx.args)
        for k, t in zip(ctx.at, ctx.saved_tensors):
            args[k] = t
        args = detach_variable(tuple(args))
        with ctx.surroundings.again(), enable_grad():
            outputs = ctx.run_function(*args)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        pairs = [(o, g) for o, g in zip(outputs, grads) if isinstance(o, Tensor) and o.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([o for o, _ in pairs], [g for _, g in pairs])
        return (None, None, *(a.grad if isinstance(a, Tensor) else None for a in args))


# -- without reentry


class _Stop(Exception):
    """All that is needed has been computed again."""


class _Holder:
    """Stands for a tensor that the region saved. `found`: per run of the engine, the tensor computed again."""

    __slots__ = ("found", "__weakref__")

    def __init__(self):
        self.found = {}


def description(t: Tensor) -> dict:
    return {"shape": t.shape, "dtype": t.dtype, "device": t.device}


class _CheckpointFrame:
    """One checkpointed call: the places it left, in order, and how to run it again."""

    def __init__(self, function, args, kwargs, surroundings, context, early_stop, check, debug):
        self.function, self.kwargs, self.surroundings, self.context = function, kwargs, surroundings, context
        self.early_stop, self.check, self.debug = early_stop, check, debug
        packer = state.packer  # an outer region's: it keeps a place of the arguments too
        keep = packer is not None and state.grad
        self.args = [Packed(a, packer) if keep and isinstance(a, Tensor) else a for a in args]
        self.places: list = []
        self.first: list = []
        self.done = WeakIdKeyDictionary()  # run of the engine -> True

    # the first run

    def pack(self, t: Tensor) -> _Holder:
        place = _Holder()
        self.places.append(weakref.ref(place))
        self.first.append(self.check(t))
        return place

    def unpack(self, place: _Holder) -> Tensor:
        run = state.task or _Once()
        if run not in self.done:
            self.run_again(run)
        if id(run) not in place.found:
            raise CheckpointError(
                "torch.utils.checkpoint: Unpack is being triggered for a tensor that was either never recomputed, or "
                "already unpacked once. If you are calling ctx.saved_tensors in backward, make sure to do so only "
                "once. Otherwise please open an issue with details on your use case."
            )
        return place.found.pop(id(run))

    # the second run

    def run_again(self, run) -> None:
        again = _Again(self, id(run))
        with enable_grad():
            args = [a.unpack() if type(a) is Packed else a for a in self.args]
        self.done[run] = True
        try:
            with (
                self.surroundings.again(),
                setting(packer=None),
                saved_tensors_hooks(again.pack, again.unpack),
                enable_grad(),
                self.context,
            ):
                self.function(*args, **self.kwargs)
        except _Stop:
            pass
        again.compare()


class _Once:
    """Stands for the run of the engine where saved tensors are asked for outside of one."""


class _Again:
    """The saved tensors of a second run, matched with the places of the first."""

    def __init__(self, region: _CheckpointFrame, run: int):
        self.region, self.run = region, run
        self.seen: list = []
        self.wanted = sum(ref() is not None for ref in region.places)
        self.met = 0

    def pack(self, t: Tensor) -> Tensor:
        k = len(self.seen)
        self.seen.append(self.region.check(t))
        place = self.region.places[k]() if k < len(self.region.places) else None
        if place is not None:
            place.found[self.run] = t
            self.met += 1
        if self.region.early_stop and self.met == self.wanted:
            raise _Stop
        return t

    @staticmethod
    def unpack(t: Tensor) -> Tensor:
        return t

    def compare(self) -> None:
        first, again = self.region.first, self.seen
        if self.region.early_stop and self.met == self.wanted:
            first = first[: len(again)]
        if len(first) != len(again):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {len(first)}\n"
                f"Number of tensors saved during recomputation: {len(again)}" + self.listing()
            )
        wrong = [k for k, (a, b) in enumerate(zip(first, again)) if a != b]
        if wrong:
            lines = [f"tensor at position {k}:\nsaved metadata: {first[k]}\nrecomputed metadata: {again[k]}" for k in wrong]
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than "
                "during the forward pass.\n" + "\n".join(lines) + self.listing()
            )

    def listing(self) -> str:
        if not (self.region.debug if _Settings.debug is None else _Settings.debug):
            return ""
        return f"\nSaved in the forward: {self.region.first}\nSaved in the recomputation: {self.seen}"


_CHECKS = {"default": description, "none": lambda t: None}


def without_reentry(function, args, kwargs, preserve_rng_state, context_fn, determinism_check, debug, early_stop):
    if determinism_check not in _CHECKS:
        raise ValueError(f"determinism_check should be one of {list(_CHECKS)}, but got {determinism_check}")
    forward_context, again_context = context_fn()
    if not state.grad:
        with forward_context:
            return function(*args, **kwargs)
    region = _CheckpointFrame(
        function,
        args,
        kwargs,
        Surroundings(preserve_rng_state),
        again_context,
        early_stop and _Settings.early_stop,
        _CHECKS[determinism_check],
        debug,
    )
    with saved_tensors_hooks(region.pack, region.unpack), forward_context:
        return function(*args, **kwargs)


# -- the public functions


def checkpoint(
    function,
    *args,
    use_reentrant: bool | None = None,
    context_fn=noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs,
):
    """`function(*args, **kwargs)` whose intermediate values are computed again in the backward.

    `preserve_rng_state=` (default True): random draws repeat. Keyword arguments of the function need
    `use_reentrant=False`.
    """
    use_reentrant = _reentrant(use_reentrant, "torch.utils.checkpoint")
    preserve = kwargs.pop("preserve_rng_state", True)
    if not use_reentrant:
        return without_reentry(function, args, kwargs, preserve, context_fn, determinism_check, debug, early_stop)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if context_fn is not noop_context_fn or debug is not False:
        raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    return CheckpointFunction.apply(function, preserve, *args)


def _reentrant(given: bool | None, function: str) -> bool:
    """What `use_reentrant` means; the caller of the public function is warned where it is not given."""
    if given is None:
        warnings.warn(
            f"{function}: the use_reentrant parameter should be passed explicitly. use_reentrant=False is recommended; without "
            "it, use_reentrant=True is taken.",
            stacklevel=3,
        )
    return given is None or given


def checkpoint_sequential(functions, segments: int, input, use_reentrant: bool | None = None, **kwargs):
    """Run a sequence of functions in `segments` checkpointed parts; the last part is not checkpointed."""
    use_reentrant = _reentrant(use_reentrant, "torch.utils.checkpoint.checkpoint_sequential")
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    functions = list(functions.children()) if hasattr(functions, "children") else list(functions)

    def part(start, end):
        def run(x):
            for f in functions[start:end]:
                x = f(x)
            return x

        return run

    size = len(functions) // segments
    end = 0
    for start in range(0, size * (segments - 1), size):
        end = start + size
        input = checkpoint(part(start, end), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return part(end, len(functions))(input)


# -- selective checkpointing


class CheckpointPolicy(enum.Enum):
    """What a selective region does with the result of an op."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4


SAC_IGNORED_OPS: set = set()


class SelectiveCheckpointContext:
    """What a policy function is given first."""

    def __init__(self, *, is_recompute: bool):
        self.is_recompute = is_recompute


class GraphExecGroup:
    """Runs of the engine that share what was computed again; each run is one of its own here."""

    def __enter__(self):
        raise RuntimeError("GraphExecGroup is not supported: every backward computes its regions again")

    def __exit__(self, *_):
        pass


def create_selective_checkpoint_contexts(policy_fn_or_list, allow_cache_entry_mutation: bool = False):
    raise RuntimeError("create_selective_checkpoint_contexts is not supported: a region saves nothing or everything")

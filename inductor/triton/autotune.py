"""Which blocks and warps a kernel gets, measured on the device: by CUDA events, in a program's own order, on memory of its own.

In: a program at known sizes, a place, addresses of memory that may be written to. Out: `TuningResult`: the changed blocks of
launches by number, and what was tried. What was measured is kept twice: for the program, so that a second process measures
nothing and does not import triton; and for each kernel under its text, the classes of its sizes and the device's name, for all
that use it.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...runtime import artifact_store
from ...runtime.errors import BackendError
from ..loops.ir import Program
from . import aot, launch, triton_api
from .codegen import TritonSource

SUFFIX = ".tuned"
WARM, ROUNDS = 2, 3  # calls before a time is taken; times taken, of which the least counts
LEAST_TIME, MOST_REPEATS = 2000.0, 50  # microseconds that a time is taken over, about; launches of it at most


@dataclass
class Trial:
    """One kernel: what was tried (its blocks, and its microseconds or why it has none) and what was chosen."""

    kernel: str
    sizes: list
    tried: list[dict]
    chosen: dict

    def text(self) -> str:
        """One line a trial, the fastest marked."""
        shown = lambda t: f"{t['microseconds']:.1f} us" if "microseconds" in t else f"skipped: {t['skipped']}"
        lines = [f"  {'*' if t['config'] == self.chosen else ' '} {block_text(t['config'])}: {shown(t)}" for t in self.tried]
        return "\n".join([self.kernel, *lines])


@dataclass
class TuningResult:
    """configs: launch's number -> changes of its blocks; trials: of each kernel that has choices."""

    configs: dict[int, dict] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)

    def packed(self) -> bytes:
        return json.dumps([list(self.configs.items()), [vars(t) for t in self.trials]]).encode()

    @classmethod
    def unpacked(cls, data: bytes) -> TuningResult:
        configs, trials = json.loads(data)
        return cls({number: config for number, config in configs}, [Trial(**t) for t in trials])


def block_text(config: Mapping[str, Any]) -> str:
    return ", ".join(f"{k}={v}" for k, v in config.items()) or "as the rule says"


def tune_program(
    program: Program,
    generated: TritonSource,
    place: Any,
    sizes: Mapping[str, int],
    memory: Callable,
    unaligned: Collection[str] = (),
) -> TuningResult:
    """The choices for a program. `memory()` gives (addresses, scalars, what runs a kernel of the program eagerly), asked for
    where something is measured."""
    if not any(generated.choices):
        return TuningResult()
    identity = [
        aot.version(),
        place.driver.name,
        place.chip,
        place.most_shared,
        generated.text,
        sorted(sizes.items()),
        sorted(generated.names.items()),
        sorted(unaligned),
    ]
    whole = digest(identity)
    data = artifact_store.read(whole, SUFFIX)
    if data is not None:
        return TuningResult.unpacked(data)
    made = Tuner(program, generated, place, sizes, memory, unaligned).run()
    artifact_store.put(whole, SUFFIX, made.packed())
    return made


def digest(identity: list) -> str:
    return hashlib.sha256(json.dumps(identity, default=str).encode()).hexdigest()


class Tuner:
    """Launches in order; those with choices are timed, and then made once with what was chosen, so that what follows finds in
    memory what it would find in a call."""

    def __init__(
        self,
        program: Program,
        generated: TritonSource,
        place: Any,
        sizes: Mapping[str, int],
        memory: Callable,
        unaligned: Collection[str],
    ):
        self.program, self.generated, self.place, self.sizes, self.unaligned = program, generated, place, sizes, unaligned
        self.namespace = triton_api.load(generated.text, interpreted=False)
        self.addresses, self.scalars, self.eager = memory()
        self.stream = place.stream()
        self.done = TuningResult()
        self.known: dict[str, Trial] = {}

    def run(self) -> TuningResult:
        pauses = list(self.generated.pauses)
        for launched in self.launches({}):
            while pauses and pauses[0][0] <= launched.number:
                self.eager(pauses.pop(0)[1])
            choices = self.generated.choices[launched.number]
            if choices:
                trial = self.trial(launched, choices)
                if trial.chosen:
                    self.done.configs[launched.number] = trial.chosen
            self.make(launched.number)
        return self.done

    def launches(self, configs: Mapping[int, dict]) -> list[aot.KernelLaunch]:
        return aot.launches(self.program, self.generated, self.namespace, self.sizes, configs, self.unaligned)

    def at(self, number: int, config: Mapping[str, Any]) -> aot.KernelLaunch:
        return next(one for one in self.launches({number: dict(config)}) if one.number == number)

    def make(self, number: int) -> None:
        """One launch, as a call would make it."""
        config = dict(self.done.configs.get(number, {}))
        while True:
            binary = self.binary(self.at(number, config))
            if binary.facts["shared"] <= self.place.most_shared:
                break
            config |= aot.next_config(binary.launched, binary.facts["shared"], self.place.most_shared)
        launch.PreparedLaunches(self.place.driver, [binary])(self.addresses, self.stream, self.scalars)

    def binary(self, launched: aot.KernelLaunch) -> aot.Binary:
        key = aot.key_of(self.generated.text, launched, self.place.chip)
        return aot.binary(key, self.namespace, launched, self.place.chip)

    # -- one kernel

    def trial(self, launched: aot.KernelLaunch, choices: tuple[dict, ...]) -> Trial:
        """From this program, from the store, or measured."""
        key = self.key(launched, choices)
        if key in self.known:
            return self.known[key]
        data = artifact_store.read(key, SUFFIX)
        found = Trial(**json.loads(data)) if data is not None else self.measured(launched, choices)
        if data is None:
            artifact_store.put(key, SUFFIX, json.dumps(vars(found)).encode())
        self.known[key] = found
        self.done.trials.append(found)
        return found

    def key(self, launched: aot.KernelLaunch, choices: tuple[dict, ...]) -> str:
        text = aot.kernel_text(self.generated.text, launched.kernel)
        return digest(
            [
                aot.version(),
                self.place.driver.name,
                self.place.chip,
                self.place.most_shared,
                text,
                aot.signature(launched),
                classes(launched),
                launched.constants,
                launched.options,
                choices,
            ]
        )

    def measured(self, launched: aot.KernelLaunch, choices: tuple[dict, ...]) -> Trial:
        tried = [self.attempt(launched.number, config) for config in ({}, *choices)]
        timed = [t for t in tried if "microseconds" in t]
        chosen = min(timed, key=lambda t: t["microseconds"])["config"] if timed else {}
        return Trial(launched.kernel, classes(launched), tried, chosen)

    def attempt(self, number: int, config: dict) -> dict:
        """A config with its time, or with the reason why it has none."""
        failures = importlib.import_module("triton.errors").TritonError, RuntimeError
        try:
            binary = self.binary(self.at(number, config))
        except BackendError:
            raise
        except failures as error:
            return {"config": config, "skipped": f"it cannot be compiled: {str(error).partition(chr(10))[0]}"}
        shared, most = binary.facts["shared"], self.place.most_shared
        if shared > most:
            return {"config": config, "skipped": f"needs {shared:,} bytes of shared memory, and this chip has {most:,}"}
        try:
            return {"config": config, "microseconds": self.time(launch.PreparedLaunches(self.place.driver, [binary]))}
        except launch.OutOfResources as error:
            return {"config": config, "skipped": str(error)}

    def time(self, prepared: launch.PreparedLaunches) -> float:
        """The least of some times, each over launches enough for the clock."""
        timed = lambda repeats: prepared.timed(self.addresses, self.stream, self.scalars, repeats)
        first = timed(WARM)
        repeats = max(1, min(MOST_REPEATS, int(LEAST_TIME / max(first, 1.0))))
        return min(timed(repeats) for _ in range(ROUNDS))


def classes(launched: aot.KernelLaunch) -> list:
    """The sizes that a launch is given, by powers of two; sizes that never change are in the kernel's text."""
    return [[name, g.value.bit_length()] for name, g in launched.arguments if isinstance(g.value, int)]

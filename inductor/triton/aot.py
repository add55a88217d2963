"""Kernels compiled ahead of time: from a generated file to cubins with what a launcher must know, without a GPU.

In: a `Program` with its generated file, sizes, a compute capability. Out: one `Binary` a launch, equal ones shared. Compiled by
triton's own compiler and its ptxas; kept in the project's store under a hash of the kernel's text, signature and versions, so
that a second process neither imports triton nor compiles.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import astuple, dataclass
from typing import Any

from ...runtime import artifact_store, counters
from ...runtime.errors import BackendError
from ..loops.ir import Program
from . import triton_api
from .codegen import TritonSource, generate
from .helpers import needed
from .triton_text import held_type

CAPABILITIES = (80, 90)
SHARED = {80: 163 << 10, 90: 227 << 10}  # bytes of shared memory that a block may ask for
SHRINKS, SMALLEST = ("BM", "BN", "BK", "XBLOCK", "YBLOCK"), 16  # blocks that no mask or loop takes for a whole row
UNALIGNED = "unaligned"  # the value of an array that does not begin at a multiple of 16 bytes


@dataclass(frozen=True)
class LaunchArgument:
    """An argument of a launch: its type in a signature, and for arrays the name, for numbers the value."""

    kind: str
    name: str = ""
    value: Any = None


@dataclass(frozen=True)
class KernelLaunch:
    """One launch: the kernel, grid, arguments by parameter, block sizes, and options of the compiler."""

    kernel: str
    grid: tuple[int, ...]
    arguments: tuple[tuple[str, LaunchArgument], ...]
    constants: tuple[tuple[str, Any], ...]
    options: tuple[tuple[str, int], ...]
    number: int = 0  # its place among all launches of `run`


@dataclass(frozen=True)
class Binary:
    """A compiled kernel: `facts` has name, shared bytes, warps, scratch sizes; `ptx` is for readers."""

    launched: KernelLaunch
    cubin: bytes
    ptx: str
    facts: dict


def row(name: str) -> str:
    """What launches call memory for local rows, beside the names of buffers."""
    return f"row {name}"


class LaunchRecorder:
    """`t` and `launch` for a file's `run`: notes launches instead of making them. `configs`: other blocks, by a launch's number;
    `unaligned`: arrays that do not begin at a multiple of 16 bytes."""

    def __init__(
        self,
        generated: TritonSource,
        program: Program,
        configs: Mapping[int, dict] | None = None,
        unaligned: Collection[str] = (),
    ):
        self.types = {generated.names[b.name]: (b.name, held_type(b.dtype)) for b in program.buffers}
        self.types |= {name: (row(name), held_type(dtype)) for name, (dtype, _) in generated.rows.items()}
        self.floats = {s.name for s in program.floats}
        self.launches: list[KernelLaunch] = []
        self.configs, self.unaligned = configs or {}, unaligned

    def __getattr__(self, name: str) -> LaunchArgument:
        if name in self.types:
            buffer, element = self.types[name]
            return LaunchArgument(f"*{element}", buffer, UNALIGNED if buffer in self.unaligned else None)
        if name in ("seed", "base"):
            return LaunchArgument("i64", name)
        if name in self.floats:
            return LaunchArgument("fp64", name)
        raise AttributeError(name)

    error = LaunchArgument("*i32", "error")

    def eager(self, number: int) -> None:
        """A call between launches is none of them."""

    def launch(self, kernel: Any, grid: Callable, *arguments: Any, **blocks: Any) -> None:
        names = list(kernel.arg_names)
        name = getattr(kernel, "__name__", None) or kernel.fn.__name__
        blocks |= self.configs.get(len(self.launches), {})
        given = [
            a if isinstance(a, LaunchArgument) else LaunchArgument("i32" if -(2**31) <= a < 2**31 else "i64", value=a)
            for a in arguments
        ]
        options = tuple((k, v) for k, v in blocks.items() if k not in names)
        constants = tuple((k, v) for k, v in blocks.items() if k in names)
        arguments = tuple(zip(names, given))
        self.launches.append(KernelLaunch(name, tuple(grid(blocks)), arguments, constants, options, len(self.launches)))


def launches(
    program: Program,
    generated: TritonSource,
    namespace: dict,
    sizes: Mapping[str, int],
    configs: Mapping[int, dict] | None = None,
    unaligned: Collection[str] = (),
) -> list[KernelLaunch]:
    """What `run` launches at some sizes."""
    recorder = LaunchRecorder(generated, program, configs, unaligned)
    namespace["run"](recorder.launch, recorder, **sizes)
    return [launched for launched in recorder.launches if all(n > 0 for n in launched.grid)]


def hints(program: Program) -> dict[str, int]:
    """Sizes for symbols where no call has told them."""
    from .codegen import hint_of

    return {s.name: hint_of(program, s.name) for s in program.symbols}


def compile_program(
    program: Program,
    capability: int = 90,
    sizes: Mapping[str, int] | None = None,
    generated: TritonSource | None = None,
    most_shared: int | None = None,
    configs: Mapping[int, dict] | None = None,
    unaligned: Collection[str] = (),
) -> list[Binary]:
    """All kernels of a program for one kind of chip. What an earlier process compiled is found without importing triton. A kernel
    that asks for more than `most_shared` bytes of shared memory is compiled again with smaller blocks. `configs`: blocks of
    some launches, by number, that are not those of the file; `unaligned`: as of `LaunchRecorder`."""
    generated = generated or generate(program)
    sizes = hints(program) if sizes is None else dict(sizes)
    most_shared = most_shared or SHARED[capability]
    identity = [
        version(),
        capability,
        generated.text,
        sorted(sizes.items()),
        sorted(generated.names.items()),
        most_shared,
        sorted((configs or {}).items()),
        sorted(unaligned),
    ]
    whole = hashlib.sha256(json.dumps(identity).encode()).hexdigest()
    return load_launches(whole) or build_launches(
        program, generated, capability, sizes, whole, most_shared, configs or {}, unaligned
    )


def build_launches(
    program: Program,
    generated: TritonSource,
    capability: int,
    sizes: Mapping[str, int],
    whole: str,
    most_shared: int,
    configs: Mapping[int, dict],
    unaligned: Collection[str],
) -> list[Binary]:
    namespace, configs = triton_api.load(generated.text, interpreted=False), dict(configs)
    while True:
        listed = [
            (launched, key_of(generated.text, launched, capability))
            for launched in launches(program, generated, namespace, sizes, configs, unaligned)
        ]
        made = binaries(dict((key, launched) for launched, key in listed), namespace, capability)
        large = [(launched, made[key].facts["shared"]) for launched, key in listed if made[key].facts["shared"] > most_shared]
        if not large:
            break
        configs |= {launched.number: next_config(launched, shared, most_shared) for launched, shared in large}
    artifact_store.put(
        whole, ".launches", json.dumps([[*astuple(launched), key] for launched, key in listed], default=str).encode()
    )
    return [Binary(launched, made[key].cubin, made[key].ptx, made[key].facts) for launched, key in listed]


def binaries(wanted: Mapping[str, KernelLaunch], namespace: dict, capability: int) -> dict[str, Binary]:
    """Kernels by key, from the store or compiled, one after the other: CPython 3.11's `ast.parse`, which triton calls, fails in
    several threads at once."""
    return {key: binary(key, namespace, launched, capability) for key, launched in wanted.items()}


def next_config(launched: KernelLaunch, shared: int, most: int) -> dict:
    """Fewer stages, then half of the largest block."""
    config = dict(launched.options) | {k: v for k, v in launched.constants if k in SHRINKS}
    if config.get("num_stages", 1) > 1:
        return config | {"num_stages": config["num_stages"] - 1}
    blocks = {k: v for k, v in config.items() if k in SHRINKS and v > SMALLEST}
    if not blocks:
        raise BackendError(
            f"{launched.kernel} needs {shared:,} bytes of shared memory, and this chip has {most:,}",
            "compute it outside of the compiled function, or compile with the default backend",
        )
    largest = max(blocks, key=lambda k: blocks[k])
    return config | {largest: blocks[largest] // 2}


def load_launches(whole: str) -> list[Binary] | None:
    """The launches and binaries of a whole program from the store, or None where something is not there."""
    data = artifact_store.read(whole, ".launches")
    found: list[Binary] = []
    made: dict[str, Binary] = {}
    for kernel, grid, arguments, constants, options, number, key in json.loads(data) if data is not None else ():
        launched = KernelLaunch(
            kernel,
            tuple(grid),
            tuple((name, LaunchArgument(*given)) for name, given in arguments),
            tuple(map(tuple, constants)),
            tuple(map(tuple, options)),
            number,
        )
        if key not in made:
            one = load_binary(key, launched)
            if one is None:
                return None
            made[key] = one
        found.append(Binary(launched, made[key].cubin, made[key].ptx, made[key].facts))
    return found if data is not None else None


# -- one kernel


def signature(launched: KernelLaunch) -> tuple[tuple[str, str, bool], ...]:
    """(parameter, type, divisible by 16) of what is no constant. Arrays begin at multiples of 16 bytes, unless they say so."""
    whole = lambda g: g.kind in ("i32", "i64") and g.value is not None and g.value % 16 == 0
    return tuple((name, g.kind, g.value != UNALIGNED if g.kind[0] == "*" else whole(g)) for name, g in launched.arguments)


@functools.cache
def version() -> str:
    """Triton's version, without importing it."""
    from importlib import metadata

    try:
        return metadata.version("triton")
    except metadata.PackageNotFoundError as error:
        raise BackendError("the Triton backend needs the package triton", "pip install 'triton>=3.6'") from error


def key_of(text: str, launched: KernelLaunch, capability: int) -> str:
    """The name of a kernel's files in the store."""
    identity = [
        version(),
        capability,
        kernel_text(text, launched.kernel),
        signature(launched),
        [(k, str(v)) for k, v in launched.constants],
        launched.options,
    ]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


def load_binary(key: str, launched: KernelLaunch) -> Binary | None:
    kept, facts = artifact_store.read(key, ".cubin"), artifact_store.read(key, ".json")
    if kept is None or facts is None:
        return None
    counters.add("cache_hits")
    return Binary(launched, kept, (artifact_store.read(key, ".ptx") or b"").decode(), json.loads(facts))


def binary(key: str, namespace: dict, launched: KernelLaunch, capability: int) -> Binary:
    """From the store, or compiled."""
    kept = load_binary(key, launched)
    if kept is not None:
        return kept
    made = compiled(namespace, launched, capability)
    artifact_store.put(key, ".ptx", made.ptx.encode())
    artifact_store.put(key, ".json", json.dumps(made.facts).encode())
    artifact_store.put(key, ".cubin", made.cubin)
    return made


def kernel_text(text: str, kernel: str) -> str:
    """What decides a kernel's code: its own text and all functions that it may call."""
    own = text.partition(f"\ndef {kernel}(")[2].split("\n\n\n", 1)[0]
    return "\n".join([*needed(own), own])


KEPT = (
    "name",
    "shared",
    "num_warps",
    "num_ctas",
    "global_scratch_size",
    "global_scratch_align",
    "profile_scratch_size",
    "profile_scratch_align",
)


def compiled(namespace: dict, launched: KernelLaunch, capability: int) -> Binary:
    compiler = importlib.import_module("triton.compiler")
    backends = importlib.import_module("triton.backends.compiler")
    function = namespace[launched.kernel]
    names = list(function.arg_names)
    types = {name: kind for name, kind, _ in signature(launched)} | {name: "constexpr" for name, _ in launched.constants}
    source = compiler.ASTSource(
        function,
        {name: types[name] for name in names},
        constexprs={(names.index(name),): value for name, value in launched.constants},
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name, _, divisible in signature(launched) if divisible},
    )
    target = backends.GPUTarget("cuda", capability, 32)
    made = compiler.compile(source, target=target, options={**dict(launched.options), "enable_fp_fusion": False})
    facts = {name: getattr(made.metadata, name) for name in KEPT if hasattr(made.metadata, name)}
    return Binary(launched, made.asm["cubin"], made.asm["ptx"], facts)


__all__ = ["Binary", "compile_program"]

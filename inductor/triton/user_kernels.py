"""The user's own `@triton.jit` kernels, called with tensors: `wrap(kernel)[grid](...)`, as `torch.library.wrap_triton` does.

In: a kernel, a grid, tensors and numbers. On a GPU the kernel is compiled (and kept in the store) and launched by the launcher;
in the host's memory triton's interpreter runs it; while a program is captured a call is one node, and what the kernel writes is
copied back. What it writes is read off its text: pointers that reach a store or an atomic operation.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...capture.shapes.symbolic_shapes import SymBool, SymFloat, SymInt
from ...eager.ops.user_kernels import KernelCall, WrappedKernel, user_kernel_op
from ...eager.state import recording, state
from ...eager.tensor import Tensor
from ...runtime.errors import BackendError
from . import aot, triton_api
from .triton_text import memory_type

SIMPLE = "JITFunction"


class Kernel(WrappedKernel):
    """A kernel that takes tensors: `kernel[grid](*args, **kwargs)`."""

    def __init__(self, kernel: Any):
        if type(kernel).__name__ not in (SIMPLE, "InterpretedFunction"):
            raise BackendError(
                f"a {type(kernel).__name__} is not a plain @triton.jit function",
                "wrap the function under the decorators (kernel.fn), and give block sizes in the call",
            )
        self.kernel = kernel
        self.__name__ = kernel.fn.__name__

    def __getitem__(self, grid: Any) -> Callable:
        return functools.partial(launch, self.kernel, grid)


def wrap(kernel: Any) -> Kernel:
    return kernel if isinstance(kernel, Kernel) else Kernel(kernel)


def launch(kernel: Any, grid: Callable[[dict], Any] | tuple | int, *args: Any, **kwargs: Any) -> None:
    """One call of a kernel; like triton's, with options of its compiler (`num_warps`, ...) among the keywords."""
    given, options = bind_arguments(kernel, args, kwargs)
    shape = grid(given) if callable(grid) else grid
    shape = tuple(int(n) for n in (shape if isinstance(shape, (tuple, list)) else (shape,)))
    tensors = [(name, v) for name, v in given.items() if isinstance(v, Tensor)]
    if state.grad and any(t.requires_grad for _, t in tensors):
        raise RuntimeError(
            f"{kernel.fn.__name__} is given a tensor that requires a gradient: call it in the forward and the "
            "backward of an autograd.Function, or under no_grad()"
        )
    places = {t.device.type for _, t in tensors}
    if len(places) > 1:
        raise RuntimeError(f"{kernel.fn.__name__}: expected all tensors to be on the same device, but found {sorted(places)}")
    names = written_parameters(kernel)
    if any(is_fake(t) for _, t in tensors):
        return trace_call(
            kernel, shape, given, [t for _, t in tensors], [k for k, (name, _) in enumerate(tensors) if name in names]
        )
    with recording(False):
        if places == {"cuda"}:
            on_gpu(kernel, shape, given, options)
        else:
            interpret(kernel, shape, {name: v._fl_array if isinstance(v, Tensor) else v for name, v in given.items()})
    for name, t in tensors:
        if name in names:
            t.untyped_storage().bump()


def is_fake(t: Tensor) -> bool:
    """Whether a tensor has no memory, neither here nor on a GPU."""
    return t._fl_array is None and getattr(t._fl_storage, "block", None) is None


def bind_arguments(kernel: Any, args: tuple, kwargs: Mapping[str, Any]) -> tuple[dict, dict]:
    """(arguments by parameter, options of the compiler)"""
    signature = inspect.signature(kernel.fn)
    options = {name: v for name, v in kwargs.items() if name not in signature.parameters}
    found = signature.bind(*args, **{name: v for name, v in kwargs.items() if name not in options})
    found.apply_defaults()
    return dict(found.arguments), options


def trace_call(kernel: Any, grid: tuple, given: dict, tensors: list, numbers: list) -> None:
    """The call as one operation of a graph; what it writes is copied back."""
    at = iter(range(len(tensors)))
    known = lambda v: int(v) if isinstance(v, SymInt) else float(v) if isinstance(v, (SymFloat, SymBool)) else v
    arguments = tuple((name, next(at), None) if isinstance(v, Tensor) else (name, None, known(v)) for name, v in given.items())
    call = KernelCall(kernel, grid, arguments, tuple(numbers), interpret)
    if not numbers:
        return
    made = user_kernel_op(len(numbers))(tuple(tensors), call)
    with recording(False):
        for k, value in zip(numbers, made if isinstance(made, tuple) else (made,)):
            tensors[k].copy_(value)


# -- what a kernel writes


@functools.cache
def written_parameters(kernel: Any) -> frozenset[str]:
    """The parameters whose memory it writes; all of them where its text cannot be read."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kernel.fn))).body[0]
    except (OSError, TypeError, SyntaxError):
        tree = None
    if not isinstance(tree, ast.FunctionDef):  # (a lambda's text is that of the statement around it)
        return frozenset(inspect.signature(kernel.fn).parameters)
    return Writes(tree, kernel.fn.__globals__).found()


class Writes(ast.NodeVisitor):
    """Which parameters' values a pointer comes from that is stored to. Assignments are followed until nothing changes."""

    def __init__(self, tree: ast.FunctionDef, names: Mapping[str, Any]):
        self.tree, self.names = tree, names
        self.parameters = [a.arg for a in tree.args.args]
        self.sources: dict[str, frozenset] = {name: frozenset((name,)) for name in self.parameters}
        self.stored: frozenset = frozenset()

    def found(self) -> frozenset[str]:
        before = None
        while before != (before := (dict(self.sources), self.stored)):
            self.visit(self.tree)
        return self.stored

    def of(self, node: ast.AST) -> frozenset:
        """The parameters that an expression is made from; what is loaded from memory is a number, no pointer."""
        if isinstance(node, ast.Name):
            return self.sources.get(node.id, frozenset())
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "load":
            return frozenset()
        return frozenset().union(*map(self.of, ast.iter_child_nodes(node)))

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in (n for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)):
            self.sources[target.id] = self.sources.get(target.id, frozenset()) | self.of(node.value)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self.sources[node.target.id] = self.sources.get(node.target.id, frozenset()) | self.of(node.value)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute) and (node.func.attr == "store" or node.func.attr.startswith("atomic_")):
            pointer = node.args[:1] or [k.value for k in node.keywords if k.arg == "pointer"]
            self.stored |= frozenset().union(*map(self.of, pointer))
        elif isinstance(node.func, ast.Name) and (called := self.names.get(node.func.id)) is not None and hasattr(called, "fn"):
            names = list(inspect.signature(called.fn).parameters)
            given = [*zip(names, node.args), *((k.arg, k.value) for k in node.keywords)]
            self.stored |= frozenset().union(*(self.of(value) for name, value in given if name in written_parameters(called)))
        self.generic_visit(node)


# -- in the host's memory


def interpret(kernel: Any, grid: tuple, given: Mapping[str, Any]) -> None:
    """Run all programs of a call on arrays, one after the other."""
    tl = importlib.import_module("triton.language")
    constants = constant_names(kernel)
    with triton_api.interpreting() as found, interpreted_functions(found, kernel):
        arguments = {}
        for name, v in given.items():
            if hasattr(v, "ctypes"):
                arguments[name] = triton_api.address(found, tl, v.ctypes.data, type_of(v.dtype))
            elif name in constants or v is None or isinstance(v, bool):
                arguments[name] = v
            else:
                arguments[name] = triton_api.number(found, tl, v, kind_of(v))
        triton_api.run_grid(found, found.InterpretedFunction(kernel.fn), grid, arguments)


def type_of(dtype: Any) -> str:
    """The name of an array's elements in signatures."""
    from ...eager import dtypes

    return memory_type(getattr(dtypes, dtype.name))


def kind_of(v: Any) -> str:
    return "fp32" if isinstance(v, float) else "i32" if -(2**31) <= v < 2**31 else "i64"


def constant_names(kernel: Any) -> set[str]:
    return {name for name, p in inspect.signature(kernel.fn).parameters.items() if "constexpr" in str(p.annotation)}


@contextmanager
def interpreted_functions(found: Any, kernel: Any) -> Iterator[None]:
    """Functions that triton would compile are ones that its interpreter runs: those beside the kernel, and triton's own."""
    spaces = [vars(importlib.import_module(name)) for name in ("triton.language", "triton.language.standard")]
    patched = []
    for space in (kernel.fn.__globals__, *spaces):
        for name, value in list(space.items()):
            if type(value).__name__ == SIMPLE and not isinstance(value, found.InterpretedFunction):
                patched.append((space, name, value))
                space[name] = found.InterpretedFunction(value.fn)
    try:
        yield
    finally:
        for space, name, value in patched:
            space[name] = value


# -- on a GPU


def on_gpu(kernel: Any, grid: tuple, given: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Compile for the tensors' chip, or find that in the store, and launch on the current stream."""
    from ...eager import cuda
    from .device import chip_of
    from .launch import driver

    device = next(v.device for v in given.values() if isinstance(v, Tensor))
    on = driver(device.index)
    launched = as_launch(kernel, grid, given, options)
    if all(n > 0 for n in grid):
        prepare_launch(on, chip_of(on.capability), kernel, launched)(
            {name: v.data_ptr() for name, v in given.items() if isinstance(v, Tensor)}, cuda.current_stream(device).cuda_stream
        )


def as_launch(kernel: Any, grid: tuple, given: Mapping[str, Any], options: Mapping[str, Any]) -> aot.KernelLaunch:
    """The call as the launcher takes it: ones, None and truth are constants, as triton has it."""
    names, arguments, constants = constant_names(kernel), [], []
    for name, v in given.items():
        if isinstance(v, Tensor):
            place = aot.UNALIGNED if v.data_ptr() % 16 else None
            arguments.append((name, aot.LaunchArgument(f"*{memory_type(v.dtype)}", name, place)))
        elif name in names or v is None or isinstance(v, bool) or type(v) is int and v == 1:
            constants.append((name, v))
        else:
            arguments.append((name, aot.LaunchArgument(kind_of(v), value=v)))
    return aot.KernelLaunch(
        kernel.fn.__name__, grid, tuple(arguments), tuple(constants), tuple({"num_warps": 4, "num_stages": 3, **options}.items())
    )


_prepared: dict[tuple, Any] = {}


def prepare_launch(on: Any, chip: int, kernel: Any, launched: aot.KernelLaunch) -> Any:
    from .launch import PreparedLaunches

    key = (id(on), chip, kernel, launched)
    found = _prepared.get(key)
    if found is None:
        binary = compiled(kernel, launched, chip)
        if binary.facts["shared"] > on.most_shared:
            raise BackendError(
                f"{launched.kernel} needs {binary.facts['shared']:,} bytes of shared memory, and this chip has "
                f"{on.most_shared:,}",
                "call it with smaller blocks, or fewer num_stages",
            )
        found = _prepared[key] = PreparedLaunches(on, [binary])
    return found


_binaries: dict[tuple, aot.Binary] = {}


def compiled(kernel: Any, launched: aot.KernelLaunch, chip: int) -> aot.Binary:
    """The binary of a call's types and constants; the grid and the numbers are no part of it."""
    key = (kernel, chip, aot.signature(launched), launched.constants, launched.options)
    if key not in _binaries:
        _binaries[key] = aot.compiled({launched.kernel: kernel}, launched, chip)
    made = _binaries[key]
    return aot.Binary(launched, made.cubin, made.ptx, made.facts)

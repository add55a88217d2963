"""Compiled graphs for later processes: all that a call needs, under a key of all that decided it.

In: a captured graph and what was compiled from it. Out: a file beside the shared objects; in another process the same
callable, without the passes. The key holds the graph with its user lines, the facts known about its symbols, which
inputs need gradients, the settings, the sources of this package, compiler and instruction set. Values of tensors are
never written, and nothing that is read is run. What has no plain form is not stored, and told on the channel "cache".
"""

from __future__ import annotations

import hashlib
import marshal
import operator
import os
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from ...capture.shapes import expr as E
from ...capture.graph import graph as captured
from ...capture.frontend.trace_context import UserStack
from ...capture.graph.autograd_function import BackwardRule
from ...capture.graph.graph import Graph, Node
from ...capture.shapes.relations import ShapeGuard, Relation
from ...capture.shapes.symbolic_shapes import FloatComparison, ShapeEnv, SymFloat, SymInt
from ...eager import dtypes
from ...eager.device import device
from ...eager.op.op import OPS, Op
from ...eager.sizes import Size
from ...eager.tensor import Tensor
from ...runtime import artifact_store, counters, log, native, compile_log, source_hash, toolchain
from ...runtime.config import config
from ...runtime.errors import FlambeauError, InternalError
from ...runtime.locks import cached_property
from ..graph import schemas
from .runtime_wrapper import OutputAssembler, Backward, BackwardSource, CompiledGraph, Executable, CompiledBackward
from ..cpp.launch import CppExecutable, bind
from ..graph.schemas import CachedFunctional

FORMAT = 1
SUFFIX = ".graph"
SETTINGS = ("optimize", "keep_half_rounding", "kernel_times", "threads")
PLAIN = (type(None), bool, int, float, complex, str, bytes)
CLASSES = {
    kind.__name__: kind
    for kind in (
        schemas.ViewStep,
        schemas.Fresh,
        schemas.IsInput,
        schemas.ViewOfInput,
        schemas.ViewOfOutput,
        schemas.Mutation,
        schemas.OutputSlot,
        schemas.Outline,
        schemas.Crossing,
        schemas.Launch,
        schemas.TensorSpec,
        schemas.ScalarSpec,
        schemas.EagerCall,
        Relation,
    )
}
COMPARISONS = {f.__name__: f for f in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)}


class NotStored(FlambeauError):
    """Something in a compiled graph has no plain form."""


# -- objects as tuples of plain values: the first item of a tagged one is its kind behind a zero byte --------------------


def encode(x: Any) -> Any:
    kind = type(x)
    if kind in PLAIN:
        return x
    if kind is tuple or kind is list:
        return kind(map(encode, x))
    if kind is dict:
        return {encode(k): encode(v) for k, v in x.items()}
    if kind.__name__ in CLASSES and kind is CLASSES[kind.__name__]:
        return tagged(kind.__name__, *(encode(getattr(x, name)) for name in kind.__dataclass_fields__))
    writer = WRITERS.get(kind)
    if writer is None:
        raise NotStored(f"{kind.__name__} {x!r:.60}")
    return writer(x)


def tagged(kind: str, *items: Any) -> tuple:
    return ("\0" + kind, *items)


def encode_op(op: Op) -> tuple:
    """Records of this package are known by name; those of programs may mean something else tomorrow."""
    functions = (op.fn, op.meta_rule, op.draws, op.call_rule, *op.kernels.values())
    package = __name__.partition(".")[0]
    if OPS.get(op.name, op) is not op or any(
        getattr(f, "__module__", package).partition(".")[0] != package for f in functions if f is not None
    ):
        raise NotStored(f"the record {op.name}, which is not of this package")
    return tagged("op", op.name)


def encode_expr(e: E.Expr) -> tuple:
    return tuple((tuple((_atom(atom), power) for atom, power in monomial), factor) for monomial, factor in e.terms)


def _atom(atom: E.Atom) -> tuple:
    return (atom.op, *(atom.args if atom.op == "var" else map(encode_expr, atom.args)))


def encode_float_tree(t: tuple) -> tuple:
    """Of a symbolic float."""
    if t[0] in ("var", "const"):
        return t
    return ("int", encode_expr(E.lift(t[1]))) if t[0] == "int" else (t[0], *map(encode_float_tree, t[1:]))


WRITERS: dict[type, Callable] = {
    UserStack: lambda x: tagged("stack", x.module, encode(x.regions), encode(tuple(x))),
    Size: lambda x: tagged("size", *map(encode, x)),
    frozenset: lambda x: tagged("set", *sorted(map(encode, x))),
    slice: lambda x: tagged("slice", encode(x.start), encode(x.stop), encode(x.step)),
    dtypes.dtype: lambda x: tagged("dtype", x.name),
    device: lambda x: tagged("device", x.type, x.index),
    Op: encode_op,
    E.Expr: lambda x: tagged("expr", encode_expr(x)),
    SymInt: lambda x: tagged("int", encode_expr(E.lift(x.expr))),
    SymFloat: lambda x: tagged("float", encode_float_tree(x.tree)),
    FloatComparison: lambda x: tagged(
        "compare", x.compute.__name__, encode_float_tree(x.left), encode_float_tree(x.right), x.answer
    ),
}


class Decoder:
    """From plain values back to objects, over the symbols of `env`."""

    def __init__(self, env: ShapeEnv | None):
        self.env = env

    @property
    def symbols(self) -> ShapeEnv:
        if self.env is None:
            raise InternalError("a symbolic number was stored with a graph that has no symbols")
        return self.env

    def __call__(self, x: Any) -> Any:
        kind = type(x)
        if kind is dict:
            return {self(k): self(v) for k, v in x.items()}
        if kind is list:
            return list(map(self, x))
        if kind is not tuple:
            return x
        if x and type(x[0]) is str and x[0][:1] == "\0":
            return self.tagged(x[0][1:], x[1:])
        return tuple(map(self, x))

    def tagged(self, kind: str, items: tuple) -> Any:
        made = CLASSES.get(kind)
        return made(*map(self, items)) if made is not None else getattr(self, "make_" + kind)(*items)

    def make_stack(self, module: Any, regions: Any, places: tuple) -> UserStack:
        stack = UserStack(map(tuple, places))
        stack.module, stack.regions = module, tuple(regions)
        return stack

    def make_size(self, *items: Any) -> Size:
        return Size(map(self, items))

    def make_set(self, *items: Any) -> frozenset:
        return frozenset(map(self, items))

    def make_slice(self, *items: Any) -> slice:
        return slice(*map(self, items))

    def make_dtype(self, name: str) -> dtypes.dtype:
        return getattr(dtypes, name)

    def make_device(self, kind: str, index: int | None) -> device:
        return device(kind, index)

    def make_op(self, name: str) -> Op:
        return captured.find(name)

    def make_expr(self, terms: tuple) -> E.Expr:
        total: Any = 0
        for monomial, factor in terms:
            for atom, power in monomial:
                factor = factor * self.atom(*atom) ** power
            total = total + factor
        return E.lift(total)

    def atom(self, op: str, *args: Any) -> E.Expr:
        if op == "var":
            return E.var(*args)
        return ATOMS[op](*map(self.make_expr, args))

    def make_int(self, terms: tuple) -> SymInt | int:
        return self.symbols.wrap(self.make_expr(terms))

    def make_float(self, items: tuple) -> SymFloat:
        return SymFloat(self.symbols, self.tree(items))

    def tree(self, t: tuple) -> tuple:
        if t[0] in ("var", "const"):
            return t
        return ("int", self.make_expr(t[1])) if t[0] == "int" else (t[0], *map(self.tree, t[1:]))

    def make_compare(self, compute: str, left: tuple, right: tuple, answer: bool) -> FloatComparison:
        return FloatComparison(COMPARISONS[compute], self.tree(left), self.tree(right), answer)


ATOMS = {"floordiv": E.floordiv, "mod": E.mod, "max": E.maximum, "min": E.minimum}


# -- the key -----------------------------------------------------------------------------------------------------------


def cache_key_text(graph: Graph, inputs: Sequence, options: dict) -> str:
    """Everything that the passes read, besides this package."""
    needs = [x.requires_grad if isinstance(x, Tensor) else None for x in inputs]
    given = (
        FORMAT,
        toolchain.identity(),
        toolchain.isa(),
        native.isa(),
        os.cpu_count(),
        dtypes.get_default_dtype().name,
        [getattr(config, name) for name in SETTINGS],
        sorted(options.items()),
    )
    known = None if graph.env is None else encode_shape_env(graph.env)
    return repr((given, needs, known, encode_graph(graph)))


def encode_shape_env(env: ShapeEnv) -> tuple:
    """Symbols, the values they had, and what is known of them."""
    return (
        [(s.name, s.hint, s.kind) for s in env.symbols.values()],
        [(op, encode_expr(e)) for op, e in env._facts],
        sorted(env._ranges.items()),
        [(name, encode_expr(e)) for name, e in sorted(env._replaced.items())],
        list(env.specialised_floats.items()),
        list(map(encode, env.float_guards)),
    )


def encode_graph(graph: Graph) -> list:
    """Every node, with the user's line, and the geometry of every value; tensors of one memory have one number."""
    memory: dict[int, int] = {}
    rows = [graph.name, graph.draws]
    for node in graph.nodes:
        value = graph.constants[node.target] if node.op == "get_attr" else node.value
        line = (os.path.basename(node.stack[-1][0]), *node.stack[-1][1:]) if node.stack else None
        rows.append(
            (
                node.op,
                node.name,
                _target(node),
                _arguments(node.args),
                _value(value, memory),
                node.grad,
                node.draw,
                node.tag,
                node.source,
                line,
                getattr(node.stack, "regions", ()),
            )
        )
    return rows


def _target(node: Node) -> Any:
    if isinstance(node.target, str):
        return node.target
    return "getitem" if node.is_getitem else encode(node.target)


def _arguments(args: Any) -> Any:
    return captured.map_args(args, _argument)


def _argument(x: Any) -> Any:
    if isinstance(x, Node):
        return ("node", x.name)
    return _rule(x) if isinstance(x, BackwardRule) else encode(x)


def _rule(rule: BackwardRule) -> tuple:
    """A traced backward: its graph like any other, its constants by value, since passes may compute with them."""
    values = hashlib.sha256()
    for constant in rule.graph.constants.values():
        if isinstance(constant, Tensor) and not constant._fl_fake:
            values.update(constant._fl_array.tobytes())
    return ("rule", rule.name, rule.wanted, rule.once, encode_graph(rule.graph), values.hexdigest())


def _value(x: Any, memory: dict) -> Any:
    if isinstance(x, (tuple, list)):
        return [_value(item, memory) for item in x]
    if not isinstance(x, Tensor):
        return encode(x)
    place = memory.setdefault(id(x.untyped_storage()), len(memory))
    offset = encode(x.storage_offset()) if x._fl_fake else None
    return (x.dtype.name, encode(tuple(x.shape)), encode(tuple(x.stride())), offset, x.requires_grad, str(x.device), place)


# -- the shelf ---------------------------------------------------------------------------------------------------------


def usable(options: dict) -> bool:
    """Whether stages may be skipped: nobody wants to see or check them, and there is a compiler whose code is stored."""
    looked_at = config.verify or config.dump or options.get("verify") or log.of_passes()
    return not looked_at and toolchain.compiler() is not None


class GraphCacheEntry:
    """The place of one captured graph in the store."""

    def __init__(self, graph: Graph, inputs: Sequence, options: dict, driver: Callable[[], Any]):
        """`driver()` gives the module of the passes, where an entry lacks what only they can make."""
        self.graph, self.env, self.driver = graph, graph.env, driver
        self.about = cache_key_text(graph, inputs, options)
        self.before = (0, 0, 0) if self.env is None else _learned(self.env)
        self.kept = False  # whether the graph is in the store

    @cached_property
    def key(self) -> str:
        return hashlib.sha256(f"{source_hash.fingerprint()} {self.about}".encode()).hexdigest()[:40]

    # -- writing
    def keep(self, compiled: CompiledGraph) -> None:
        """Store what was compiled, with what the passes learned about the symbols."""
        functional, training = compiled.functional, compiled.training
        try:
            trained = None
            if training is not None:
                _, run = training.made[training.all_reached]
                trained = (
                    encode(training.first),
                    training.requires,
                    training.reached,
                    list(training.steps),
                    encode_executable(run),
                )
            data = (
                *map(encode, (functional.outline, functional.mutated, functional.outputs, functional.structure)),
                encode_executable(compiled.forward),
                trained,
                self.learned(),
            )
        except NotStored as reason:
            log.channel("cache")(f"{self.graph.name} is not stored: {reason}")
            return
        write(self.key, data)
        self.kept = True

    def learned(self) -> tuple:
        if self.env is None:
            return (), (), ()
        guards, floats, compared = self.before
        return (
            tuple((encode(g.relation), g.reason) for g in self.env.guards[guards:]),
            tuple(self.env.specialised_floats.items())[floats:],
            tuple(map(encode, self.env.float_guards))[compared:],
        )

    # -- reading
    def load(self) -> CompiledGraph | None:
        """What an earlier process compiled from the same graph."""
        data = None if artifact_store.empty() else read(self.key)
        if data is None:
            return None
        outline, mutated, outputs, structure, forward, trained, learned = data
        if self.env is not None and any(learned) and self.env._sealed:
            return None
        run, back = decode_executable(forward), None if trained is None else decode_executable(trained[-1])
        if run is None or trained is not None and back is None:
            return None
        self.learn(learned)
        self.kept = True
        decode = Decoder(self.env)
        functional = CachedFunctional(decode(outline), decode(mutated), decode(outputs), decode(structure), self.remake)
        constants = [self.graph.constants[name] for name in schemas.constant_names(self.graph)]
        training = None
        if trained is not None and back is not None:
            first, requires, reached, steps = map(decode, trained[:-1])
            training = self.training(functional, first, requires, reached, steps, back)
        record = compile_log.current()
        record.cached = True
        record.note(f"the compiled graph was found in the cache: {self.key}")
        return CompiledGraph(functional, run, training, constants)

    def learn(self, learned: tuple) -> None:
        """Take over what the passes asked about symbols: the same guards and facts."""
        env, decode = self.env, Decoder(self.env)
        if env is None:
            return
        for relation, reason in learned[0]:
            relation = decode(relation)
            env.guards.append(ShapeGuard(relation, (), reason))
            env.learn(relation)
        for name, value in learned[1]:
            env.specialised_floats[name] = value
        for comparison in learned[2]:
            env.float_guards[decode(comparison)] = ()

    def remake(self) -> Graph:
        return self.driver().functionalize_graph(self.graph)[0].graph

    def training(
        self, functional: CachedFunctional, first: schemas.Crossing, requires: list, reached: list, steps: list, run: Executable
    ) -> CompiledBackward:
        needs = tuple(k in requires for k in range(len(functional.outline.names)))

        def by_passes(present: frozenset) -> Backward:
            return self.driver().compile_late_backward(functional, needs, first, present)

        return CompiledBackward(first, requires, reached, steps, {frozenset(reached): (first, run)}, self.late(by_passes))

    def late(self, by_passes: BackwardSource) -> BackwardSource:
        """Backwards for patterns of gradients that the first backward did not have: from the store, or made by the passes and
        stored, if the graph itself is."""

        def source(present: frozenset) -> Backward:
            if not self.kept:
                return by_passes(present)
            key = hashlib.sha256(f"{self.key} {sorted(present)}".encode()).hexdigest()[:40]
            data = read(key) if usable({}) else None
            run = None if data is None else decode_executable(data[1])
            if data is not None and run is not None:
                return Decoder(self.env)(data[0]), run
            made = by_passes(present)
            try:
                write(key, (encode(made[0]), encode_executable(made[1])))
            except NotStored as reason:
                log.channel("cache")(f"a backward is not stored: {reason}")
            return made

        return source


def _learned(env: ShapeEnv) -> tuple[int, int, int]:
    return len(env.guards), len(env.specialised_floats), len(env.float_guards)


def write(key: str, data: tuple) -> None:
    try:
        stored = artifact_store.put(key, SUFFIX, zlib.compress(marshal.dumps(data), 1))
    except OSError as error:
        log.channel("cache")(f"not stored: {error}")
    else:
        log.channel("cache")(f"stored {stored}")


def read(key: str) -> tuple | None:
    found = artifact_store.read(key, SUFFIX)
    return None if found is None else marshal.loads(zlib.decompress(found))


def encode_executable(run: Executable | None) -> Any:
    """Generated code, and what is put in around it, as plain values."""
    if run is None:
        return None
    if isinstance(run, OutputAssembler):
        return "around", encode_executable(run.run), run.places, encode(run.views)
    if not isinstance(run, CppExecutable):
        raise NotStored("it is run by the loop interpreter")
    if run.launch.constants:
        raise NotStored("its code reads a constant tensor that a pass made")
    return "native", encode(run.launch), run.source


def decode_executable(data: Any) -> Executable | None:
    """The executable, or None where its shared object is gone."""
    kind, *rest = data
    if kind == "around":
        inner, places, views = rest
        run = None if inner is None else decode_executable(inner)
        return OutputAssembler(run, places, Decoder(None)(views)) if run is not None or inner is None else None
    launch = Decoder(None)(rest[0])
    path = toolchain.find(launch.library)
    if path is None:
        return None
    counters.add("kernels", amount=len(launch.kernels))
    return bind(launch, path, rest[1])

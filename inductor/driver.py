"""The compiler as a column of named passes.

In: a captured graph, the inputs of the first call, options. Out: a callable with the graph's inputs and result.
Backends differ in the last step only: "aot_eager" interprets the final graphs, "loops" interprets the loop IR,
"inductor" runs generated C++. `options={"verify": True}` runs every stage on the real inputs and names the first that
differs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ..capture.graph.graph import Graph, Interpreter, Node, map_nodes
from ..eager import dtypes
from ..eager.op.op import Kind
from ..eager.state import recording
from ..eager.tensor import Tensor
from ..runtime import counters, locks, compile_log, source_hash, toolchain
from ..runtime.config import config
from ..runtime.errors import CheckFailed, FlambeauError, Unsupported
from .graph import dump, passes, verify
from .runtime import compare_stages as stages
from .graph.recompute import compute_again
from .loops.body import Buffer
from .schedule.combo_kernels import bundle
from .runtime.runtime_wrapper import Around, CompiledGraph, Executable, Training, replay
from .graph.decompose import decompose
from .graph.schemas import Crossing, ViewOfInput, ViewOfOutput, ViewStep, constant_names
from .graph.functionalize import FunctionalGraph, functionalize
from .graph.half_rounding import settle, settled_copy
from .graph.joint_graph import build_joint, is_tangent
from .cpp.wrapper import Loading
from .schedule.reinplace import write_inputs, write_temps
from .graph.embedding_linear import look_up_products
from .loops.lower import lower
from .schedule.memory_planning import overwritten, plan
from .graph.partition import partition, read_by_gradients, split
from .graph.accumulated_gradients import join_products, join_slices
from .graph.compiler_ops import restride
from .schedule.scheduler import schedule
from .graph.retrace import fresh_fake, retrace

# (graph, name, writes: (input, output that is its new value)..., donated: numbers of inputs that may be overwritten)
Target = Callable[[Graph, str, tuple, frozenset], Executable]


def compile_graph(
    graph: Graph, example_inputs: Sequence, options: dict | None = None, target: Target | None = None
) -> CompiledGraph:
    """Compile a captured graph; once more when a size is settled on the way, as symbols of it are left behind."""
    dump.captured(graph)
    checked(graph, "captured")
    while True:
        solved = graph.env.solved if graph.env else 0
        try:
            compiled = passes_of(graph, example_inputs, dict(options or {}), target or started)
        except BaseException:
            toolchain.abandon()
            raise
        if not graph.env or graph.env.solved == solved:
            return compiled


def passes_of(graph: Graph, example_inputs: Sequence, options: dict, target: Target) -> CompiledGraph:
    """All passes, once."""
    with compile_log.current().stage("functionalize"):
        functional, constants = functional_of(graph)
    inputs = [*example_inputs, *constants]
    dump.functional(functional)
    compiled = assemble(functional, inputs, constants, target)
    if options.get("verify"):
        compare_stages(graph, functional, list(example_inputs), constants, target)
    return compiled


def functional_of(graph: Graph) -> tuple[FunctionalGraph, list]:
    """The pure form of a captured graph, and its constants: the inputs at the end."""
    lifted, constants = lift_constants(graph)
    functional = functionalize(lifted)
    passes.tidy(functional.graph)
    if look_up_products(functional.graph):
        passes.tidy(functional.graph)
    checked(functional.graph, "pure")
    return functional, constants


def assemble(functional: FunctionalGraph, inputs: Sequence, constants: Sequence, target: Target) -> CompiledGraph:
    """From the functional graph on: with a backward where one is wanted."""
    functional = opened(functional, target)
    requires = wants_gradient(functional.graph, inputs)
    training = None
    forward = functional.graph
    if any(requires):
        pair, training = differentiate(functional, requires, target)
        forward = pair.forward if training is not None else forward
    if training is None:
        forward = settled_copy(forward, True)
    writes = tuple((m.input, m.output) for m in functional.mutated)
    run = final(forward, "forward", target, writes)  # shorter than the backward: the C++ compiler has it sooner
    if training is not None:
        training.backward(training.all_reached)
    with compile_log.current().stage("C++ compiler"):
        if target is started:
            source_hash.fingerprint()  # asked for when the graph is stored: now it costs no time
        run = settled(run)
        if training is not None:
            training.made = {present: (crossing, settled(back)) for present, (crossing, back) in training.made.items()}
    return CompiledGraph(functional, run, training, constants)


def opened(functional: FunctionalGraph, target: Target) -> FunctionalGraph:
    """What a target wants opened before gradients are taken, `target.opens(op, args)`, is: its parts are nodes of their own then.
    Masks of dropout that attention alone reads are tagged, as in a checkpointed region: the backward draws them again."""
    opens = getattr(target, "opens", None)
    if opens is None or not any(n.is_op and opens(n.target, n.args) for n in functional.graph.calls):
        return functional
    graph = retrace(functional.graph, opens)
    passes.tidy(graph)
    for node in graph.calls:
        if node.is_op and node.target.kind is Kind.RANDOM and len(node.users) == 1:
            (user,) = node.users
            if user.is_op and user.target.template == "attention":
                node.tag = user.tag or f"drawn for {user.name}"
    return replace(functional, graph=checked(graph, "pure"))


def differentiate(functional: FunctionalGraph, requires: tuple[bool, ...], target: Target):
    """joint -> partition; the backward for all gradients present is compiled at once, others when they are met."""
    with compile_log.current().stage("joint graph"):
        joint = joint_of(functional, requires)
    if not joint.tangents:  # with them, but no gradient: the results have a history that leads to None
        return None, None
    dump.joint(joint)
    with compile_log.current().stage("partition"):
        pair = partition(joint)
    dump.partitioned(pair)
    tangents = list(joint.tangents)
    everything = frozenset(tangents)
    crossing = pair.crossing()
    needed = [k for k, need in enumerate(requires) if need]
    led_to = [k for k in needed if joint.gradients[k] is not None] or needed
    steps = [joint.steps[k] for k in tangents]
    del joint  # `make` would keep it

    def make(present: frozenset):
        if present == everything:
            return crossing, final(pair.backward, "backward", target, (), donated(crossing, crossing.hidden))
        return late_backward(functional, requires, crossing, present, target)

    return pair, Training(crossing, led_to, tangents, make, steps)


def late_backward(functional, requires: tuple[bool, ...], first: Crossing, present: frozenset, target: Target):
    """The backward for some of the gradients only, from what the forward saved for all; it may add no guard."""
    env = functional.graph.env
    with env.sealed() if env is not None else recording(False):
        joint = joint_of(functional, requires, present, first.saved)
        part = split(joint, read_by_gradients(joint, first.saved))  # the others may change without being asked about
        crossing = part.crossing()
        name = "backward_" + "_".join(map(str, sorted(present)))
        return crossing, settled(final(part.backward, name, target, (), donated(crossing, first.hidden)))


def donated(crossing: Crossing, hidden: frozenset) -> frozenset:
    """Inputs of a backward whose memory it may use."""
    return frozenset(k for k, name in enumerate(crossing.saved) if name in hidden)


def joint_of(functional: FunctionalGraph, requires: tuple[bool, ...], present: frozenset | None = None, saved: Sequence = ()):
    joint = build_joint(functional, requires, present)
    passes.tidy(joint.graph, across_grad=True, within=joint.forward)
    if join_slices(joint):
        passes.tidy(joint.graph, across_grad=True, within=joint.forward)
    settle(joint.graph, True, joint.forward, saved)
    joint.refresh()
    compute_again(joint)
    checked(joint.graph, "pure")
    return joint


def final(graph: Graph, name: str, target: Target, writes: tuple = (), donated: frozenset = frozenset()) -> Executable:
    """decompose -> passes -> the target."""
    with compile_log.current().stage("decompose"):
        graph = decompose(graph, getattr(target, "takes", None))
        passes.tidy(graph, across_grad=True)
        if join_products(graph):
            passes.tidy(graph, across_grad=True)
        graph = settled_copy(graph, False)
        checked(graph, "decomposed")
    dump.final(graph, name)
    with compile_log.current().stage(name):
        returned, inputs = set(graph.output.args[0]), graph.inputs
        return target(graph, name, writes, frozenset(k for k in donated if inputs[k] not in returned))


def checked(graph: Graph, stage: str) -> Graph:
    return verify.check(graph, stage) if config.verify else graph


def lift_constants(graph: Graph) -> tuple[Graph, list]:
    """Constant tensors become inputs at the end, so that writing and aliasing them is like writing any input."""
    if not graph.constants:
        return graph, []
    new, table = graph.like(), {}
    for node in graph.inputs:
        table[node] = new.placeholder(node.name, node.value, node.source)
    lifted = [n for n in graph.nodes if n.op == "get_attr"]
    first = {n.target: n for n in reversed(lifted)}
    made = {
        name: new.placeholder(first[name].name, fresh_fake(graph.constants[name]), f"constant {name}")
        for name in constant_names(graph)
    }
    for node in graph.nodes:
        if node.op == "get_attr":
            table[node] = made[node.target]
        elif node.op == "call_function":
            table[node] = new.copy_node(node, table.__getitem__)
    new.set_output(map_nodes(graph.output.args[0], table.__getitem__))
    new.constants = {}
    return new, [graph.constants[name] for name in made]


def wants_gradient(graph: Graph, inputs: Sequence) -> tuple[bool, ...]:
    """Per input, whether it requires grad and something in the graph is recorded."""
    recorded = any(n.grad for n in graph.calls)
    return tuple(recorded and isinstance(x, Tensor) and x.requires_grad for x in inputs)


def compare_stages(graph: Graph, functional: FunctionalGraph, inputs: list, constants: list, target: Target) -> None:
    """Run every stage on the real inputs; InternalError names the first that differs, and in it the node."""
    everything, targets = [*inputs, *constants], targets_until(target)
    runs = [("captured", stages.captured_run(graph)), ("functional", stages.functional_run(functional, constants))]
    runs += [(name, assemble(functional, everything, constants, kind)) for name, kind in targets.items()]
    stages.compare_runs(runs, inputs, lambda name: locate(functional, everything, targets.get(name)))


def targets_until(target: Target) -> dict[str, Target]:
    """The targets by stage, up to this one."""
    found = {"decomposed": interpreted, "loops": loops}
    return found if target in (interpreted, loops) else found | {"compiled": target}


def locate(functional: FunctionalGraph, inputs: list, target: Target | None) -> str:
    """The first node of the final graphs whose value the target gets wrong."""
    if target is None:
        return "the functional graph itself differs:\n" + functional.graph.print_python()
    graph = decompose(functional.graph)
    found = verify.first_difference(graph, lambda g: settled(target(g, "forward")), inputs, 0, 0)
    return f"first differing {found}" if found else "each node of the forward alone is right: the backward, or fusion, differs"


# -- targets: graph -> executable ------------------------------------------------------------------------------------


def interpreted(graph: Graph, name: str, writes: tuple = (), donated: frozenset = frozenset()) -> Executable:
    """The Interpreter on the final graph. A forward that fails has written nothing yet: the call is given to eager."""

    def run(inputs, seed, base):
        try:
            with recording(False):
                return apart(Interpreter(graph).run(*inputs, seed=seed, base=base), inputs)
        except (IndexError, RuntimeError, ValueError) as error:
            if name != "forward" or isinstance(error, FlambeauError):
                raise
            raise CheckFailed(str(error)) from error

    return run


def apart(values: Sequence, inputs: Sequence) -> list:
    """Results that are inputs, or lie in memory of their own, as kernels make them: eager's views, and what rested on a copy
    that the passes took out, share it. None is a view of a temporary: made without recording, it would refuse writes."""
    given = {id(x) for x in inputs}
    taken = {id(x._ensure_storage()) for x in inputs if isinstance(x, Tensor)}
    found = []
    for x in values:
        if isinstance(x, Tensor) and id(x) not in given:
            shared = id(x._ensure_storage()) in taken
            x = restride(x, tuple(x.stride())) if shared else x if x._view is None else x._alias()
            taken.add(id(x._ensure_storage()))
        found.append(x)
    return found


def loops(graph: Graph, name: str, writes: tuple = (), donated: frozenset = frozenset()) -> Executable:
    """The loop interpreter on the scheduled loop IR."""
    build = lambda computed, writes: looped(loop_program(computed, name, writes, donated))
    return around_outputs(graph, build, writes)


def looped(program) -> Executable:
    """The loop interpreter on one program."""
    with locks.importing:
        from .loops.interpreter import run as run_program  # few programs are run so
    own = [program.inputs.index(b) if isinstance(b, Buffer) and b in program.inputs else None for b in program.outputs]

    def run(inputs, seed, base):
        with recording(False):
            values = run_program(program, inputs, {"seed": seed, "base": base})
        return [as_tensor(v) if k is None else inputs[k] for k, v in zip(own, values)]

    run.overwrites = overwritten(program)
    return run


def native(graph: Graph, name: str, writes: tuple = (), donated: frozenset = frozenset()) -> Executable:
    """Generated C++, compiled."""
    return settled(started(graph, name, writes, donated))


def started(graph: Graph, name: str, writes: tuple = (), donated: frozenset = frozenset()) -> Executable:
    """Generated C++ that is being compiled, to be `settled`; the loop interpreter where the machine has no (working)
    compiler or the code generator lacks a type."""
    if toolchain.compiler() is None:
        counters.add("fallbacks", "no C++ compiler")
        compile_log.current().note(f"{name} is run by the loop interpreter: no C++ compiler was found")
        tell_slow("missing", "no C++ compiler was found (CXX, g++, clang++, c++): install g++")
        return loops(graph, name, writes, donated)
    try:
        return around_outputs(graph, lambda computed, pairs: Loading(loop_program(computed, name, pairs, donated)), writes)
    except Unsupported as lack:
        counters.add("fallbacks", f"kernel: {lack.code}")
        compile_log.current().note(f"{name} is run by the loop interpreter: {lack}")
        return loops(graph, name, writes, donated)


def settled(run: Executable) -> Executable:
    """The executable, when the C++ compiler has made it or failed at it."""
    if isinstance(run, Around):
        run.run = settled(run.run)
    if not isinstance(run, Loading):
        return run
    try:
        compiled = run.finish()
    except toolchain.CompilerError as failure:
        if config.strict:
            raise
        counters.add("fallbacks", "C++ compiler failed")
        compile_log.current().note(f"{run.program.name} is run by the loop interpreter: {failure}")
        tell_slow("failed", str(failure))
        return looped(run.program)
    dump.native(run.program.name, compiled.source, run.program)
    return compiled


_told: set[str] = set()


def tell_slow(kind: str, reason: str) -> None:
    """Once a process and kind: results are right, but slower than eager's."""
    if kind not in _told:
        _told.add(kind)
        warnings.warn(
            f"compiled functions run in flambeau's loop interpreter, slower than eager: {reason}", RuntimeWarning, stacklevel=3
        )


def loop_program(graph: Graph, name: str, writes: tuple = (), donated: frozenset = frozenset()):
    """lower -> schedule -> writes in place -> memory plan, each printed."""
    record = compile_log.current()
    with record.stage("lower"):
        lowered = lower(graph, name)
    with record.stage("schedule"):
        program = plan(bundle(write_temps(write_inputs(schedule(lowered), writes))), donated)
    dump.loops(name, lowered, program)
    if config.verify:
        program.verify()
    return program


def as_tensor(value):
    """What the loop interpreter gives, as a Tensor."""
    return Tensor._from_array(value, dtypes.from_numpy(value.dtype)) if isinstance(value, np.ndarray) else value


def around_outputs(graph: Graph, build: Callable[[Graph, tuple], Executable], writes: tuple) -> Executable:
    """Targets compute each value once and never return an input: outputs that are inputs, views of gradients that come
    in, or the same value again, are put in around them. A graph that computes and refuses nothing needs no target."""
    outputs = graph.output.args[0]
    given, computed, views = divided(graph)
    places = [(False, given[n]) if n in given else (True, computed.index(n)) for n in outputs]
    if not computed and not any(n.refuses for n in graph.calls):
        return Around(None, places, views)
    if list(outputs) == computed:
        return build(graph, writes)
    once = [place for place in places if place[0] and places.count(place) == 1]  # what is saved as well needs memory of its own
    writes = tuple((k, places[out][1]) for k, out in writes if places[out] in once)
    graph, table = graph.copy()
    graph.set_output(tuple(table[n] for n in computed))
    if views:
        passes.remove_dead(graph)
    return Around(build(graph, writes), places, views)


def divided(graph: Graph) -> tuple[dict[Node | None, int], list[Node], list[ViewOfInput | ViewOfOutput]]:
    """Of a graph's outputs: (the number of each that is given: of an input, or behind the inputs of a view; those that a
    target computes; the views, of inputs or of what it computes)."""
    given = {n: k for k, n in enumerate(graph.inputs)}
    inputs, computed, views = dict(given), [], []
    for n in dict.fromkeys(n for n in graph.output.args[0] if isinstance(n, Node) and n not in given):
        base, steps = shown_gradient(n, graph)
        if not steps and n not in computed:
            computed.append(n)
        elif steps:
            if base not in inputs and base not in computed:
                computed.append(base)
            given[n] = len(inputs) + len(views)
            views.append(ViewOfInput(inputs[base], steps) if base in inputs else ViewOfOutput(computed.index(base), steps))
    return given, computed, views


def shown_gradient(node: Node, graph: Graph) -> tuple[Node, tuple[ViewStep, ...]]:
    """Of a result of a backward: what it shows, and by which steps. Eager's backward gives views of the gradients that come in,
    and repeats elements without copying them; kernels would write what they show. No steps: it is to be computed."""
    steps: list[ViewStep] = []
    base = node
    while base.is_op and base.target.kind is Kind.VIEW and all(map(known, base.args[1:])):
        steps.insert(0, ViewStep(base.target, tuple(base.args[1:]), False))
        base = base.args[0]
    if not steps or not (is_tangent(base) or repeats(node, base) and any(map(is_tangent, graph.inputs))):
        return node, ()
    shown = fresh_fake(base.value)
    for step in steps:
        if step.op.explicit_loop and not shown.is_contiguous():  # which elements it shows is a matter of memory
            return node, ()
        shown = replay(ViewOfInput(0, (step,)), shown, {})
    return base, tuple(steps)


def repeats(node: Node, base: Node) -> bool:
    counts = node.value.numel(), base.value.numel()
    return base.op == "call_function" and all(type(n) is int for n in counts) and counts[0] > counts[1]


def known(x) -> bool:
    return all(map(known, x)) if isinstance(x, tuple) else x is None or type(x) in (int, bool)


# -- backends: (graph, example inputs) -> callable -------------------------------------------------------------------


def eager_backend(graph: Graph, example_inputs: Sequence, options: dict | None = None) -> Callable:
    """The captured graph, run node by node by eager."""
    dump.captured(graph)
    checked(graph, "captured")
    return lambda *inputs: Interpreter(graph).run(*inputs)


def aot_eager_backend(graph: Graph, example_inputs: Sequence, options: dict | None = None) -> Callable:
    """Functional forward and backward graphs, run node by node by eager."""
    return compile_graph(graph, example_inputs, options, interpreted)


def loops_backend(graph: Graph, example_inputs: Sequence, options: dict | None = None) -> Callable:
    """The loop IR, run by its interpreter on numpy."""
    return compile_graph(graph, example_inputs, options, loops)


def inductor_backend(graph: Graph, example_inputs: Sequence, options: dict | None = None) -> Callable:
    """Generated C++; without a compiler on the machine, the loop interpreter."""
    return compile_graph(graph, example_inputs, options, native)


for _backend in (eager_backend, aot_eager_backend, loops_backend, inductor_backend):
    _backend.takes_options = True
eager_backend.takes_reads = True
BACKENDS = {"eager": eager_backend, "aot_eager": aot_eager_backend, "loops": loops_backend, "inductor": inductor_backend}

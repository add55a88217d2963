"""The compiler as a table of named passes.

In: a captured graph, the inputs of the first call, options, a target. Out: a callable with the graph's inputs and result.
The phases below are all there is, in their order; what follows them says which graphs go through which. Targets (`targets.py`)
differ in what becomes of a final graph. `options={"verify": True}` runs every stage on the real inputs and names the first that
differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..capture.graph.graph import Graph
from ..eager.state import recording
from ..eager.tensor import Tensor
from ..runtime import compile_log, source_hash, toolchain
from .runtime.output_aliases import assemble_outputs
from .graph import dump, passes, verify
from .graph.accumulated_gradients import join_products, join_slices
from .graph.decompose import decompose, open_for
from .graph.embedding_linear import look_up_products
from .graph.functionalize import FunctionalGraph, functionalize
from .graph.half_rounding import insert_joint_roundings, copy_with_roundings
from .graph.joint_graph import JointGraph, build_joint
from .graph.lift_constants import lift_constants
from .graph.partition import Partition, partition, read_by_gradients, split
from .graph.recompute import recompute_in_backward
from .graph.schemas import Crossing, constant_names
from .loops.ir import Program
from .loops.lower import lower
from .pass_manager import Facts, Pass, Phase, Target, run_phase, run_phases
from .runtime import compare_stages as stages
from .runtime.runtime_wrapper import Backward, BackwardSource, CompiledGraph, Executable, CompiledBackward
from .schedule.combo_kernels import combine_calls
from .schedule.memory_planning import plan
from .schedule.reinplace import write_inputs, write_temps
from .schedule.scheduler import schedule
from .targets import CPP, wait_for_compiler, stages_until

# -- the table: phases in their order. A row's function gets the IR and the facts, and gives the IR, or None: nothing was to do.

CAPTURED = Phase("", dump=dump.captured, check=lambda graph: verify.check(graph, "captured"))

FUNCTIONALIZE = Phase(  # captured graph -> pure graph
    "functionalize",
    (
        Pass("lift constants", lambda graph, facts: lift_constants(graph)),
        Pass("functionalize", lambda graph, facts: functionalize(graph), tidy=True),
        Pass("look up products", lambda pure, facts: look_up_products(pure.graph) and pure, tidy=True),
    ),
    tidy=lambda pure: passes.tidy(pure.graph),
    dump=dump.functional,
    check=lambda pure: verify.check(pure.graph, "pure"),
)
OPEN = Phase(  # what the target wants opened before gradients are taken
    "",
    (Pass("open for the target", lambda pure, facts: open_for(pure, facts.target.opens)),),
    check=lambda pure: verify.check(pure.graph, "pure"),
)
WITHOUT_GRADIENTS = Phase("", (Pass("round halves", lambda graph, facts: copy_with_roundings(graph, True)),))

JOINT = Phase(  # pure graph -> forward and backward as one graph
    "joint graph",
    (
        Pass("joint graph", lambda pure, facts: build_joint(pure, facts.requires, facts.present), tidy=True),
        Pass("join slices", lambda joint, facts: join_slices(joint), tidy=True),
        Pass("round halves", lambda joint, facts: insert_joint_roundings(joint, facts.saved)),
        Pass("compute again", lambda joint, facts: recompute_in_backward(joint)),
    ),
    tidy=lambda joint: passes.tidy(joint.graph, across_grad=True, within=joint.forward),
    dump=dump.joint,
    check=lambda joint: verify.check(joint.graph, "pure"),
)
PARTITION = Phase(  # joint graph -> two graphs; a late backward reads what the forward has kept for all gradients
    "partition",
    (
        Pass(
            "partition",
            lambda joint, facts: split(joint, read_by_gradients(joint, facts.saved)) if facts.late else partition(joint),
        ),
    ),
    dump=dump.partitioned,
)
FINAL = Phase(  # a forward or backward -> its final graph
    "decompose",
    (
        Pass("decompose", lambda graph, facts: decompose(graph, facts.target.takes), tidy=True),
        Pass("join products", lambda graph, facts: join_products(graph), tidy=True),
        Pass("round halves", lambda graph, facts: copy_with_roundings(graph, False)),
    ),
    tidy=lambda graph: passes.tidy(graph, across_grad=True),
    dump=dump.final,
    check=lambda graph: verify.check(graph, "decomposed"),
)
LOWER = Phase(  # final graph -> loop program
    "lower", (Pass("lower", lambda graph, facts: lower(graph, facts.name, facts.target.takes)),), dump=dump.lowered
)
SCHEDULE = Phase(  # loop program -> what is printed
    "schedule",
    (
        Pass("schedule", lambda program, facts: schedule(program)),
        Pass("write inputs", lambda program, facts: write_inputs(program, facts.writes)),
        Pass("write temps", lambda program, facts: write_temps(program)),
        Pass("bundle", lambda program, facts: combine_calls(program)),
        Pass("plan memory", lambda program, facts: plan(program, facts.donated)),
    ),
    dump=dump.scheduled,
    check=lambda program: program.verify(),
)


# -- which graphs go through it


def compile_graph(
    graph: Graph,
    example_inputs: Sequence,
    options: dict | None = None,
    target: Target = CPP,
    late: Callable[[BackwardSource], BackwardSource] | None = None,
) -> CompiledGraph:
    """Compile a captured graph. `late`: from the source of backwards for some of the gradients makes the one that is asked.

    A formula may settle a size on the way (a guard makes it equal to a number). Nodes that were made before still name its
    symbol, so all is compiled once more. To put the number in place of the symbol once would not do: every pass that runs the
    records' code asks such questions, down to the loops.
    """
    run_phase(CAPTURED, graph, Facts(target))
    while True:
        solved = graph.env.solved if graph.env else 0
        try:
            compiled = compile_once(graph, example_inputs, dict(options or {}), target, late)
        except BaseException:
            toolchain.abandon()
            raise
        if not graph.env or graph.env.solved == solved:
            return compiled


def compile_once(graph: Graph, example_inputs: Sequence, options: dict, target: Target, late: Callable | None) -> CompiledGraph:
    """All passes, once."""
    functional, constants = functionalize_graph(graph)
    compiled = assemble(functional, [*example_inputs, *constants], constants, target, late)
    if options.get("verify"):
        compare_stages(graph, functional, list(example_inputs), constants, target)
    return compiled


def functionalize_graph(graph: Graph) -> tuple[FunctionalGraph, list]:
    """The pure form of a captured graph, and its constants: the inputs at the end."""
    return run_phase(FUNCTIONALIZE, graph, Facts()), [graph.constants[name] for name in constant_names(graph)]


def assemble(
    functional: FunctionalGraph, inputs: Sequence, constants: Sequence, target: Target, late: Callable | None = None
) -> CompiledGraph:
    """From the functional graph on: with a backward where one is wanted, that for all gradients."""
    functional = run_phase(OPEN, functional, Facts(target))
    facts = Facts(target, requires=wants_gradient(functional.graph, inputs))
    joint, pair = build_joint_and_partition(functional, facts) if any(facts.requires) else (None, None)
    forward = run_phase(WITHOUT_GRADIENTS, functional.graph, facts) if pair is None else pair.forward
    writes = tuple((m.input, m.output) for m in functional.mutated)
    run = compile_final(forward, Facts(target, writes=writes))  # shorter than the backward: the C++ compiler has it sooner
    back = None if pair is None else compile_backward(pair, pair.hidden(), Facts(target, name="backward"))
    with compile_log.current().stage("C++ compiler"):
        if late is not None:
            source_hash.fingerprint()  # asked for when the graph is stored: now it costs no time
        run, back = wait_for_compiler(run), back and wait_for_compiler(back)
    training = None
    if joint is not None and pair is not None and back is not None:
        training = make_backward(functional, facts, joint, pair.crossing(), back, late)
    return CompiledGraph(functional, run, training, constants)


def wants_gradient(graph: Graph, inputs: Sequence) -> tuple[bool, ...]:
    """Per input, whether it requires grad and something in the graph is recorded."""
    recorded = any(n.grad for n in graph.calls)
    return tuple(recorded and isinstance(x, Tensor) and x.requires_grad for x in inputs)


def build_joint_and_partition(functional: FunctionalGraph, facts: Facts) -> tuple[JointGraph, Partition | None]:
    """The joint graph and its halves; None where no output has a history. With one, but no gradient: it leads to None."""
    joint = run_phase(JOINT, functional, facts)
    return joint, run_phase(PARTITION, joint, facts) if joint.tangents else None


def make_backward(
    functional: FunctionalGraph,
    facts: Facts,
    joint: JointGraph,
    crossing: Crossing,
    back: Executable,
    late: Callable[[BackwardSource], BackwardSource] | None,
) -> CompiledBackward:
    """What the calls need of the backward, which is there for all gradients; others are compiled when they are met."""
    needed = [k for k, need in enumerate(facts.requires) if need]
    led_to = [k for k in needed if joint.gradients[k] is not None] or needed
    reached = list(joint.tangents)
    steps = [joint.steps[k] for k in reached]
    requires, target = facts.requires, facts.target

    def by_passes(present: frozenset) -> Backward:
        return compile_late_backward(functional, requires, crossing, present, target)

    source = by_passes if late is None else late(by_passes)
    return CompiledBackward(crossing, led_to, reached, steps, {frozenset(reached): (crossing, back)}, source)


def compile_late_backward(
    functional: FunctionalGraph, requires: tuple[bool, ...], first: Crossing, present: frozenset, target: Target = CPP
) -> Backward:
    """The backward for some of the gradients only, from what the forward saved for all; it may add no guard."""
    env = functional.graph.env
    name = "backward_" + "_".join(map(str, sorted(present)))
    with env.sealed() if env is not None else recording(False):
        pair = run_phases((JOINT, PARTITION), functional, Facts(target, requires, present, first.saved))
        return pair.crossing(), wait_for_compiler(compile_backward(pair, first.hidden, Facts(target, name=name)))


def compile_backward(pair: Partition, hidden: frozenset, facts: Facts) -> Executable:
    """The executable of a backward, which may use the memory of what is saved and hidden from the caller."""
    donated = frozenset(k for k, name in enumerate(pair.saved) if name in hidden)
    return compile_final(pair.backward, replace(facts, donated=donated))


def compile_final(graph: Graph, facts: Facts) -> Executable:
    """The final graph of a forward or backward, and what the target makes of it."""
    graph = run_phase(FINAL, graph, facts)
    with compile_log.current().stage(facts.name):
        returned, inputs = set(graph.output.args[0]), graph.inputs
        donated = frozenset(k for k in facts.donated if inputs[k] not in returned)
        return emit(graph, replace(facts, donated=donated))


def emit(graph: Graph, facts: Facts) -> Executable:
    """What the target makes of a final graph, maybe still in the making (`wait_for_compiler` waits for it)."""
    target = facts.target
    if target.phases == ():
        return target.emit(graph, facts)

    def build(computed: Graph, writes: tuple) -> Executable:
        return target.emit(loop_program(computed, replace(facts, writes=writes)), facts)

    return assemble_outputs(graph, build, facts.writes)


def loop_program(graph: Graph, facts: Facts) -> Program:
    """The planned loop program of a final graph."""
    phases = facts.target.phases
    return run_phases((LOWER, SCHEDULE) if phases is None else phases, graph, facts)


def compile_alone(graph: Graph, target: Target = CPP) -> Executable:
    """A final graph alone, as a forward."""
    return wait_for_compiler(emit(graph, Facts(target)))


# -- all stages, compared


def compare_stages(graph: Graph, functional: FunctionalGraph, inputs: list, constants: list, target: Target) -> None:
    """Run every stage on the real inputs; InternalError names the first that differs, and in it the node."""
    everything, targets = [*inputs, *constants], stages_until(target)
    runs = [("captured", stages.captured_run(graph)), ("functional", stages.functional_run(functional, constants))]
    runs += [(name, assemble(functional, everything, constants, kind)) for name, kind in targets.items()]
    stages.compare_runs(runs, inputs, lambda name: locate(functional, everything, targets.get(name)))


def locate(functional: FunctionalGraph, inputs: list, target: Target | None) -> str:
    """The first node of the final graphs whose value the target gets wrong."""
    if target is None:
        return "the functional graph itself differs:\n" + functional.graph.print_python()
    graph = decompose(functional.graph)
    found = verify.first_difference(graph, lambda g: compile_alone(g, target), inputs, 0, 0)
    return f"first differing {found}" if found else "each node of the forward alone is right: the backward, or fusion, differs"

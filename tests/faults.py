"""Named faults of the product, switched on one at a time with `pytest --fault NAME`: proof that the tests bite.

In: a name. Out: live objects of flambeau that do something slightly wrong, silently, for the rest of the process. Each
fault tells what it breaks and names the small selection of tests that must fail with it; `test_seeded_faults.py` runs
that selection with and without the fault. Most faults are a few words of a function exchanged for others (`rewrite`),
so a fault that no longer applies says so instead of passing.
"""

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
import weakref
from collections.abc import Callable

FAULTS = {}


@dataclasses.dataclass(frozen=True)
class Fault:
    """`breaks`: what is wrong with it; `caught_by`: node ids of tests, some of which must fail, by an
    assertion or (`error`) with an error that only the fault brings about; `switch_on`: does it."""

    name: str
    kind: str
    breaks: str
    caught_by: tuple[str, ...]
    switch_on: Callable
    error: str = ""


def fault(kind, breaks, *caught_by, error=""):
    def enter(function):
        FAULTS[function.__name__] = Fault(function.__name__, kind, breaks, caught_by, function, error)
        return function

    return enter


def switch_on(name):
    if name not in FAULTS:
        raise SystemExit(f"--fault {name}: no such fault; faults are: {', '.join(FAULTS)}")
    FAULTS[name].switch_on()


# -- tools


def find(path):
    """The module, or the object at `module:attribute.attribute`, below flambeau."""
    module, _, names = path.partition(":")
    found = importlib.import_module(f"flambeau.{module}")
    for name in filter(None, names.split(".")):
        found = getattr(found, name)
    return found


def replace(path, make):
    """Put `make(present object)` at a path."""
    holder, _, name = path.rpartition("." if "." in path.partition(":")[2] else ":")
    owner = find(holder) if ":" in holder else importlib.import_module(f"flambeau.{holder}")
    setattr(owner, name, make(getattr(owner, name)))


def rewrite(path, old, new):
    """Exchange words in the text of a function that lives at `path`; every reference to it gets the new code."""
    function = inspect.unwrap(find(path) if isinstance(path, str) else path)
    text = textwrap.dedent(inspect.getsource(function))
    if text.count(old) != 1:
        raise SystemExit(f"the fault no longer applies: {path} has {text.count(old)} times {old!r}")
    tree = ast.parse(text.replace(old, new))
    tree.body[0].decorator_list = []
    scope = {}
    exec(compile(tree, f"<fault in {function.__qualname__}>", "exec"), function.__globals__, scope)
    (made,) = scope.values()
    if made.__code__.co_freevars != function.__code__.co_freevars:
        raise SystemExit(f"{path} has free variables: it cannot be rewritten")
    function.__code__ = made.__code__


def record(name):
    importlib.import_module("flambeau")
    return find("eager.op.op:find")(name)


def forget_plans(op):
    """Drop what the interpreters derived from a record, and its specialised call path."""
    op.cache.clear()


def other_formula(name, old, new):
    """A scalar formula with other words, for eager and for the compiler alike."""
    op = record(name)
    rewrite(op.fn, old, new)
    forget_plans(op)


def other_gradient(name, parameter, old, new):
    rewrite(record(name).grads[parameter].fn, old, new)


def without_guards(*kinds, where=lambda guard: True):
    """Guards of these kinds are collected and told, but never enter the tree."""
    replace(
        "capture.guards.guard_builder:add",
        lambda add: lambda tree, guard, known: None if guard.kind in kinds and where(guard) else add(tree, guard, known),
    )


def without_fact(*names):
    """The tensor guard looks at everything but this."""
    replace(
        "capture.guards.guard_builder:tensor_payload",
        lambda payload: lambda facts: {k: v for k, v in payload(facts).items() if k not in names},
    )


def without_verifier():
    """The loop IR is not checked, so that only values can tell."""
    replace("inductor.loops.ir:Program.verify", lambda verify: lambda self: None)


# -- formulas, types, shapes


@fault(
    "formula",
    "silu(x) = x / (1 + exp(x))",
    "tests/test_ops.py::test_values_are_numpy_s[silu]",
    "tests/eager/test_nn.py::test_activations",
)
def formula_of_silu():
    other_formula("silu", "s.exp(-x)", "s.exp(x)")


@fault(
    "formula",
    "mean as it is compiled divides by n + 1",
    "tests/test_ops.py::test_kernels_agree_with_what_is_lowered[mean]",
    "tests/inductor/test_lower.py::test_samples",
)
def finish_of_mean():
    op = record("mean")
    kept = op.finish
    object.__setattr__(op, "finish", lambda s, acc, n: kept(s, acc, n + 1))


@fault(
    "formula",
    "tril as it is compiled keeps one diagonal more than tril as it runs eagerly",
    "tests/test_ops.py::test_kernels_agree_with_what_is_lowered[tril]",
)
def loop_of_tril():
    op = record("tril")
    kept = op.loop
    object.__setattr__(op, "loop", lambda s, i, r, x, diagonal: kept(s, i, r, x, diagonal + 1))


@fault(
    "formula",
    "integers divided by / stay integers",
    "tests/eager/test_promote.py",
    "tests/eager/test_api.py::test_integer_arithmetic",
)
def promotion_of_division():
    op = record("truediv" if "truediv" in find("eager.op.op:OPS") else "div")
    object.__setattr__(op, "promote", "same")
    forget_plans(op)


@fault("formula", "a Python float next to an integer tensor gives an integer", "tests/eager/test_promote.py")
def promotion_of_numbers():
    rewrite("eager.op.promote:combine", "high is dtypes.bool or low.category >= 2", "high is dtypes.bool")


@fault(
    "formula",
    "strides that the meta rule of maps gives are row-major whatever the operands",
    "tests/eager/test_meta.py::test_eager_strides_are_the_rule_s",
    "tests/eager/test_meta.py::test_strides_of_maps_follow_the_first_operand_that_orders_dimensions",
)
def strides_of_maps():
    replace("eager.op.meta:map_strides", lambda rule: lambda sizes, operands: None)


@fault(
    "formula",
    "maximum starts from 0 instead of minus infinity, in generated code",
    "tests/inductor/test_cpp.py::test_float_reductions",
    "tests/inductor/test_schedule.py::test_a_split_maximum_with_nan_and_of_negative_numbers",
)
def identity_of_max():
    replace("inductor.cpp.reductions:lowest", lambda lowest: lambda dtype: 0)


@fault(
    "formula",
    "uniform numbers use the upper 23 bits of a word instead of 24",
    "tests/inductor/test_lower.py::test_random_numbers_are_those_of_eager",
)
def bits_of_uniform():
    rewrite(
        "eager.op.loop_rules:Draw.uniform",
        "self.bits(pair) >> 8, dtypes.float32) * 2.0**-24",
        "self.bits(pair) >> 9, dtypes.float32) * 2.0**-23",
    )


@fault(
    "formula", "huber loss is not continuous where its two pieces meet", "tests/eager/test_quick_losses.py::test_losses_of_pairs"
)
def formula_of_huber():
    other_formula("huber_loss", "0.5 * delta", "delta")


@fault(
    "formula",
    "reflected padding as it is compiled repeats the last element",
    "tests/test_ops.py::test_kernels_agree_with_what_is_lowered[pad_edges]",
)
def formula_of_reflection():
    rewrite("eager.ops.padding:_source", "s.index(n - 1 - mirrored)", "s.index(n - mirrored)")
    forget_plans(record("pad_edges"))


@fault(
    "formula",
    "the running variance of batch norm is biased",
    "tests/test_ops_compiled.py::test_compiled_equals_eager[update_running-update_running-static]",
)
def formula_of_running_variance():
    rewrite("eager.ops.batch_norm:_blended", "momentum * correction)", "momentum)")


@fault(
    "formula",
    "Adam as it is compiled corrects the second moment by the first one's rate",
    "tests/eager/test_optim.py::test_kernels_equal_the_decompositions_that_are_compiled",
)
def formula_of_adam():
    rewrite("eager.ops.optimizer:_corrections", "power(beta2, t)", "power(beta1, t)")


@fault(
    "formula",
    "the divergence of normal distributions has a wrong sign",
    "tests/eager/test_training_tools_and_distributions.py::test_categorical_and_divergences",
)
def formula_of_divergence():
    rewrite("eager.distributions.kl:_normal", "- 1 - ratio.log()", "- 1 + ratio.log()")


# -- gradients


@fault(
    "gradient",
    "d(a * b)/da = g * a",
    "tests/test_ops.py::test_gradients[mul]",
    "tests/eager/test_autograd.py::test_product_and_broadcast",
)
def gradient_of_mul():
    op = record("mul")
    op.grads["a"] = find("eager.op.gradient:Formula")(op, lambda g, a: op(g, a))
    forget_plans(op)


@fault("gradient", "the gradient of gelu lacks the density term", "tests/test_ops.py::test_gradients[gelu]")
def gradient_of_gelu():
    other_formula("gelu_backward", "below + x *", "below + 0.0 * x *")
    record("gelu_backward").kernels.clear()


@fault(
    "gradient",
    "the gradient of layer norm's weight forgets to subtract the mean",
    "tests/test_ops.py::test_gradients[layer_norm]",
)
def gradient_of_layer_norm():
    other_gradient("layer_norm", "weight", "norm_weight_gradient(g, x, mean,", "norm_weight_gradient(g, x, None,")


@fault(
    "gradient",
    "a tensor used twice keeps the last gradient instead of the sum",
    "tests/eager/test_autograd.py::test_accumulates_and_sums_uses",
)
def gradients_overwrite():
    engine = find("eager.autograd.engine")
    engine._call.engine(engine.fitted, engine.accumulate, lambda have, grad: grad, lambda have, grad: have)


@fault(
    "gradient",
    "saved tensors are not checked for later in-place writes",
    "tests/eager/test_autograd.py::test_saved_input_changed_in_place_raises",
)
def versions_unchecked():
    replace("eager.autograd_node:check_versions", lambda check: lambda node, args, versions: None)


@fault(
    "gradient",
    "the gradient of a write through as_strided reads what comes in as if it lay in order",
    "tests/semantics/test_storage.py::test_02_gradients_of_writes_into_views_in_any_layout",
)
def gradients_of_writes_in_another_layout():
    find("eager.op.op:_put_grads")(record("as_strided"), record("as_strided").put, lambda g: g)


@fault("gradient", "the gradient of nll_loss ignores the class weights", "tests/test_ops.py::test_gradients[nll_loss]")
def gradient_nll_weights():
    other_formula("nll_loss_backward", "_class_weights(target, weight,", "_class_weights(target, None,")


# -- gradients of the larger families: (name, record, parameter, what is wrong, words, other words, tests)

GRADIENTS = [
    (
        "convolution_bias",
        "convolution",
        "bias",
        "of a convolution's bias counts the first image only",
        "sum_dims(g, (0,",
        "sum_dims(slice_dim(g, 0, 0, 1, 1), (0,",
    ),
    (
        "batch_norm_moments",
        "batch_norm",
        "*",
        "of batch norm takes the moments for constants at second order",
        "if state.grad:",
        "if False:",
    ),
    (
        "group_norm_weight",
        "group_norm",
        "*",
        "of group norm's weight is that of its offset",
        '("weight", to_weight, weight)',
        '("weight", to_bias, weight)',
    ),
    (
        "avg_pool_count",
        "avg_pool",
        "x",
        "of average pooling counts the padding where the pooling does not",
        "count_include_pad, divisor)\n",
        "not count_include_pad, divisor)\n",
    ),
    (
        "lstm_state",
        "lstm_sequence",
        "*",
        "of LSTM weights uses the state after the step",
        "_before(out, h0, valid, reverse)",
        "out",
    ),
    (
        "gru_bias",
        "gru_sequence",
        "*",
        "of the GRU's inner bias is that of another gate",
        "slice_dim(products, 2, 2 * size, 1, size)",
        "slice_dim(products, 2, size, 1, size)",
    ),
    (
        "resample_corners",
        "resample",
        "x",
        "of resampling aligns corners where the resampling does not",
        "scale, align)\n",
        "scale, not align)\n",
    ),
    ("det_transposed", "det", "x", "of det is transposed", "adjugate(x)", "mT(adjugate(x))"),
    ("inv_sign", "inv", "x", "of inv has the other sign", "neg(matmul(matmul(back, g), back))", "matmul(matmul(back, g), back)"),
    ("solve_transposed", "solve", "a", "of solve solves with the matrix untransposed", "solve(mT(a), g)", "solve(a, g)"),
    ("slogdet_transposed", "slogdet", "x", "of slogdet is transposed", "_h(inv_ex(x)[0])", "inv_ex(x)[0]"),
    ("lgamma_slope", "lgamma", "x", "of lgamma is trigamma", "digamma(x)", "polygamma(x, 1)"),
    ("erfinv_scale", "erfinv", "x", "of erfinv is scaled by 2/sqrt(pi)", "math.sqrt(math.pi) / 2", "2 / math.sqrt(math.pi)"),
    ("igamma_power", "igamma", "x", "of igamma has one power of x too many", "sub(a, 1.0)", "a"),
    ("scatter_source", "scatter", "x", "of scatter passes what was overwritten", "scatter_value(g, dim, index, 0)", "g"),
    (
        "cumprod_shift",
        "cumprod",
        "x",
        "of cumprod includes the element itself",
        "linear_scan(shifted(x, dim, True),",
        "linear_scan(x,",
    ),
    (
        "prelu_weight",
        "prelu",
        "weight",
        "of prelu's weight counts positive inputs",
        "where(gt(x, 0), 0.0, mul(g, x))",
        "mul(g, x)",
    ),
    ("atan2_sign", "atan2", "b", "of atan2 has the other sign for its second argument", "neg(mul(mul(g, a),", "(mul(mul(g, a),"),
    ("matrix_exp_block", "matrix_exp", "x", "of matrix_exp does not transpose its argument", "back = mT(x)", "back = x"),
    ("sgn_projection", "sgn", "x", "of sgn of complex numbers does not project", "neg(mul(along, out))", "mul(along, out)"),
    ("angle_sign", "angle", "x", "of angle is conjugated", "neg(mul(imag(x), scale))", "mul(imag(x), scale)"),
    (
        "fft_direction",
        "fft_r2c",
        "x",
        "of the real Fourier transform goes the same way again",
        "dims, forward, scale))",
        "dims, not forward, scale))",
    ),
]
ELSEWHERE = {  # record -> the tests of its gradient, if not the universal one
    "sgn": "tests/eager/test_complex.py",
    "angle": "tests/eager/test_complex.py",
    "fft_r2c": "tests/test_ops.py::test_gradients_of_transforms",
}


def _enter_gradient(name, op, parameter, breaks, old, new):
    def switch():
        other_gradient(op, parameter, old, new)

    switch.__name__ = f"gradient_{name}"
    test = ELSEWHERE.get(op, f"tests/test_ops.py::test_gradients[{op}]")
    fault("gradient", f"the gradient {breaks}", test)(switch)


for _row in GRADIENTS:
    _enter_gradient(*_row)


# -- guards


@fault(
    "gradient",
    "values saved by compiled calls are not checked for later in-place writes",
    "tests/inductor/test_joint.py::test_inputs_saved_for_backward_are_version_checked",
)
def compiled_versions_unchecked():
    rewrite("eager.autograd.function:SavedList.get", "item is not None and item._version != version", "False")


@fault("guard", "hooks of leaves are not guarded", "tests/capture/test_backward.py::test_hooks_of_a_leaf_run")
def hooks_of_leaves_unguarded():
    without_fact("no_hooks")


@fault(
    "guard",
    "a gradient that was not there is not guarded",
    "tests/capture/test_backward.py::test_gradient_that_is_there_is_added_to",
)
def guards_without_gradient():
    without_fact("no_gradient")


@fault("capture", "two leaves are given one gradient", "tests/capture/test_backward.py::test_captured_whole")
def gradients_shared():
    rewrite("capture.variables.backward:unshared_gradient", "kept or id(grad._fl_storage) in seen", "kept")


@fault("guard", "sizes of tensors are not guarded", "tests/capture/test_dynamic.py")
def guards_without_sizes():
    replace(
        "capture.guards.guard_builder:tensor_payload",
        lambda payload: (
            lambda facts: (
                payload(facts) | {"sizes": (None,) * len(facts.fake._fl_sizes), "strides": (None,) * len(facts.fake._fl_sizes)}
            )
        ),
    )


@fault("guard", "strides of tensors are not guarded", "tests/capture/test_dynamic.py::test_strides_are_guarded")
def guards_without_strides():
    replace(
        "capture.guards.guard_builder:tensor_payload",
        lambda payload: lambda facts: payload(facts) | {"strides": (None,) * len(facts.fake._fl_sizes)},
    )


@fault("guard", "dtypes of tensors are not guarded", "tests/capture/test_dynamic.py::test_dtype_and_rank_are_guarded")
def guards_without_dtype():
    without_fact("dtype")


@fault(
    "guard",
    "requires_grad of tensors is not guarded",
    "tests/capture/test_dynamic.py::test_requires_grad_and_grad_mode_are_guarded",
)
def guards_without_requires_grad():
    without_fact("requires_grad", "leaf")


@fault("guard", "the grad mode is not guarded", "tests/capture/test_dynamic.py::test_requires_grad_and_grad_mode_are_guarded")
def guards_without_grad_mode():
    without_guards("grad_mode")


@fault(
    "guard",
    "values of constants (flags, numbers, strings) are not guarded",
    "tests/capture/test_dynamic.py",
    "tests/capture/test_modules.py::test_attribute_change_is_guarded",
)
def guards_without_constants():
    without_guards("equals")


@fault("guard", "Module.training is not guarded", "tests/capture/test_modules.py::test_training_flag_is_guarded")
def guards_without_training():
    without_guards("equals", where=lambda guard: getattr(guard.source, "attr", "") == "training")


@fault("guard", "keys of dicts are not guarded", "tests/capture/test_dynamic.py::test_dict_keys_are_guarded")
def guards_without_keys():
    without_guards("dict_keys")


@fault("guard", "lengths of lists and tuples are not guarded", "tests/capture/test_dynamic.py::test_containers_are_guarded")
def guards_without_lengths():
    without_guards("len")


@fault("guard", "what closures hold is not guarded", "tests/capture/test_dynamic.py::test_closure_contents_are_guarded")
def guards_without_cells():
    without_guards("equals", "is", "type_is", where=lambda guard: type(guard.source).__name__ == "Contents")


@fault(
    "guard",
    "which arguments share memory is not guarded",
    "tests/capture/test_dynamic.py::test_identity_of_inputs_is_guarded",
    "tests/capture/test_dynamic.py::test_shared_memory_of_inputs_is_guarded",
)
def guards_without_aliases():
    replace("capture.guards.guard_builder:add_aliases", lambda add: lambda tree, tx: None)
    without_guards("same_as", "not_same")


@fault(
    "guard",
    "identity of globals and functions is not guarded",
    "tests/capture/test_dynamic.py::test_replaced_helper_is_seen",
    "tests/capture/test_modules.py::test_replaced_class_method_is_guarded",
)
def guards_without_identity():
    without_guards("is", where=lambda guard: not getattr(guard.source, "base", None))


@fault("guard", "hooks added to a module later are not seen", "tests/capture/test_modules.py::test_hook_added_later_is_guarded")
def guards_without_hooks():
    without_guards("no_hooks", "len", where=lambda guard: guard.kind == "no_hooks" or type(guard.source).__name__ == "Pinned")


@fault(
    "guard",
    "answers about symbolic sizes leave no guard",
    "tests/capture/test_dynamic.py::test_branch_on_size_is_guarded",
    "tests/capture/test_dynamic.py::test_equal_sizes_are_guarded",
)
def shape_relations_unguarded():
    rewrite("capture.guards.guard_builder:add_shapes", "for guard in env.guards:", "for guard in ():")


@fault(
    "guard",
    "a length or a truth value that a program's own method says may be any symbolic number",
    "tests/capture/test_guard_soundness.py::test_what_special_methods_may_say",
)
def numbers_that_special_methods_say():
    rewrite("capture.variables.constant:special_method_result", "said.python_type() is KINDS[ask] and not (", "not (False and ")


# -- capture


@fault(
    "capture",
    "flambeau.compile returns its argument",
    "tests/capture/test_constructs.py",
    "tests/capture/test_dynamic.py",
    "tests/capture/test_side_effects.py",
    "tests/capture/test_breaks.py",
    "tests/capture/test_modules.py",
)
def compile_is_identity():
    import flambeau

    def compile(f=None, **settings):
        return f if f is not None else lambda given: given

    flambeau.compile = flambeau.compiler.compile = compile


@fault(
    "capture",
    "a size that becomes symbolic is computed with as the number of the first call",
    "tests/capture/test_dynamic.py::test_views_with_symbols",
)
def symbols_become_numbers():
    SymInt, Tensor = find("capture.shapes.symbolic_shapes:SymInt"), find("eager.tensor:Tensor")
    replace(
        "capture.graph.graph_tracer:GraphTracer.argument",
        lambda argument: (
            lambda self, value: (
                self.node_of(value) if isinstance(value, Tensor) else value.hint if isinstance(value, SymInt) else value
            )
        ),
    )


@fault(
    "capture",
    "a computed size may be 0 or 1 where rules of shape take it for more",
    "tests/capture/test_dynamic.py::test_sizes_that_are_computed_and_may_be_one",
)
def sizes_of_one_taken_for_more():
    rewrite("capture.shapes.symbolic_shapes:ShapeEnv.as_size", "low >= 2 or", "True or")


@fault("capture", "draws are numbered from 1", "tests/test_ops_compiled.py::test_draws_of_compiled_code_are_those_of_eager")
def draws_from_one():
    rewrite(
        "inductor.runtime.runtime_wrapper:CompiledGraph._run", "self.run(inputs, seed, base)", "self.run(inputs, seed, base + 1)"
    )


@fault("capture", "attributes are stored before the values of later stores are read", "tests/capture/test_side_effects.py")
def effects_not_kept():
    rewrite("capture.frontend.side_effects:SideEffects.prepare_attributes", "gen.keep(value)", "pass")


@fault("capture", "side effects are replayed last change first", "tests/capture/test_side_effects.py")
def effects_in_reverse():
    rewrite(
        "capture.frontend.side_effects:SideEffects.replay", "for kind, key in self.order", "for kind, key in self.order[::-1]"
    )


@fault("capture", "side effects are replayed twice", "tests/capture/test_side_effects.py")
def effects_twice():
    rewrite(
        "capture.frontend.side_effects:SideEffects.replay",
        'getattr(self, "replay_" + kind)(gen, key)',
        'getattr(self, "replay_" + kind)(gen, key), getattr(self, "replay_" + kind)(gen, key)',
    )


@fault("capture", "changes of lists and dicts from outside are not written back", "tests/capture/test_side_effects.py")
def effects_of_containers_lost():
    replace("capture.frontend.side_effects:SideEffects.replay_containers", lambda replay: lambda self, gen, container: None)


@fault("capture", "a resume function gets its first two locals exchanged", "tests/capture/test_breaks.py")
def resume_swaps_locals():
    def swapping(exit_sequence):
        def write(e, point, load_door):
            first, second, *rest = [*point.arguments, None, None]
            if first and second and first.kind == second.kind == "local":
                arguments = (second, first, *(argument for argument in rest if argument is not None))
                point = dataclasses.replace(point, arguments=arguments)
            return exit_sequence(e, point, load_door)

        return write

    replace("capture.frontend.convert_frame:exit_sequence", swapping)


@fault(
    "capture",
    "the grad mode that the program leaves behind is not set",
    "tests/capture/test_side_effects.py::test_grad_mode_outlives_the_call",
)
def grad_mode_not_replayed():
    replace("capture.frontend.convert_frame:Trace.write_grad_mode", lambda write: lambda self, gen: None)


# -- graphs


@fault(
    "graph",
    "new values of mutated inputs are computed and thrown away",
    "tests/inductor/test_functionalize.py::test_shows_what_eager_shows",
)
def write_back_skipped():
    replace("inductor.runtime.runtime_wrapper:CompiledGraph._commit", lambda commit: lambda self, inputs, inner: None)


@fault("graph", "a read after a write through a view sees the old values", "tests/inductor/test_functionalize.py")
def stale_views():
    rewrite("inductor.graph.functionalize:_Functionalizer.current", "if alias.version != alias.storage.version:", "if False:")


@fault("graph", "the joint graph differentiates what no_grad protects", "tests/inductor/test_joint.py::test_model")
def no_grad_ignored():
    rewrite("inductor.graph.retrace:Replay.call", "recording(state.grad and node.grad)", "recording(state.grad)")


@fault(
    "graph",
    "the backward numbers its draws anew: a recomputed dropout mask is another one",
    "tests/inductor/test_partition.py::test_tagged_regions_give_the_same_gradients",
)
def backward_draws_again():
    rewrite(
        "inductor.runtime.runtime_wrapper:CallContext.backward",
        "values = way.run(arguments, self.seed, self.base)",
        "values = way.run(arguments, self.seed, self.base + 1)",
    )


@fault(
    "graph",
    "equal random calls are one draw",
    "tests/inductor/test_passes.py::test_different_draws_do_not_merge",
    "tests/inductor/test_joint.py::test_two_equal_dropouts_are_two_draws",
)
def draws_merge():
    rewrite("inductor.graph.passes:merge_common", "freeze(node.args), node.draw, node.tag", "freeze(node.args), None, node.tag")


@fault("graph", "-0.0 and 0.0 are one number to the pass that merges equal calls", "tests/inductor/test_passes.py")
def zeros_merge():
    rewrite("inductor.graph.passes:freeze", "repr(value))", "repr(value + 0 if isinstance(value, float) else value))")


@fault(
    "graph",
    "a saved value that is also an input's new value lies in the input's memory",
    "tests/inductor/test_inplace.py::test_a_new_value_that_is_saved_has_memory_of_its_own",
    error="has been modified by an inplace operation",
)
def saved_values_overwritten():
    rewrite("inductor.runtime.output_aliases:assemble_outputs", "if place[0] and places.count(place) == 1", "if place[0]")


@fault(
    "graph",
    "a failed index check leaves the generator advanced",
    "tests/inductor/test_boundary.py::test_a_failed_check_changes_nothing",
    "tests/test_bad_input.py::test_index_out_of_range_in_compiled_code",
)
def generator_not_restored():
    rewrite("eager.random:Generator.give_back", "self._next = base", "pass")


# -- schedules and code


@fault(
    "schedule",
    "kernels fuse across a third one that must run between them",
    "tests/inductor/test_schedule.py::test_a_nest_never_swallows_what_must_run_between",
    "tests/inductor/test_schedule.py::test_random_programs_keep_their_meaning",
)
def read_after_write_ignored():
    replace("inductor.schedule.scheduler:Scheduler.between", lambda between: lambda self, a, b: False)
    without_verifier()


@fault(
    "schedule",
    "kernels run in the order of the last write first",
    "tests/inductor/test_schedule.py::test_typical_graphs",
    "tests/inductor/test_schedule.py::test_a_nest_never_swallows_what_must_run_between",
)
def order_reversed():
    replace("inductor.schedule.scheduler:Scheduler.ordered", lambda ordered: lambda self: ordered(self)[::-1])
    without_verifier()


@fault("schedule", "kernels fuse although one reads at other places than the other writes", "tests/inductor/test_schedule.py")
def other_rows_fuse():
    rewrite(
        "inductor.schedule.scheduler:Scheduler.forwarded",
        "legal = legal and covers(item, load.index, outer)",
        "return store.value",
    )


@fault("schedule", "an input is overwritten although a later kernel still reads its old value", "tests/inductor/test_inplace.py")
def write_after_read_ignored():
    rewrite("inductor.schedule.reinplace:may_overwrite", "k > at", "False")


@fault(
    "schedule",
    "an input is overwritten before the last check of the program",
    "tests/inductor/test_inplace.py::test_only_what_is_written_behind_the_last_check_lies_in_place",
)
def write_before_check():
    rewrite("inductor.schedule.reinplace:may_overwrite", "at <= uses.last_check", "False")


@fault(
    "capture",
    "members of a deque may move under its iterators",
    "tests/capture/test_language_programs.py::test_small_programs[interpreted-containers_change_under_iterators]",
)
def deque_moves():
    rewrite("capture.variables.iterators:DequeIterator.next", "self.owner.state != self.state", "False")


@fault(
    "capture",
    "of equal members of a set the last stays",
    "tests/capture/test_language_programs.py::test_small_programs[interpreted-of_equal_members_the_first_stays]",
)
def last_of_equal_members():
    rewrite("capture.variables.sets:SetVariable.fill", "self.members.setdefault(stand, member)", "self.members[stand] = member")


@fault("schedule", "temporaries that are alive together share memory", "tests/inductor/test_memory.py")
def arena_overlaps():
    replace(
        "inductor.schedule.memory_planning:Block.meets", lambda meets: lambda self, other: self.start < other.start < self.end
    )


@fault(
    "schedule",
    "what lies in a donated input may end behind it, at the next multiple of 64 bytes",
    "tests/inductor/test_memory.py::test_temps_end_where_a_donated_input_ends",
    "tests/inductor/test_memory.py::test_an_output_takes_over_no_smaller_input",
)
def donated_bytes_rounded():
    aligned = find("inductor.schedule.memory_planning:aligned")
    replace("inductor.schedule.memory_planning:bytes_of", lambda bytes_of: lambda buffer: aligned(bytes_of(buffer)))


@fault(
    "schedule",
    "a temporary takes over memory that other points still read",
    "tests/inductor/test_memory.py",
    "tests/inductor/test_inplace.py",
)
def in_place_always():
    replace("inductor.schedule.memory_planning:same_places", lambda same: lambda kernel, old, new: True)


@fault("code", "minimum is maximum in generated code", "tests/inductor/test_cpp.py::test_binary_primitives_of_floats")
def primitive_minimum():
    table = find("inductor.cpp.prims:CPP_PRIMS")
    table["minimum"] = table["maximum"]


@fault("code", "integer division rounds toward zero in generated code", "tests/inductor/test_cpp.py::test_integer_primitives")
def primitive_floordiv():
    table = find("inductor.cpp.prims:CPP_PRIMS")
    kept = table["floordiv"]

    def truncating(kind, a):
        if kind not in "il":
            return kept(kind, a)
        minus = (lambda x: f"sub_i(splat_i(0), {x})") if kind == "i" else (lambda x: f"-({x})")
        return f"v_where({a[0]} < splat_{kind}(0), {minus(kept(kind, [minus(a[0]), a[1]]))}, {kept(kind, a)})"

    table["floordiv"] = truncating


@fault(
    "code",
    "the last, partly filled vector of a loop is left out",
    "tests/inductor/test_cpp.py::test_unary_primitives_of_floats",
    "tests/inductor/test_cpp.py::test_float_reductions",
)
def masked_tail_dropped():
    def dropping(vector_loop):
        def head(self, name):
            kept, self.last = self.last, f"({self.last}) / FB_W * FB_W"
            try:
                return vector_loop(self, name)
            finally:
                self.last = kept

        return head

    replace("inductor.cpp.loop_codegen:StepWriter.vector_loop", dropping)


@fault("code", "matrix products are stored without their epilogue", "tests/inductor/test_cpp.py::test_products")
def epilogue_skipped():
    def bare(epilogue):
        def write(self):
            kept, step = self.kernel, self.kernel.epilogue
            body = step.stores[0].value.body
            product = body.acc(kept.acc, kept.compute)
            stores = tuple(dataclasses.replace(store, value=body.cast(product, store.buffer.dtype)) for store in step.stores)
            self.kernel = dataclasses.replace(kept, epilogue=dataclasses.replace(step, stores=stores))
            try:
                return epilogue(self)
            finally:
                self.kernel = kept

        return write

    replace("inductor.cpp.templates:GemmWriter.epilogue", bare)


@fault(
    "code",
    "indices of lookups are not checked in generated code",
    "tests/inductor/test_cpp.py::test_gathers_and_checks",
    "tests/test_bad_input.py::test_index_out_of_range_in_compiled_code",
)
def checks_dropped():
    replace(
        "inductor.cpp.codegen:prelude",
        lambda prelude: lambda: prelude().replace("__atomic_store_n(error, check,", "(void)(error, check,"),
    )


@fault(
    "code",
    "halves are not rounded between operations",
    "tests/inductor/test_cpp.py::test_halves_are_rounded_after_each_primitive",
)
def halves_not_rounded():
    for name in ("bfloat16", "float16"):
        object.__setattr__(find("inductor.cpp.prims:TYPES")[name], "after", "")


@fault(
    "code",
    "the second half of a split reduction is forgotten",
    "tests/inductor/test_schedule.py::test_large_reductions_are_split_in_two",
)
def split_half_lost():
    rewrite(
        "inductor.schedule.split_reduction:two_stages",
        "second.append(Item(lead, reduce=",
        "second.append(Item(tuple(replace(a, extent=max(1, a.extent // 2)) for a in lead), reduce=",
    )


# -- code generation: what drawn programs and the tests of the C++ backend must notice

DRAWN_LOOPS = "tests/inductor/test_graphfuzz_loops.py::test_drawn_programs_in_the_loop_interpreter[1]"


@fault(
    "code",
    "one of the registers that a reduction accumulates in is not added to the others",
    "tests/inductor/test_cpp.py::test_float_reductions",
)
def accumulator_lost():
    rewrite("inductor.cpp.reductions:Reducer.folded", "range(self.nest.unroll)", "range(max(1, self.nest.unroll - 1))")


@fault("code", "lanes behind the end of a row take part in its reduction", "tests/inductor/test_cpp.py::test_float_reductions")
def dead_lanes_reduced():
    rewrite("inductor.cpp.reductions:Reducer.take", "value if self.nest.columns or not self.nest.axes else", "value if True else")


@fault("code", "the second operand of products is read with its strides exchanged", "tests/inductor/test_cpp.py::test_products")
def operand_transposed():
    rewrite(
        "inductor.cpp.templates:GemmWriter.setup",
        "g.b_k = {cpp(kernel.b.strides[-2])}, g.b_n = {cpp(kernel.b.strides[-1])};",
        "g.b_k = {cpp(kernel.b.strides[-1])}, g.b_n = {cpp(kernel.b.strides[-2])};",
    )


@fault("code", "a scatter does not begin with the values that it writes into", "tests/inductor/test_cpp.py::test_scatter")
def scatter_start_lost():
    rewrite("inductor.cpp.codegen:Writer.call_written", "for earlier in written.extra:", "for earlier in ():")


@fault(
    "code",
    "loads behind a condition give 0 where it does not hold",
    "tests/inductor/test_cpp.py::test_masked_loads_never_touch_what_is_masked",
)
def masked_value_ignored():
    rewrite(
        "inductor.cpp.loop_codegen:StepWriter.load", '.id]}, {splat(load.other, target.kind)}"', '.id]}, {splat(0, target.kind)}"'
    )


def flipped(write_kernel):
    """Writes kernels as it does, but the first difference in each that has a tanh is a sum."""

    def write(program, kernel):
        written = write_kernel(program, kernel)
        if "v_tanh" not in written.code:
            return written
        return dataclasses.replace(written, code=re.sub(r"(\bsub_\d+ = .*?) - ", r"\1 + ", written.code, count=1))

    return write


@fault(
    "code",
    "one operator of one kernel is another: a difference behind a tanh is a sum",
    "tests/inductor/test_bisect.py::test_a_program_without_fault",
)
def operator_flipped():
    replace("inductor.cpp.codegen:write_kernel", flipped)


@fault(
    "code",
    "positions of extremes are those of the last of equals",
    "tests/inductor/test_cpp.py::test_nan_wins_and_the_first_of_equals",
)
def last_of_equals():
    replace(
        "inductor.cpp.codegen:prelude",
        lambda prelude: lambda: prelude().replace("((key == best) & (at < best_at))", "((key == best) & (at > best_at))"),
    )


@fault(
    "code",
    "floats become whole numbers by rounding instead of truncation in generated code",
    "tests/inductor/test_cpp.py::test_casts",
)
def casts_round():
    convert = find("inductor.cpp.prims:convert")

    def rounding(text, source, target, uniform=False):
        rounded = f"v_round({text})" if source.kind in "fd" and target.kind in "il" else text
        return convert(rounded, source, target, uniform)

    for path in ("inductor.cpp.loop_codegen", "inductor.cpp.prims", "inductor.cpp.reductions"):
        setattr(importlib.import_module(f"flambeau.{path}"), "convert", rounding)


@fault(
    "code",
    "random numbers of generated code take the seed for the ordinal of the draw",
    "tests/test_ops_compiled.py::test_draws_of_compiled_code_are_those_of_eager",
)
def ordinal_is_seed():
    rewrite("inductor.cpp.kernel_writer:KernelWriter.scalar", "(name == 'base')", "(name == 'seed')")


@fault(
    "schedule",
    "square operands are read and written with the strides of their last two dims exchanged",
    DRAWN_LOOPS,
    "tests/inductor/test_lower.py::test_samples",
)
def strides_exchanged():
    rewrite(
        "inductor.loops.body:Buffer.linear",
        "zip(index, self.strides, strict=True)",
        "zip(index, (*self.strides[:-2], *self.strides[:-3:-1]) if self.kind == 'input' and len(self.sizes) > 1 "
        "and self.sizes[-1] == self.sizes[-2] else self.strides, strict=True)",
    )
    without_verifier()


@fault("schedule", "sums are accumulated in halves", DRAWN_LOOPS)
def sums_in_halves():
    rewrite(
        "inductor.loops.lower:Lowering.accumulate",
        "reduce = Reduce((name,), combine, (prologue,), (dtype,))",
        "dtype = dtypes.float16 if dtype.is_floating_point else dtype\n"
        "        reduce = Reduce((name,), combine, (body.cast(prologue, dtype),), (dtype,))",
    )
    without_verifier()


@fault(
    "graph",
    "of several inputs that a call writes only the first gets its new value",
    DRAWN_LOOPS,
    "tests/inductor/test_functionalize.py::test_shows_what_eager_shows",
)
def second_commit_lost():
    rewrite(
        "inductor.runtime.runtime_wrapper:CompiledGraph._commit",
        "for k in written(inputs, inner, self.mutated):",
        "for k in list(written(inputs, inner, self.mutated))[:1]:",
    )


@fault(
    "graph",
    "results that are views of inputs or of other results are copies",
    DRAWN_LOOPS,
    "tests/inductor/test_functionalize.py::test_shows_what_eager_shows",
)
def alias_missed():
    rewrite(
        "inductor.runtime.runtime_wrapper:CompiledGraph._rebuild",
        "outputs.append(replay(spec, base, symbols))",
        "outputs.append(find('clone')(replay(spec, base, symbols)))",
    )


@fault(
    "graph",
    "an input that the call writes is saved for the backward as it is, not as a copy",
    "tests/inductor/test_functionalize.py::test_shows_what_eager_shows",
    error="has been modified by an inplace operation",
)
def written_inputs_not_copied():
    rewrite("inductor.graph.joint_graph:build_joint", "joint.written = frozenset(m.input for m in functional.mutated)", "pass")


@fault("guard", "answers about divisibility leave no guard", "tests/capture/test_dynamic.py::test_divisibility_is_guarded")
def divisibility_unguarded():
    rewrite(
        "capture.guards.guard_builder:add_shapes",
        "for guard in env.guards:",
        "for guard in [g for g in env.guards if '%' not in str(g.relation)]:",
    )


EXTREMES = "tests/eager/test_edges.py"


@fault(
    "gradient",
    "binary cross entropy has the gradient of its formula, 0 * inf at a certain answer",
    f"{EXTREMES}::test_certain_answers_have_a_gradient",
)
def certain_answers_without_gradient():
    find("eager.ops.losses:binary_cross_entropy").grads.clear()


@fault(
    "formula",
    "norms and deviations of halves are summed in halves",
    "tests/eager/test_quick_gradients.py::test_reductions[std-float16]",
)
def norms_of_halves_in_halves():
    replace("eager.ops.reduce:single", lambda single: lambda x: x)


@fault(
    "gradient",
    "the gradient of Huber's loss is that of its formula, inf - inf where the square overflows",
    f"{EXTREMES}::test_far_errors_have_the_slope_of_the_line",
)
def far_errors_without_slope():
    rewrite("eager.ops.losses:_bent", "height / bound, height)", "height / bound, height) + mul(square(sub(x, target)), 0.0)")


@fault(
    "formula",
    "operands of sums of scaled terms are multiplied before they meet in one type",
    f"{EXTREMES}::test_mixed_types_are_promoted_before_they_are_multiplied",
)
def scaled_before_promoted():
    rewrite(
        "eager.frontend.elementwise:_plus_scaled",
        "input, other, alpha if record.pure is a.add else -alpha\n",
        "input, _mul(other, alpha if record.pure is a.add else -alpha), 1\n",
    )


KEYS = "tests/semantics/test_indexing.py"


@fault("graph", "a list of indices is stacked into one", f"{KEYS}::test_sequences_of_more_than_numbers_are_tuples")
def list_of_indices_stacked():
    rewrite("eager.frontend.indexing:_parts", "if len(key) < _AS_TUPLE and any(", "if len(key) < 0 and any(")


@fault("capture", "in a trace, an integer tensor without dims picks a copy", "tests/capture/test_indexing.py")
def index_without_dims_copies():
    rewrite("eager.frontend.indexing:_number_of", 'read_of_fake(k, "item")', "k.long()")


@fault("code", "view_as looks beyond its memory", f"{KEYS}::test_view_as_of_another_number_of_elements")
def view_as_unchecked():
    rewrite("eager.frontend.shapes:view_as", "known_size(tuple(other.shape), self.numel())", "tuple(other.shape)")


@fault("formula", "indices without dims are broadcast", f"{KEYS}::test_indices_without_dims_are_single")
def index_without_dims_broadcast():
    rewrite(
        "eager.frontend.indexing:gather",
        "give(found if len(shape) == index.ndim else v.reshape(found, shape), out)",
        "give(found if len(shape) == index.ndim else v.expand(found, x.shape), out)",
    )


@fault("gradient", "a view of a leaf that is a view itself is written", f"{KEYS}::test_views_of_leaves_that_are_views")
def leaf_that_is_a_view_written():
    rewrite(
        "eager.dispatch:check_leaf",
        "if parent._grad_fn is None and parent._fl_requires_grad:",
        "if parent._fl_view is None and parent._grad_fn is None and parent._fl_requires_grad:",
    )


DRAWN_FUNCTIONS = "tests/inductor/test_callers.py::test_drawn_programs[functions-0]"


DRAWN_RESULTS = "tests/inductor/test_callers.py::test_drawn_programs[results-0]"


@fault(
    "graph",
    "backwards of custom functions go into the joint graph with their writes",
    DRAWN_FUNCTIONS,
    "tests/inductor/test_callers.py::test_backwards_that_write_into_views_of_clones",
)
def backward_writes_recorded():
    replace("inductor.graph.functionalize:pure_rule", lambda pure_rule: lambda rule: rule)


@fault(
    "graph",
    "results of the interpreted backend lie in the memory of arguments",
    DRAWN_RESULTS,
    "tests/inductor/test_callers.py::test_results_do_not_lie_in_the_memory_of_arguments",
)
def interpreted_results_shared():
    replace("inductor.targets:unalias_results", lambda apart: lambda values, inputs: list(values))


@fault(
    "graph",
    "a search for a gradient that no result leads to runs the compiled backward",
    "tests/inductor/test_callers.py::test_drawn_searches[0]",
    "tests/inductor/test_callers.py::test_a_search_runs_only_what_leads_to_what_it_asks_for[loops]",
)
def searches_run_all():
    find("inductor.runtime.runtime_wrapper:CallContext").leads = lambda self, grads, needs: True


@fault(
    "code",
    "what a block of columns holds for all rows is that of its first vector",
    "tests/inductor/test_column_slabs.py::test_one_kernel_gives_what_eager_gives[log_softmax-float32]",
    "tests/inductor/test_column_slabs.py::test_symbolic_sizes[normal]",
    "tests/inductor/test_graphfuzz.py::test_drawn_programs_in_generated_code[0]",
)
def held_values_of_first_vector():
    rewrite("inductor.cpp.loop_codegen:StepWriter.write_held", 'f"{name}[slot]"', 'f"{name}[0]"')


@fault(
    "code",
    "maps of columns read the sums of another outer index's columns where they lie in the same slab",
    "tests/inductor/test_column_slabs.py::test_what_reads_another_outer_index_has_a_kernel_of_its_own[other_outer_index]",
    "tests/inductor/test_column_slabs.py::test_what_reads_another_outer_index_has_a_kernel_of_its_own[other_column]",
    "tests/inductor/test_graphfuzz.py::test_drawn_programs_in_generated_code[0]",
)
def slabs_of_other_outer_indices():
    rewrite(
        "inductor.schedule.scheduler:Scheduler.forwarded",
        "load.index == store.index or self.linear",
        "len(load.index) == 3 or self.linear",
    )


@fault(
    "code",
    "the stages of a long map read what the first vector of a block kept",
    "tests/inductor/test_loop_fission.py::test_stages_give_the_bits_of_one_loop[of_two-float32]",
    "tests/inductor/test_loop_fission.py::test_rows_strides_and_symbolic_sizes",
    "tests/inductor/test_graphfuzz.py::test_drawn_programs_in_generated_code[0]",
)
def stages_read_first_vector():
    rewrite("inductor.cpp.loop_codegen:StepWriter.read_kept", " + {at}, Full", ", Full")


@fault(
    "graph",
    "equal results of which eager saves one become one, which the caller may write",
    "tests/inductor/test_partition.py::test_one_of_two_equal_results_may_be_written[loops-before]",
    "tests/inductor/test_partition.py::test_one_of_two_equal_results_may_be_written[loops-made by the backward]",
    error="modified by an inplace operation",
)
def equal_results_merged():
    replace("inductor.graph.passes:saved_apart", lambda saved_apart: lambda *given: False)


@fault(
    "graph",
    "complex numbers times one are left out of graphs",
    "tests/inductor/test_passes.py::test_times_one_is_no_identity_of_infinite_complex_numbers[loops]",
)
def complex_times_one_dropped():
    find("inductor.graph.passes")._SameComplex = find("inductor.graph.passes")._Same


@fault(
    "graph",
    "what backend eager reshapes by a copy stays a view of that",
    "tests/capture/test_custom_views.py::test_a_reshape_that_copies_is_no_view[eager]",
)
def copied_reshapes_are_views():
    replace("capture.graph.graph:is_no_view", lambda is_no_view: lambda value: False)


@fault(
    "formula",
    "elements by several indices take negative ones for places before the row",
    "tests/eager/test_quick_moves.py::test_elements_by_several_indices",
)
def negative_indices_unwrapped():
    rewrite("eager.ops.indexing:_numpy_index", "np.where(index < 0, index + size, index)", "np.maximum(index, 0)")


@fault(
    "formula",
    "tensors that stand for a number are not held to the type",
    "tests/eager/test_refused_values.py::test_tensors_that_stand_for_a_number_are_held_to_the_type_as_well[torch.float16-1000000.0-masked_fill]",
)
def values_not_held():
    for module in ("elementwise", "indexing"):
        find(f"eager.frontend.{module}").check_holds = lambda dtype, value: None


@fault(
    "graph",
    "what is drawn over a value has no history in graphs",
    "tests/inductor/test_callers.py::test_what_is_drawn_over_a_value_keeps_a_history_of_zeros",
)
def draws_without_history():
    rewrite(
        "inductor.graph.functionalize:_Functionalizer.write",
        "result if pure.grads else self.without_gradient(targets[0], result, node)",
        "result",
    )


@fault(
    "graph",
    "halves that decide are not rounded",
    "tests/inductor/test_callers.py::test_extremes_of_halves_find_themselves_again",
    "tests/inductor/test_callers.py::test_what_halves_decide_is_decided_as_in_eager",
)
def decisions_unrounded():
    replace("inductor.graph.half_rounding:choose_roundings", lambda choices: lambda *given: {})


@fault(
    "graph",
    "results of a custom function that share memory become copies that the caller sees",
    DRAWN_FUNCTIONS,
    "tests/inductor/test_callers.py::test_results_of_a_custom_function_that_share_memory",
)
def function_results_apart():
    replace("capture.variables.autograd_function:in_common", lambda in_common: lambda outs, k: False)


@fault(
    "graph",
    "hooks of a compiled call's results are called without a gradient",
    "tests/inductor/test_callers.py::test_hooks_of_results_that_no_gradient_reaches_are_not_called",
)
def hooks_without_gradient():
    find("eager.autograd.function:AttachedNode").joined = False


SMALL_LANGUAGE = "tests/capture/test_language_programs.py::test_small_programs"


@fault("capture", "next() of an exhausted generator loses what the generator returned", SMALL_LANGUAGE)
def stop_iteration_without_a_value():
    rewrite(
        "capture.variables.builtins:_next",
        "return tx.next_or_raise(iterator)",
        "value = iterator.next(tx)\n        return value if value is not None else tx.raise_error(StopIteration)",
    )


@fault("capture", "globals() is a dictionary like any other, apart from the names of the module", SMALL_LANGUAGE)
def globals_apart_from_names():
    def plain(known):
        from flambeau.capture.variables.builder import _key
        from flambeau.capture.variables.outer_containers import OutsideDict

        def namespace_of(tx, value, source):
            return tx.known(value) or tx.remember(value, OutsideDict(tx, value, source, _key))

        return namespace_of

    for module in ("builtins", "builder", "python_module"):
        replace(f"capture.variables.{module}:namespace_of", plain)


@fault("capture", "a cached function that is called with a changing number is traced instead", SMALL_LANGUAGE)
def cached_calls_traced_with_numbers():
    rewrite(
        "capture.variables.lru_cache:CachedFunctionVariable.call",
        "args, kwargs = self.with_numbers(tx, args, kwargs)",
        "return self.inline(tx, args, kwargs)",
    )


@fault(
    "capture",
    "a compilation that is cut off leaves the thread as it was at that moment",
    "tests/capture/test_interrupts.py::test_an_error_before_any_line_leaves_nothing",
)
def nothing_put_back():
    rewrite("capture.thread_local_state:restore_state", "for local in LOCALS:", "return\n    for local in LOCALS:")


@fault(
    "guard",
    "a list that is only appended to is guarded by its length",
    "tests/capture/test_growth.py::test_growth_is_no_guard",
    "tests/capture/test_growth.py::test_drawn_programs",
)
def appended_lists_guarded_by_length():
    rewrite(
        "capture.variables.outer_containers:OutsideList.grow",
        "self.back.extend(values)",
        "self.tx.guard(self.source, 'len', len(self.base)); self.back.extend(values)",
    )


@fault(
    "capture",
    "a read from the end of a list does not see what the trace has appended",
    "tests/capture/test_growth.py::test_a_write_is_seen_by_a_later_read",
    "tests/capture/test_growth.py::test_drawn_programs",
)
def pending_appends_unseen():
    rewrite(
        "capture.variables.outer_containers:OutsideList.place_from_end", "return self.back, -count", "return self.stores, -count"
    )


@fault(
    "capture",
    "the length of a dictionary does not count what the trace has stored",
    "tests/capture/test_growth.py::test_growth_is_no_guard",
)
def pending_stores_uncounted():
    rewrite("capture.variables.outer_containers:OutsideKeys.closed_length", "self.base_length(tx) + more", "self.base_length(tx)")


@fault(
    "guard",
    "whether a symbolic key is in a dictionary is not guarded",
    "tests/capture/test_growth.py::test_a_key_that_changes_is_looked_for",
)
def membership_unguarded():
    rewrite("capture.guards.guard_builder:add_shapes", "in tx.memberships.items()", "in ()")


@fault(
    "guard",
    "two objects of a class derived from a container are not kept apart when one is changed",
    "tests/capture/test_growth.py::test_counters_that_become_one_are_told_apart",
)
def derived_containers_not_apart():
    rewrite("capture.frontend.trace_context:TraceContext.guard_distinct", 'getattr(other, "content", None) or other', "other")


@fault(
    "capture",
    "a nested frame that was captured without a tensor operation is captured again for other values",
    "tests/capture/test_storms.py::test_a_frame_without_operations_is_not_compiled_for_every_value",
)
def barren_frames_forgotten():
    rewrite("capture.skipfiles:CaptureAttempts.refuses", "if barren >= MOST_BARREN and barren == len(door.entries):", "if False:")


@fault(
    "capture",
    "what is known of resume functions is kept by equality: it goes when equal code is collected",
    "tests/runtime/test_identity.py::test_what_is_known_of_equal_functions_lives_apart",
)
def equal_codes_taken_for_one():
    replace("capture.frontend.convert_frame:ORIGINS", lambda kept: weakref.WeakKeyDictionary())


@fault(
    "capture",
    "what the program itself makes larger is compiled for each size, until the limit",
    "tests/capture/test_growth.py::test_what_is_made_anew_is_bounded",
)
def growth_without_end():
    rewrite("capture.guards.growth:Watch.relies", "if not self.active or", "if True or")


@fault(
    "capture",
    "a window that is once too short is Python's for good",
    "tests/capture/test_growth.py::test_a_window_is_compiled_whole_when_the_list_is_long_enough",
    "tests/capture/test_growth.py::test_a_deque_that_fills_up_breaks_until_it_is_full",
)
def growth_that_never_ends():
    rewrite("capture.guards.growth:Watch.relies", 'None if until is None else (source, "predicate", until)', "None")


@fault(
    "capture",
    "an entry that went another way at a comparison hides which numbers change",
    "tests/capture/test_growth.py::test_numbers_that_fall_again_find_their_entries",
)
def nearest_entry_teaches_nothing():
    rewrite("capture.guards.recompiles:learn_dynamic", "* 500", "* 0")


@fault(
    "capture",
    "lists of other lengths that callers pass are taken for growth",
    "tests/capture/test_growth.py::test_what_callers_pass_is_no_growth",
)
def every_length_is_growth():
    rewrite("capture.guards.growth:Watch.relies", "enough and (source is None or self.is_written(source, name))", "enough")


@fault(
    "capture",
    "an argument that a custom function gives back unrecorded is the argument itself",
    "tests/capture/test_custom_views.py::test_an_argument_that_comes_back_unrecorded_has_no_history",
)
def argument_itself_comes_back():
    rewrite("eager.autograd.function:apart", "if not isinstance(t, Tensor):", "if True:")


@fault(
    "gradient",
    "a custom function's view keeps its history when its base is written",
    "tests/capture/test_custom_views.py::test_a_custom_view_ends_where_its_base_is_written",
)
def custom_view_outlives_its_base():
    rewrite("eager.autograd_node:refresh_views", "if each is not done:", "if False:")


@fault(
    "gradient",
    "a gradient flows past a custom function into an argument that comes back as a result",
    "tests/capture/test_custom_views.py::test_an_argument_that_comes_back_has_the_gradients_of_the_function_alone",
)
def gradient_past_a_custom_function():
    rewrite(
        "capture.variables.autograd_function:connect_results",
        "unalias_argument(tx, outs[k]).fake if outs[k].fake.requires_grad else outs[k].fake",
        "outs[k].fake",
    )


@fault(
    "capture",
    "sizes that change in the text of an error are looked for word by word",
    "tests/capture/test_dynamic.py::test_texts_of_errors_tell_the_sizes_of_each_call",
)
def sizes_in_words_not_seen():
    rewrite("capture.frontend.trace_context:TraceContext.exception", "[a-z]\\d+", "\\w+")


@fault(
    "capture",
    "code that breaks without a tensor operation is tried without end, and so is a program of such",
    "tests/capture/test_storms.py::test_code_that_breaks_in_vain_is_given_up",
    "tests/capture/test_storms.py::test_a_program_that_breaks_in_vain_is_given_up",
)
def tries_without_end():
    rewrite(
        "capture.skipfiles:CaptureAttempts.learn",
        "tries = self.in_vain[origin] = self.in_vain.get(origin, 0) + 1",
        "tries = self.total = 0",
    )


@fault(
    "capture",
    "the hook captures frames that show no tensor",
    "tests/capture/test_storms.py::test_a_nested_frame_without_tensors_is_not_captured_until_it_gets_one",
)
def every_frame_touches_tensors():
    rewrite("capture.skipfiles:touches_tensors", "look = TensorSearch()", "return True")


@fault(
    "capture",
    "a frame that is plain for want of a tensor stays plain when it gets one",
    "tests/capture/test_storms.py::test_a_nested_frame_without_tensors_is_not_captured_until_it_gets_one",
)
def plain_frames_not_watched():
    rewrite(
        "capture.skipfiles:leave_to_python",
        'door.watches = door.kind == "frame" and not shows_tensor(slots) and again <= MOST_BARREN',
        "door.watches = False",
    )


@fault(
    "capture",
    "an iterator from outside stays where it was when the trace took members from it",
    "tests/capture/test_storms.py::test_iterators_from_outside_are_moved_on",
)
def outside_iterators_stay():
    rewrite("capture.frontend.side_effects:SideEffects.replay_iterators", "gen.constant(iterator.steps)", "gen.constant(0)")


@fault(
    "capture",
    "how many members an iterator from outside has left is not guarded",
    "tests/capture/test_storms.py::test_what_an_iterator_gives_is_guarded",
)
def outside_iterators_unguarded():
    rewrite("capture.variables.iterators:OutsideIterator.begin", 'tx.guard(self.source, "len", len(rest))', "pass")


@fault(
    "capture",
    "a lock is not taken around the changes that are made under it",
    "tests/capture/test_storms.py::test_a_lock_is_taken_before_what_is_changed_under_it",
    error="release unlocked lock",
)
def locks_not_taken():
    rewrite("capture.frontend.side_effects:SideEffects.lock", 'self.order.append(("locks", (method, lock)))', "pass")


@fault(
    "guard",
    "whether a logger tells messages of a level is not guarded",
    "tests/capture/test_storms.py::test_a_loggers_level_is_guarded",
)
def levels_unguarded():
    rewrite("capture.variables.loggers:LoggerLevelGuard.__call__", "logger.isEnabledFor(self.level) == self.enabled", "True")


@fault(
    "capture",
    "a message or warning is told from the line where the side effects are made",
    "tests/capture/test_storms.py::test_loggers_tell_in_order_with_the_programs_lines",
    "tests/capture/test_storms.py::test_warnings_point_to_the_programs_lines",
)
def messages_from_elsewhere():
    rewrite(
        "capture.variables.messages:call_after_graph",
        "call = function if not frames else chain(function, frames)",
        "call = function",
    )


@fault(
    "capture",
    "a function with a cache is called before the changes that it would see are made",
    "tests/capture/test_storms.py::test_a_cached_function_is_called_early_only_where_it_sees_no_change",
)
def changes_out_of_reach():
    rewrite("capture.variables.side_effect_reach:Walk.finds", "if id(value) in self.changed:", "if False:")


# -- moving elements


@fault(
    "code",
    "every segment of a row reads the row's beginning",
    "tests/inductor/test_moves.py::test_moves_and_their_gradients[roll-40]",
)
def segments_from_the_first():
    rewrite("inductor.cpp.segments:step_within", "axis.var + begin", "axis.var + 0")


@fault(
    "schedule",
    "rows with a remainder in their indices are not cut into segments",
    "tests/inductor/test_cpp.py::test_head_splits_and_their_remainders[baseline-20-5-0]",
)
def remainders_uncut():
    rewrite("inductor.cpp.segments:quotient_breakpoints", "d * (MOST - 1)", "0")


@fault("schedule", "an axis is not taken apart", "tests/test_seeded_faults.py::test_no_lane_divides_in_moves")
def digits_together():
    rewrite("inductor.schedule.split_axes:divisors", "whole = ", "whole = False and ")


@fault("code", "every second element is the one beside it", "tests/inductor/test_moves.py::test_every_second_element[17-2]")
def strides_of_three():
    rewrite("inductor.cpp.loop_codegen:StepWriter.load", "gather_by<{place.stride}>", "gather_by<1>")


@fault(
    "schedule",
    "digits of an axis are taken from the wrong end",
    "tests/inductor/test_moves.py::test_moves_and_their_gradients[unfold-40]",
)
def digits_turned():
    rewrite("inductor.schedule.split_axes:split_into_digits", "position + part.var * step, above", "position + part.var, above")


@fault(
    "code",
    "rows of a resampling count their taps from the second on",
    "tests/inductor/test_moves.py::test_resampling_and_its_gradients[bilinear]",
)
def taps_shifted():
    rewrite(
        "eager.ops.linear_filter:call",
        "kernel_calls.NumberTable(tuple(index.tolist()))",
        "kernel_calls.NumberTable(tuple(index.tolist()[1:] + [0]))",
    )


@fault(
    "code",
    "a numpy function's second call writes nothing",
    "tests/inductor/test_moves.py::test_functions_of_numpy_write_into_planned_memory",
)
def planned_memory_unwritten():
    rewrite("inductor.cpp.launch:Externs.__call__", "out=next(rest))", "out=next(rest).copy())")


@fault("formula", "whole numbers are ordered as if they had no sign", "tests/eager/test_native_kernels.py::test_order_is_stable")
def sign_of_keys_lost():
    rewrite("runtime.sorting:_sort_wide", "_KEYS[y.dtype.kind]", "0")


@fault(
    "gradient",
    "the gradient of a grid's numbers has x and y exchanged",
    "tests/eager/test_native_kernels.py::test_grid_gradients_agree_with_their_operations",
)
def grid_axes_exchanged():
    rewrite("runtime.grid_sample:gradients", "return to_x, to_grid", "return to_x, to_grid[..., ::-1].copy()")


@fault(
    "formula",
    "fast gradcheck compares what the backward gives with itself",
    "tests/eager/test_native_kernels.py::test_fast_gradcheck",
)
def projection_not_measured():
    rewrite("eager.autograd.check:compare_projected", "np.isclose(analytic, numeric,", "np.isclose(analytic, analytic,")


@fault(
    "capture",
    "a set that the program wrote down is guarded as if it had come from outside",
    "tests/capture/test_container_subclasses.py::test_a_written_container_counts_equal_symbols_once",
    error="AttributeError",
)
def written_sets_guarded():
    rewrite("capture.variables.outer_containers:OutsideKeys.in_base", "if self.source is None or key.source", "if key.source")


@fault(
    "capture",
    "the keys of a written dictionary are asked for behind the guards",
    "tests/capture/test_container_subclasses.py::test_a_written_dictionary_with_a_name_for_a_key",
    error="InternalError",
)
def written_keys_asked():
    rewrite("capture.frontend.convert_frame:output_spec", 'getattr(variable, "known", made) is None', "False")


@fault(
    "capture",
    "the text of a library's error has the name of a symbol",
    "tests/capture/test_exceptions.py::test_texts_that_tell_a_size_are_those_of_each_call",
)
def texts_with_symbols():
    rewrite("capture.frontend.trace_context:TraceContext.exception", "if self.env.symbols and", "if False and")


@fault(
    "formula",
    "integers beyond 64 bits wrap around beside tensors",
    "tests/eager/test_refused_values.py::test_integers_beyond_64_bits",
    "tests/eager/test_refused_values.py::test_what_the_type_does_not_hold",
)
def wide_integers_wrap():
    rewrite("eager.dtypes:of_number", "not -(2**63) <= number < 2**64", "False")
    rewrite("eager.frontend.arguments:_in_range", "if not fits", "if False")


DRAWN_REFUSALS = "tests/inductor/test_graphfuzz_refused.py::test_drawn_refusals[1]"
REFUSED = "tests/inductor/test_refusals.py::test_refused_in_the_loop_interpreter"


@fault(
    "code",
    "an index that the program computes is taken to lie within its dim",
    "tests/inductor/test_refusals.py::test_bodies_prove_indices",
    DRAWN_REFUSALS,
)
def computed_indices_trusted():
    replace("inductor.loops.body:Body.is_within", lambda is_within: lambda self, e, size: True)


@fault(
    "graph",
    "what may raise is removed where nobody reads its result",
    f"{REFUSED}[gather-not at all-known sizes]",
    DRAWN_REFUSALS,
)
def unread_refusals_removed():
    replace("capture.graph.graph:Node.refuses", lambda refuses: property(lambda self: refuses.fget(self) and bool(self.users)))


@fault(
    "code",
    "an index counts as looked at by a kernel that reads one place with it",
    f"{REFUSED}[gather of shared memory-whole-known sizes]",
)
def shared_places_count_as_looked_at():
    replace(
        "inductor.loops.lower:addressing",
        lambda addressing: lambda body, step, bounds: [v for v in step.values() if v.op == "indirect"],
    )


@fault(
    "code",
    "an index is looked at where only a part of the result is read",
    f"{REFUSED}[index-in part-known sizes]",
    DRAWN_REFUSALS,
)
def parts_count_as_the_whole():
    replace("inductor.loops.lower:Lowering.add_looks", lambda add: lambda self: None)


@fault(
    "code",
    "a masked read looks at the divisors where nothing is read",
    "tests/inductor/test_refusals.py::test_padded_reads_ask_for_no_index",
)
def masked_divisors_looked_at():
    rewrite("inductor.loops.body:Body.divisor", "if self.mask is None else", "if True else")


@fault(
    "graph",
    "the forward leaves checks to the backward",
    "tests/inductor/test_refusals.py::test_refused_in_a_forward_with_gradients[gather-loops]",
)
def refusals_left_to_the_backward():
    rewrite("inductor.graph.partition:_forward", "n in joint.forward and n.refuses", "False")


@fault(
    "code",
    "what lies above its range is taken",
    f"{REFUSED}[bernoulli-whole-known sizes]",
    f"{REFUSED}[one_hot-whole-known sizes]",
)
def upper_ends_forgotten():
    rewrite(record("all_within").fn, "s.le(value, high)", "s.le(value, s.maximum(value, high))")


@fault(
    "formula",
    "an antialiased filter whose sizes are not known takes in numbers outside of its window",
    "tests/inductor/test_refusals.py::test_a_filter_reads_its_window_alone",
)
def windows_of_filters_ignored():
    rewrite(
        "eager.ops.resampling:_weighed", "where(window, mul(unsqueeze(x, dim), weights), 0.0)", "mul(unsqueeze(x, dim), weights)"
    )


QUICK = "tests/eager/test_quick_paths.py"


@fault("formula", "a scatter's native path adds what it should put", f"{QUICK}::test_elements_by_index[scatter-float32]")
def scatters_that_add():
    small = find("eager.dispatch:small")
    replace("eager.api:scatter", lambda f: small("scatter_add", f.__wrapped__, find("eager.ops.indexing:scatter_set")))


@fault(
    "formula",
    "small uniform tensors are drawn from the normal distribution",
    f"{QUICK}::test_draws_have_the_bits_and_the_ordinals_of_the_records[rand]",
)
def uniform_draws_normal():
    small = find("eager.dispatch:small")
    replace("eager.api:rand", lambda f: small("randn", f.__wrapped__))


@fault("formula", "a map's own loop of whole numbers is that of another function", f"{QUICK}::test_extremes_of_whole_numbers")
def loops_exchanged():
    rewrite("eager.op.ufunc_program:Builder.in_type", 'own = f"{function.__name__} {signature}"', 'own = f"maximum {signature}"')


@fault("formula", "native Fourier transforms back are those forward", f"{QUICK}::test_transforms_of_single_numbers[8]")
def transforms_one_way():
    rewrite("eager.ops.fourier:_along", "_call.fourier(rows, not forward, scale)", "_call.fourier(rows, False, scale)")


@fault(
    "formula",
    "the series of the Bessel functions are evaluated with a coefficient too few",
    f"{QUICK}::test_special_functions_agree_with_their_formulas[baseline-float32-i1]",
)
def series_cut():
    rewrite("runtime.special:_coefficients", "tuple(map(len, parts))", "(len(parts[0]) - 12, *map(len, parts[1:]))")


LEFT = "tests/inductor/test_left.py"


@fault(
    "capture", "frames that compute beside their views are left to Python as well", f"{LEFT}::test_what_has_kernels_is_compiled"
)
def too_much_left():
    rewrite("inductor.backend:why_left_to_python", "if not nodes:", "if len(nodes) < 2:")


@fault(
    "guard",
    "a frame that is left to Python is the answer to every later call, whatever its arguments are",
    f"{LEFT}::test_other_arguments_are_seen_at_once",
)
def left_for_good():
    rewrite(
        "capture.frontend.convert_frame:Trace.untouched",
        "tree, _ = build_tree(self.tx, [])",
        "tree, _ = build_tree(TraceContext(inline, load_global, self.job.options, {}), []) if left else build_tree(self.tx, [])",
    )


@fault(
    "code",
    "the places of elements by index forget the factor of the index",
    f"{LEFT}::test_elements_by_indices_of_lanes[float32-16]",
)
def factors_forgotten():
    rewrite("inductor.cpp.loop_codegen:StepWriter.in_lanes", "text if by == 1 else", "text if by != 0 else")


PARTITION = "tests/inductor/test_partition.py"


@fault(
    "graph",
    "a result is saved also where eager keeps another value, and the caller's writes into it are refused",
    f"{PARTITION}::test_what_eager_does_not_keep_may_be_written_before_the_backward[a result that decides-loops]",
    error="modified by an inplace operation",
)
def results_saved_unasked():
    rewrite("inductor.graph.partition:_Cut.price", "max(size // 2, 2) if node in self.named else INFINITE", "max(size // 2, 2)")


@fault(
    "graph",
    "a copy of an input is the input itself, also where gradient formulas read it",
    f"{PARTITION}::test_what_eager_does_not_keep_may_be_written_before_the_backward[a copy of an input-loops]",
    error="modified by an inplace operation",
)
def copies_dropped():
    rewrite(
        "inductor.graph.passes:remove_noops",
        "kept = not across_grad or within is not None",
        "kept = False and within is not None",
    )


@fault(
    "code",
    "gradients that only show what comes in start at its first element",
    "tests/inductor/test_shown_gradients.py::test_they_lie_as_eagers_do[cat-loops]",
)
def views_from_the_start():
    rewrite(
        "inductor.runtime.output_aliases:shown_gradient",
        "tuple(base.args[1:])",
        "tuple(0 if base.target.name == 'slice' and k == 1 else a for k, a in enumerate(base.args[1:]))",
    )


@fault(
    "formula",
    "a window of nothing but minus infinity has picked the padding before it",
    "tests/test_ops.py::test_kernels_agree_with_what_is_lowered[max_pool_backward]",
)
def padding_picked():
    rewrite("eager.ops.pooling:_first", "missing = s.maximum(s.index(before) - at * step, 0)", "missing = s.index(0)")


@fault(
    "schedule",
    "what reads the same memory is not fused: right, and slower",
    "tests/test_budgets.py::test_budget[transformer_block]",
    "tests/test_budgets.py::test_budget[embedding_loss]",
)
def neighbours_left_apart():
    replace(
        "inductor.schedule.scheduler:Scheduler.try_fuse",
        lambda fuse: lambda self, a, b, vertical: vertical and fuse(self, a, b, True),
    )


@fault(
    "guard",
    "which attributes were not there is told and not checked",
    "tests/capture/test_golden.py::test_frame[module_parameters]",
)
def absences_left_out():
    without_guards("no_dict_attr")


@fault(
    "code",
    "columns of 128 and more are written as bytes, which readers of lines take for entries",
    "tests/capture/test_bytecode.py::test_lines_of_wide_sources",
)
def wide_columns_as_bytes():
    rewrite("capture.bytecode.assemble:_location", "column < 128 and end_column < 128", "column < 256 and end_column < 256")


@fault(
    "code",
    "the exception table does not say that a handler expects a lasti",
    "tests/capture/test_bytecode.py::test_round_trip_of_the_standard_library[contextlib]",
)
def handlers_without_lasti():
    rewrite("capture.bytecode.code_units:write", "to.depth, to.lasti)", "to.depth, False)")


@fault(
    "code",
    "jumps are laid out once, as if each had one unit",
    "tests/capture/test_bytecode.py::test_jumps_of_one_to_three_bytes[60]",
)
def jumps_of_one_unit():
    rewrite("capture.bytecode.code_units:_unit_offsets", "grown |= instrs[k].size != size", "grown = False")


@fault(
    "formula",
    "sixteen normal numbers of PyTorch are drawn in pairs, as fewer are",
    "tests/eager/test_random_torch.py::test_numbers_that_pytorch_printed",
)
def blocks_drawn_in_pairs():
    rewrite("eager.mersenne:Stream.normal", "math.prod(like.sizes) < 16", "math.prod(like.sizes) < 17")


@fault(
    "graph",
    "what a graph draws of PyTorch's numbers is drawn from the last draw to the first",
    "tests/eager/test_random_torch.py::test_compiled_draws[eager]",
)
def draws_from_the_last():
    rewrite("capture.graph.functionalize_rng:FunctionalizedRng.__init__", "lambda n: n.draw or 0", "lambda n: -(n.draw or 0)")


@fault(
    "graph",
    "a size is read from the stride of a single element",
    "tests/inductor/test_launcher.py::test_sizes_are_not_read_from_strides_of_one_element",
    error="returned an invalid gradient",
)
def sizes_from_any_stride():
    rewrite("capture.graph.graph:_symbols_of", "not (type(n) is int and n == 1)", "True")
    rewrite("capture.graph.graph:Graph.symbol_sources", 'source[1][1] == "stride"', "False")


@fault(
    "formula",
    "a number beside a tensor of uint8 is uint8 first",
    "tests/eager/test_corner_values.py::test_a_number_beside_unsigned_is_itself",
)
def numbers_in_the_type_of_the_tensor():
    rewrite(
        "eager.frontend.special:_beside",
        "dtype=to_float(tensor.dtype)",
        "dtype=None if isinstance(number, int) else to_float(tensor.dtype)",
    )

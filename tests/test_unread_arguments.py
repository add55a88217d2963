"""No public argument is taken and then forgotten: what a function accepts and never reads stands below, with the reason.

The walk goes over the public modules' functions and methods and looks into their code for parameters that no instruction
loads. An argument on the list that is read by now is an error too.
"""

import dis
import importlib
import inspect
import types

MODULES = """. nn nn.functional nn.init nn.utils nn.parallel nn.attention optim optim.lr_scheduler optim.swa_utils utils.data
utils.checkpoint utils.tensorboard utils.hooks utils.flop_counter utils.model_zoo distributions linalg fft special autograd
autograd.functional autograd.graph autograd.profiler amp func random cuda backends backends.cudnn backends.cuda backends.mkldnn
backends.quantized distributed hub jit library onnx testing profiler fx compiler multiprocessing overrides ao.quantization""".split()

ONE_PLACE = "one device, whose copies are done when the call returns"
SPEED = "says how, not what: the result is the same"
LOOKED_AT_BY_OTHERS = "part of a protocol: the subclass or the user's function reads it"
ONE_PROCESS = "a group of one process: there is nobody to send to"
NOT_USED_BY_FORMULA = "a rule takes all arguments of its family; this one's formula does not need it"

# by the argument's name alone, wherever it stands
EVERYWHERE = {
    "non_blocking": ONE_PLACE,
    "foreach": SPEED,
    "_stacklevel": "for warnings that are not given here",
    "cudnn_enabled": SPEED,
    "cudnn_enable": SPEED,
    "assume_unique": SPEED,
    "_instance": "of PyTorch's private protocol",
    "_internal": "of PyTorch's private protocol",
}
# by the beginning of the path and, where it is told, the argument
FAMILIES = {
    "distributed.": ONE_PROCESS,
    "nn.parallel.": ONE_PROCESS,
    "backends.": "switches of libraries that are not used here",
    "jit.": "there is no script: functions stay Python",
    "onnx.": "there is no exporter whose rules these would be",
    "cuda.": "counted for the one GPU",
    "autograd.profiler.profile.__init__": "there is one recorder, of this thread, on the CPU",
    "profiler.profile.__init__": "there is one recorder, of this thread, on the CPU",
    "fx.Interpreter.": LOOKED_AT_BY_OTHERS,
    "fx.Transformer.": LOOKED_AT_BY_OTHERS,
    "fx.Tracer.": LOOKED_AT_BY_OTHERS,
    "nn.Lazy": LOOKED_AT_BY_OTHERS,
    "nn.Identity.__init__": "takes anything, as PyTorch says",
    "nn.Parameter.__init__": "read by __new__",
    "nn.Buffer.__init__": "read by __new__",
    "nn.Uninitialized": "read by __new__",
    "utils.checkpoint.": "the CPU's random state is kept apart; there are no others",
}
# by module.function (as it is called) and argument
LISTED = {
    "BFloat16Storage.__init__": {"device": ONE_PLACE},
    "BFloat16Storage.from_buffer": {"device": ONE_PLACE},
    **{
        f"{kind}.{name}": {"device": ONE_PLACE}
        for kind in ("BFloat16Storage", "UntypedStorage", "Tensor")
        for name in ("is_pinned", "pin_memory")
    },
    "Future.__init__": {"devices": ONE_PLACE},
    "Tensor.sort": {"stable": "always stable"},
    "Tensor.argsort": {"stable": "always stable"},
    "Tensor.unique": {"sorted": "always sorted"},
    "Tensor.expand": {"implicit": "a mark of PyTorch's own transforms"},
    "Tensor.is_conj": {"input": "no tensor is lazily conjugated"},
    "Tensor.is_neg": {"input": "no tensor is lazily negated"},
    "ao.quantization.DeQuantStub.__init__": {"qconfig": "stubs stand for what quantization would put there"},
    "autograd.gradcheck": {"masked": "only dense tensors are checked"},
    "autograd.gradgradcheck": {"masked": "only dense tensors are checked", "check_rev_over_rev": "the only way there is"},
    "autograd.graph.save_on_cpu.__init__": {"pin_memory": SPEED, "device_type": SPEED},
    "compiler.set_stance.__init__": {"skip_guard_eval_unsafe": "guards are evaluated: slower, never wrong"},
    "cudnn_is_acceptable": {"tensor": "never"},
    "distributions.Bernoulli.enumerate_support": {"expand": LOOKED_AT_BY_OTHERS},
    **{
        f"distributions.{name}Transform.log_abs_det_jacobian": {"y": NOT_USED_BY_FORMULA}
        for name in ("Affine", "CumulativeDistribution", "Exp", "Reshape", "Sigmoid", "Softplus", "Tanh")
    },
    **{
        f"distributions.Bernoulli.{name}": {argument: LOOKED_AT_BY_OTHERS}
        for name, argument in (("cdf", "value"), ("icdf", "value"), ("log_prob", "value"), ("rsample", "sample_shape"))
    },
    "distributions.Wishart.rsample": {"max_try_correction": "the sampler never draws a singular matrix again"},
    "fx.Graph.find_nodes": {"sort": "nodes are in order anyway"},
    "fx.Node.is_impure": {"impure_random": "draws are impure either way"},
    "fx.Node.format_node": {
        "placeholder_names": "a list that PyTorch's printer fills",
        "include_tensor_metadata": "always part of the text",
    },
    "hub.download_url_to_file": {"progress": "no bar is shown"},
    "hub.list": {"args": ONE_PLACE, "kwargs": ONE_PLACE},
    "hub.help": {"kwargs": ONE_PLACE},
    "library.Library.define": {"alias_analysis": SPEED, "tags": SPEED},
    "library.Library.impl": {"allow_override": "the last one holds", "with_keyset": "there are no dispatch keys to pass"},
    "library.custom_op": {"tags": SPEED},
    "library.define": {"lib": "operators live as long as the process", "tags": SPEED},
    "library.impl": {"lib": "operators live as long as the process"},
    "library.impl_abstract": {"lib": "operators live as long as the process", "allow_override": "the last one holds"},
    "library.register_autograd": {"lib": "operators live as long as the process"},
    "library.register_kernel": {"lib": "operators live as long as the process"},
    "library.opcheck": {"options": "which checks are run: there is one"},
    "nn.MultiheadAttention.merge_masks": {"query": "masks alone tell the shape"},
    "nn.attention.sdpa_kernel": {"set_priority": SPEED},
    **{
        f"nn.functional.{name}_with_indices": {"return_indices": "the function's name says so"}
        for name in (
            *(f"{kind}max_pool{n}d" for kind in ("", "adaptive_") for n in (1, 2, 3)),
            "fractional_max_pool2d",
            "fractional_max_pool3d",
        )
    },
    "random.fork_rng": {
        "devices": "the CPU's generator is forked; there are no others",
        "device_type": "the CPU's generator is forked",
    },
    "set_flush_denormal": {"mode": "not supported, and says so: returns False"},
    **{
        f"sparse_{form}_tensor": {"pin_memory": ONE_PLACE, "check_invariants": "always checked"} for form in ("coo", "csr", "csc")
    },
    "Tensor.to_dense": {"masked_grad": "of sparse tensors: the gradient of all values"},
    "utils.data.DFIterDataPipe.register_datapipe_as_function": {"enable_df_api_tracing": "no table is traced"},
    "testing.assert_close": {
        "allow_subclasses": "subclasses are compared by their values",
        "check_layout": "every tensor is strided",
    },
    "utils.flop_counter.FlopCounterMode.__init__": {"mods": "deprecated in PyTorch, which finds modules itself as well"},
    "utils.tensorboard.SummaryWriter.add_graph": {"use_strict_trace": "graphs come from a call, not from a trace"},
}


def walk():
    """(public path, function) of every function, constructor and method of the public modules."""
    for name in MODULES:
        module = importlib.import_module("flambeau" if name == "." else f"flambeau.{name}")
        for key in sorted(dir(module)):
            found = getattr(module, key)
            path = key if name == "." else f"{name}.{key}"
            if key.startswith("_") or isinstance(found, types.ModuleType):
                continue
            yield from members(path, found) if inspect.isclass(found) else [(path, found)]


def members(path, kind):
    for base in kind.__mro__:
        for key, value in vars(base).items() if base.__module__.startswith("flambeau") else ():
            value = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            if callable(value) and (key == "__init__" or not key.startswith("_")):
                yield f"{path}.{key}", value


def unread(function) -> list[str]:
    """Parameters that no instruction of a function loads; none for functions that do nothing but raise or return a constant."""
    function = inspect.unwrap(function)
    if not isinstance(function, types.FunctionType) or not function.__module__.startswith("flambeau"):
        return []
    code, steps = function.__code__, list(dis.get_instructions(function))
    if steps[-1].opname == "RAISE_VARARGS" and not any(i.opname.startswith("RETURN") for i in steps) or stub(steps):
        return []
    count = (
        code.co_argcount
        + code.co_kwonlyargcount
        + bool(code.co_flags & inspect.CO_VARARGS)
        + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    )
    loaded = set()
    for i in steps:
        if i.opname.startswith(("LOAD_FAST", "LOAD_CLOSURE", "LOAD_DEREF", "MAKE_CELL", "STORE_FAST_LOAD_FAST", "DELETE_FAST")):
            loaded.update(i.argval if isinstance(i.argval, tuple) else (i.argval,))
    return [name for name in code.co_varnames[:count] if name not in loaded and name not in ("self", "cls", "_")]


def stub(steps) -> bool:
    """Whether a function holds nothing but `return` or a constant: what a protocol leaves to subclasses."""
    return (
        all(i.opname in ("RESUME", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST", "NOP") for i in steps)
        and steps[-2].argval is None
    )


def found():
    """{(function, argument): public paths} of everything that is unread."""
    result = {}
    for path, function in walk():
        for name in unread(function):
            if name not in EVERYWHERE and not path.startswith(tuple(FAMILIES)):
                result.setdefault((inspect.unwrap(function), name), []).append(path)
    return result


def test_every_argument_is_read_or_listed():
    missing = {
        f"{paths[0]}({name})" for (_, name), paths in found().items() if not any(name in LISTED.get(path, ()) for path in paths)
    }
    assert not missing, f"taken and never read: {sorted(missing)}"


def test_the_list_holds_no_argument_that_is_read():
    there = {(path, name) for (_, name), paths in found().items() for path in paths}
    stale = [f"{path}({name})" for path, names in LISTED.items() for name in names if (path, name) not in there]
    assert not stale

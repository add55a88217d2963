"""flambeau: PyTorch-style tensors, run eagerly by default and compiled on request, with every step readable.

The face of the package: public names and public module paths, nothing else. `flambeau.nn` is the same module object as
`flambeau.eager.nn`; a small import finder keeps it so however it is imported.
"""

import functools
import importlib
import importlib.machinery
import importlib.util
import sys

# Public first names of module paths, and where the modules really live.
_PUBLIC_MODULES = {
    "nn": "eager.nn",
    "autograd": "eager.autograd",
    "random": "eager.random",
    # imported when first asked for
    "optim": "eager.optim",
    "utils": "eager.utils",
    "compiler": "capture.frontend.compiler",
    "hub": "eager.compat.hub",
    "func": "eager.func",
    "profiler": "eager.profiler",
    "jit": "eager.compat.jit",
    "version": "eager.compat.version",
    "torch_version": "eager.compat.torch_version",
    "return_types": "eager.return_types",
    "functional": "eager.compat.functional",
    "futures": "eager.compat.futures",
    "__config__": "eager.compat.config",
    "_tensor_str": "eager.compat.tensor_str",
    "_jit_internal": "eager.compat.jit.internal",
    "export": "eager.compat.absent.export",
    "package": "eager.compat.absent.package",
    "monitor": "eager.compat.absent.monitor",
    "masked": "eager.compat.absent.masked",
    "nested": "eager.compat.absent.nested",
    "utils.cpp_extension": "eager.compat.absent.cpp_extension",
    "utils.mobile_optimizer": "eager.compat.absent.mobile_optimizer",
    "types": "eager.compat.types",
    "library": "eager.compat.library",
    "backends": "eager.compat.backends",
    "cuda": "eager.cuda",
    "distributed": "eager.compat.distributed",
    "onnx": "eager.compat.onnx",
    "ao": "eager.compat.ao",
    "testing": "eager.compat.testing",
    "overrides": "eager.compat.overrides",
    "_C": "eager.compat.private",
    "_custom_ops": "eager.compat.library",
    "_higher_order_ops": "eager.compat.higher_order",
    "amp": "eager.amp",
    "cuda.amp": "eager.amp.cuda",
    "fft": "eager.fft",
    "signal": "eager.signal",
    "linalg": "eager.linalg",
    "special": "eager.special",
    "distributions": "eager.distributions",
    "extend": "eager.extend",
    "fx": "capture.fx",
    "_dynamo": "capture.dynamo",
    "_inductor": "capture.dynamo",
    "functorch": "capture.functorch",
    "sparse": "eager.compat.sparse",
    "_logging": "eager.compat.logging",
    "utils._pytree": "eager.compat.pytree",
    "utils._python_dispatch": "eager.compat.python_dispatch",
    "_prims_common": "eager.compat.prims_common",
    "serialization": "eager.serialization",
    "storage": "eager.typed_storage",
    "multiprocessing": "eager.multiprocessing",
}
_OWN = ("runtime", "eager", "capture", "inductor", "cli", "alias", "__main__")  # of the package's folder
# Single files here that are packages in PyTorch: what lies in those can be imported, too.
_PACKAGES = (
    "_logging",
    "_prims_common",
    "backends.cudnn",
    "compiler",
    "export",
    "masked",
    "nested",
    "package",
    "signal.windows",
    "sparse",
    "testing",
    "utils.data.datapipes.iter",
    "utils.data.datapipes.map",
    "utils.benchmark",
)
# Names that are attributes of a module, fetched when first asked for.
_PUBLIC_ATTRIBUTES = {
    "compile": "capture.frontend.compiler",
    "GradScaler": "eager.amp.grad_scaler",
    "summary": "eager.nn.summary",
    "_segment_reduce": "eager.compat.names",
    "_convert_indices_from_coo_to_csr": "eager.compat.names",
    "_convert_indices_from_csr_to_coo": "eager.compat.names",
    "while_loop": "eager.compat.higher_order.while_loop",
    "vmap": "eager.func",
    "ops": "eager.compat.operators",
    "cpu": "eager.compat.accelerators",
    "cond": "eager.compat.higher_order.cond",
    "sparse_coo_tensor": "eager.sparse",
    "sparse_csr_tensor": "eager.sparse",
    "sparse_csc_tensor": "eager.sparse",
    **dict.fromkeys(
        (
            "SymInt",
            "SymFloat",
            "SymBool",
            "ScriptModule",
            "ScriptFunction",
            "OutOfMemoryError",
            "Future",
            "PyTorchFileReader",
            "PyTorchFileWriter",
            "Stream",
            "Event",
            "get_device_module",
            "_as_tensor_fullprec",
            "_check_with",
            "_check_tensor_all",
            "_check_tensor_all_with",
        ),
        "eager.compat.names",
    ),
    "mps": "eager.compat.accelerators",
    "xpu": "eager.compat.accelerators",
    "mtia": "eager.compat.accelerators",
    "accelerator": "eager.compat.accelerators",
    "save": "eager.serialization",
    "load": "eager.serialization",
    **{
        name: "eager.typed_storage"
        for name in """is_storage UntypedStorage TypedStorage DoubleStorage
                         FloatStorage HalfStorage LongStorage IntStorage ShortStorage CharStorage ByteStorage BoolStorage
                         BFloat16Storage ComplexDoubleStorage ComplexFloatStorage""".split()
    },
    "from_dlpack": "eager.dlpack",
    "to_dlpack": "eager.dlpack",
    **dict.fromkeys(
        """autocast is_autocast_available is_autocast_enabled set_autocast_enabled get_autocast_dtype set_autocast_dtype
           is_autocast_cpu_enabled set_autocast_cpu_enabled get_autocast_cpu_dtype set_autocast_cpu_dtype
           get_autocast_gpu_dtype set_autocast_gpu_dtype is_autocast_cache_enabled set_autocast_cache_enabled
           clear_autocast_cache autocast_increment_nesting autocast_decrement_nesting""".split(),
        "eager.amp.autocast_mode",
    ),
}


class _PublicPaths:
    """Serves `flambeau.nn.functional` as the module object of `flambeau.eager.nn.functional`, and so on; with
    `alias_torch()`, `torch.nn.functional` as well."""

    packages = {__name__: ""}  # the first word of a path, and what its other words are below

    def find_spec(self, name, path=None, target=None):
        package, _, rest = name.partition(".")
        if package not in self.packages or rest.partition(".")[0] in _OWN:
            return None
        rest = f"{self.packages[package]}.{rest}".strip(".")
        real = _real_path(rest)
        if real is None and not (rest and _absent().has(rest)):
            return None
        return importlib.machinery.ModuleSpec(name, self, origin=real, loader_state=rest)

    def create_module(self, spec):
        rest = spec.loader_state
        if spec.origin is None:
            module = _attribute_module(rest)
            if module is None:
                module = _absent().module(rest)
            else:
                module.__path__ = getattr(module, "__path__", [])
                _complete(module, rest)
        else:
            module = importlib.import_module(spec.origin)
            _complete(module, rest)
        spec.loader_state = getattr(module, "__spec__", None) or spec
        parent, _, child = spec.name.rpartition(".")
        holder = sys.modules.get(parent)
        if child in getattr(holder, "__late_attributes__", ()):
            getattr(holder, child)  # (now it is there)
        if type(holder) is type(sys) and not isinstance(vars(holder).get(child, sys), type(sys)):
            holder.__class__ = _Kept  # (before the machinery puts the module there)
        return module

    def exec_module(self, module):
        """The machinery has put the public spec on the module: its own one is restored, so relative imports stay right."""
        public = module.__spec__
        module.__spec__ = public.loader_state


def _attribute_module(rest):
    """The module that an attribute holds (`cpu`, `cpu.amp`), which is imported under its path as well; None if there is none."""
    first, *more = rest.split(".")
    if first not in _PUBLIC_ATTRIBUTES:
        return None
    found = getattr(sys.modules[__name__], first)
    for name in more:
        found = vars(found).get(name) if isinstance(found, type(sys)) else None
    return found if isinstance(found, type(sys)) else None


def _real_path(rest):
    """Where the public module path (without the package's name) really is; None if it is no public path."""
    head, tail = rest, ""
    while head not in _PUBLIC_MODULES:
        head, dot, last = head.rpartition(".")
        if not dot:
            return None
        tail = f".{last}{tail}"
    real = f"{__name__}.{_PUBLIC_MODULES[head]}{tail}"
    if real in sys.modules or not tail:
        return real
    try:
        return real if importlib.util.find_spec(real) else None
    except ModuleNotFoundError:  # what it would lie in is no package
        return None


class _Kept(type(sys)):
    """A module whose own functions stay when a module of the same name below it is imported by its public path: PyTorch's
    `multiprocessing.spawn` and `nn.parallel.replicate` are modules and functions of them."""

    def __setattr__(self, name, value):
        if not (isinstance(value, type(sys)) and not isinstance(vars(self).get(name, value), type(sys))):
            super().__setattr__(name, value)


def _absent():
    """The table of what PyTorch has and this package has not."""
    return importlib.import_module(f"{__name__}.eager.compat.absent.table")


def _complete(module, rest):
    """Makes a module of this package answer for the names that it lacks, as PyTorch's module at this path."""
    paths = vars(module).get("__paths__")
    if paths is not None:
        if rest not in paths:
            paths.append(rest)
        return
    if rest in _PACKAGES:
        module.__path__ = []
    paths, own = [rest], vars(module).get("__getattr__")

    def absent(name):
        if own is not None:
            try:
                return own(name)
            except AttributeError:
                if name.startswith("__"):
                    raise
        if name.startswith("__"):
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        return _absent().first(paths, name)

    module.__paths__, module.__getattr__ = paths, absent


if not any((type(finder).__name__, type(finder).__module__) == ("_PublicPaths", __name__) for finder in sys.meta_path):
    sys.meta_path.insert(0, _PublicPaths())

from .runtime import locks as _locks  # noqa: E402

with _locks.importing:
    from .eager import dispatch as _dispatch, ops as _ops  # every op is defined before anything uses one
    from .eager import drivers as _drivers  # noqa: F401  (how CUDA is found and started)
    from . import capture, eager, inductor
    from .runtime import log as _log  # noqa: F401  (a wrong FLAMBEAU_LOGS is told at once)
    from .eager import api, autograd, nn, random
    from .eager.api import *  # noqa: F403
    from .eager.torch_functions import *  # noqa: F403
    from .eager.amp.autocast_mode import *  # noqa: F403
    from .runtime.native import get_num_threads, set_num_threads

__version__ = "0.1.0"


def alias_torch(*, random=None):
    """Makes `import torch` (and `torch.nn.functional`, ...) give flambeau in this process, for packages that were
    written for PyTorch; `torch.__version__` tells the release whose API is meant. Raises RuntimeError if the real
    torch is already imported. Calling it again changes nothing but what `random` tells: "torch" gives PyTorch's random
    numbers for the same seed on the CPU, "philox" those of this package (ValueError for anything else)."""
    from . import alias

    alias.install(sys.modules[__name__], random)


def _compile_in_place(module, *args, **kwargs):
    """`module.compile(...)`: from now on this very module runs its forward compiled. The first call imports the compiler,
    which puts its own method here."""
    from .capture.frontend.module import compile_in_place

    return compile_in_place(module, *args, **kwargs)


class _Summary:
    """`module.summary(input_size=...)`: `flambeau.summary` of it; a parameter, buffer or module of this name comes first."""

    def __get__(self, module, owner):
        if module is None:
            return __getattr__("summary")
        for table in (module._parameters, module._buffers, module._modules):
            if "summary" in table:
                return table["summary"]
        return functools.partial(__getattr__("summary"), module)


nn.Module.compile = _compile_in_place
nn.Module.summary = _Summary()
for _path, _place in _PUBLIC_MODULES.items():
    if f"{__name__}.{_place}" in sys.modules:
        _complete(sys.modules[f"{__name__}.{_place}"], _path)


__all__ = [name for name in (*globals(), *_PUBLIC_ATTRIBUTES) if not name.startswith("_")]  # of `from torch import *`


def __dir__():
    return sorted({*globals(), *(name for name in _PUBLIC_MODULES if "." not in name), *_PUBLIC_ATTRIBUTES})


def __getattr__(name):
    """Public modules and names that are imported when first asked for."""
    if name in _PUBLIC_MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _PUBLIC_ATTRIBUTES:
        value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_PUBLIC_ATTRIBUTES[name]}"), name)
        return value
    if not name.startswith("__"):
        try:
            return _absent().first([""], name)
        except AttributeError:
            pass
    raise AttributeError(f"module {__name__!r} has no attribute {name!r} (docs/api.md lists what exists)")

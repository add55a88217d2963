"""Where PyTorch keeps the classes that programs see, while `import torch` means this package: `torch.Tensor`, not
`flambeau.eager.tensor.Tensor`. `type(x)` prints it, pickles name it, packages decide by it (wandb, tensorboardX, torchinfo).

In: the modules of this package, when the alias is installed and as they are imported. Out: their classes with `__module__` as in
PyTorch, where `import` finds them. A module that PyTorch has at the same place keeps its name below `torch`; `HOMES` lists
the classes that lie elsewhere here.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

# module of this package, less its name -> home -> classes
HOMES = {
    "capture.fx.code": {"torch.fx.graph": "CodeGen"},
    "eager.autograd.modes": {
        "torch.autograd.grad_mode": "no_grad enable_grad set_grad_enabled inference_mode set_multithreading_enabled",
        "torch.autograd.anomaly_mode": "set_detect_anomaly detect_anomaly",
    },
    "eager.compat.futures": {"torch": "Future"},
    "eager.compat.library": {"torch.library": "Library"},
    "eager.cuda.allocator": {"torch": "OutOfMemoryError"},
    "eager.cuda.gpus": {"torch.cuda": "device device_of"},
    "eager.cuda.streams": {"torch.cuda": "StreamContext"},
    "eager.device": {"torch": "device"},
    "eager.distributions.counts": {
        "torch.distributions.geometric": "Geometric",
        "torch.distributions.poisson": "Poisson",
        "torch.distributions.binomial": "Binomial",
        "torch.distributions.negative_binomial": "NegativeBinomial",
        "torch.distributions.multinomial": "Multinomial",
    },
    "eager.distributions.derived": {
        "torch.distributions.log_normal": "LogNormal",
        "torch.distributions.gumbel": "Gumbel",
        "torch.distributions.weibull": "Weibull",
        "torch.distributions.pareto": "Pareto",
        "torch.distributions.kumaraswamy": "Kumaraswamy",
        "torch.distributions.relaxed_bernoulli": "RelaxedBernoulli",
        "torch.distributions.relaxed_categorical": "RelaxedOneHotCategorical",
    },
    "eager.distributions.dirichlet": {"torch.distributions.beta": "Beta"},
    "eager.distributions.distribution": {"torch.distributions.exp_family": "ExponentialFamily"},
    "eager.distributions.gamma": {"torch.distributions.chi2": "Chi2"},
    "eager.distributions.simple": {
        "torch.distributions.exponential": "Exponential",
        "torch.distributions.laplace": "Laplace",
        "torch.distributions.cauchy": "Cauchy",
        "torch.distributions.half_normal": "HalfNormal",
        "torch.distributions.half_cauchy": "HalfCauchy",
        "torch.distributions.studentT": "StudentT",
        "torch.distributions.fishersnedecor": "FisherSnedecor",
        "torch.distributions.von_mises": "VonMises",
    },
    "eager.distributions.transformed_distribution": {"torch.distributions.independent": "Independent"},
    "eager.dtypes": {"torch": "dtype finfo iinfo"},
    "eager.hook_handle": {"torch.utils.hooks": "RemovableHandle"},
    "eager.memory_formats": {"torch": "memory_format layout"},
    "eager.nn.modules.attention": {"torch.nn.modules.activation": "MultiheadAttention"},
    "eager.nn.modules.lazynorm": {
        "torch.nn.modules.batchnorm": "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d",
        "torch.nn.modules.instancenorm": "LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d",
    },
    "eager.optim.adafactor_muon": {"torch.optim": "Adafactor Muon"},
    "eager.optim.adagrad": {"torch.optim.adadelta": "Adadelta"},
    "eager.optim.adam": {"torch.optim.adamw": "AdamW"},
    "eager.optim.adam_variants": {
        "torch.optim.adamax": "Adamax",
        "torch.optim.nadam": "NAdam",
        "torch.optim.radam": "RAdam",
        "torch.optim.sparse_adam": "SparseAdam",
    },
    "eager.optim.asgd_rprop": {"torch.optim.asgd": "ASGD", "torch.optim.rprop": "Rprop"},
    "eager.optim.cyclic_lr": {"torch.optim.lr_scheduler": "CosineAnnealingWarmRestarts CyclicLR OneCycleLR ReduceLROnPlateau"},
    "eager.optim.lr_base": {"torch.optim.lr_scheduler": "LRScheduler"},
    "eager.profiler.recorder": {"torch.autograd.profiler": "record_function"},
    "eager.profiler.session": {"torch.profiler.profiler": "ProfilerAction profile"},
    "eager.random": {"torch": "Generator"},
    "eager.sizes": {"torch": "SymInt SymFloat SymBool Size"},
    "eager.storage": {"torch.storage": "UntypedStorage"},
    "eager.tensor": {"torch": "Tensor"},
    "eager.typed_storage": {
        "torch.storage": "TypedStorage",
        "torch": (
            "BoolStorage ByteStorage CharStorage ShortStorage IntStorage LongStorage HalfStorage BFloat16Storage FloatStorage "
            "DoubleStorage ComplexFloatStorage ComplexDoubleStorage"
        ),
    },
}
_real: dict[type, str] = {}  # class -> the module that it was made in


def settle(module: ModuleType, package: str, places: dict[str, str]) -> str | None:
    """Gives the classes of a module of the package their homes, and tells the module's own, if it has one. `places`: public
    paths of modules -> where they are."""
    inside = module.__name__.removeprefix(f"{package}.")
    home = _public_path(inside, places)
    listed = {name: place for place, names in HOMES.get(inside, {}).items() for name in names.split()}
    for value in list(vars(module).values()):
        if isinstance(value, type) and vars(value).get("__module__") == module.__name__:
            place = listed.get(value.__qualname__, home)
            if place is not None:
                _real[value] = module.__name__
                value.__module__ = place
    return home


def real_module(value: Any) -> str:
    """The module that a function or class was made in, under whatever name programs see it; "" if it does not say."""
    if isinstance(value, type) and value in _real:
        return _real[value]
    home = getattr(value, "__module__", None)
    return home if isinstance(home, str) else ""


def _public_path(inside: str, places: dict[str, str]) -> str | None:
    """`torch.nn.modules.linear` of `eager.nn.modules.linear`; None of what is nobody's to see."""
    found = [(place, public) for public, place in places.items() if f"{inside}.".startswith(f"{place}.")]
    if not found:
        return None
    place, public = max(found, key=lambda pair: len(pair[0]))
    return f"torch.{public}{inside.removeprefix(place)}"

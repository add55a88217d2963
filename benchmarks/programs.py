"""Whole programs: the examples, torchvision's models, and the scripts of a folder, eager and compiled.

A script is run twice, as it is and with what it gives `compile` (or, where it compiles nothing, its modules); it is over when
its optimizer, or the module it calls, has made enough steps, whose times are its row.
"""

import pathlib
import runpy
import sys

import flambeau
import flambeau.nn
import flambeau.optim
from records import Case

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"
TRAINED = {"gpt": ["--phase", "eager"], "lstm": ["--short"], "resnet": ["--short"], "vae": ["--short"], "vit": ["--short"]}
"""Examples that train something, and with which arguments in this process; the others show a way to extend the package."""

MODELS = {
    "alexnet": 64,
    "convnext_tiny": 64,
    "densenet121": 64,
    "efficientnet_b0": 64,
    "googlenet": 64,
    "inception_v3": 299,
    "maxvit_t": 224,
    "mnasnet0_5": 64,
    "mobilenet_v2": 64,
    "mobilenet_v3_small": 64,
    "regnet_y_400mf": 64,
    "resnet18": 64,
    "resnext50_32x4d": 64,
    "shufflenet_v2_x0_5": 64,
    "squeezenet1_1": 64,
    "swin_t": 64,
    "swin_v2_t": 64,
    "vgg11_bn": 64,
    "vit_b_16": 224,
}


def cases(kind, folder):
    return {"examples": examples, "models": models, "programs": lambda: scripts(folder)}[kind]()


# -- models of torchvision


def models():
    try:
        flambeau.alias_torch()
        import torchvision.models  # noqa: F401
    except ImportError:
        return
    for name, side in MODELS.items():
        for training in (False, True):
            label = f"models {name} {'training' if training else 'forward'}"
            yield Case(label, "models", lambda name=name, side=side, training=training: model(name, side, training), 7)


def model(name, side, training):
    import torchvision.models

    extra = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    module = torchvision.models.get_model(name, weights=None, **extra).train(training)
    x = flambeau.randn(2, 3, side, side)
    return step_of(module, module, x, training), step_of(module, flambeau.compile(module), x, training)


def step_of(module, f, x, training):
    def forward():
        with flambeau.no_grad():
            return f(x)

    def train():
        module.zero_grad()
        total(f(x)).backward()

    return train if training else forward


def total(out):
    """A number of whatever a model gives."""
    if isinstance(out, flambeau.Tensor):
        return out.square().mean()
    return sum(total(part) for part in (out.values() if isinstance(out, dict) else out) if part is not None)


# -- scripts: the times between steps of their optimizers


def examples():
    for name, arguments in TRAINED.items():
        yield Case(f"examples {name}", "examples", lambda name=name, given=arguments: script(EXAMPLES / f"{name}.py", given), 5)


def scripts(folder):
    if folder is None:
        return
    for path in sorted(folder.glob("*.py")):
        if "torch" in path.read_text() and path.stem != "run":
            yield Case(f"programs {path.stem}", "programs", lambda path=path: script(path, []), 5)


class Enough(BaseException):
    """Ends a script."""


def script(path, arguments):
    """(eager, compiled) steps of a script: one step of its training, taken out of it at its first call of an optimizer."""
    return [recorded(path, arguments, compiled) for compiled in (False, True)]


def recorded(path, arguments, compiled):
    """A script's step as a function: the module it calls, on the inputs it gives, backward and the optimizer's step."""
    found = {}
    sys.path[:] = [p for p in sys.path if p != str(path.parent)]
    with patched(found):
        before, sys.argv = sys.argv, [str(path), *arguments]
        sys.path.append(str(path.parent))  # behind the packages that a script may be named after
        try:
            flambeau.alias_torch()
            runpy.run_path(str(path), run_name="__main__")
        except Enough:
            pass
        finally:
            sys.argv = before
            sys.path.remove(str(path.parent))
    if "step" not in found:
        raise RuntimeError(f"{path.name}: no module was called in training")
    module, args, kwargs = found["step"]
    f = flambeau.compile(module) if compiled else module
    optimizer = found.get("optimizer")

    def step():
        module.zero_grad()
        total(f(*args, **kwargs)).backward()
        if optimizer is not None:
            optimizer.step()

    return step


class patched:
    """While it is entered: `compile` gives its argument back, and the first step of an optimizer ends the program. The outermost
    module called last before it, and its arguments, are what a step consists of."""

    def __init__(self, found):
        self.found = found

    def __enter__(self):
        self.before = flambeau.compile, flambeau.nn.Module.__call__, flambeau.optim.Optimizer.__init__
        found, (_, call, init), depth = self.found, self.before, [0]

        def plain(f=None, **settings):
            return f if f is not None else lambda g: g

        def called(module, *args, **kwargs):
            whole = found.get("step", (module,))[0]  # (checkpoints call parts of it again in the backward)
            inside = module is not whole and any(part is module for part in whole.modules())
            if depth[0] == 0 and module.training and flambeau.is_grad_enabled() and not inside:
                found["step"] = module, args, kwargs
            depth[0] += 1
            try:
                return call(module, *args, **kwargs)
            finally:
                depth[0] -= 1

        def made(optimizer, *args, **kwargs):
            init(optimizer, *args, **kwargs)
            found["optimizer"] = optimizer

            def over(*given, **more):
                del optimizer.step
                raise Enough

            optimizer.step = over

        flambeau.compile, flambeau.nn.Module.__call__, flambeau.optim.Optimizer.__init__ = plain, called, made
        return self

    def __exit__(self, *raised):
        flambeau.compile, flambeau.nn.Module.__call__, flambeau.optim.Optimizer.__init__ = self.before

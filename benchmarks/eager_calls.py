"""The calls that eager_ops.py times: one row a call, its inputs as expressions of the number of elements.

A row of eager_calls.txt is `group | expression | inputs | types`. Expressions are Python over `torch`, `F` and the inputs. In
inputs, `n` is the number of elements, `s(k)` the side of a square of n/k elements, `c(k)` that of a cube; `f`, `u`, `p` make
normal, uniform and positive floats of the row's type that ask for gradients, `g` floats that do not, `i(high, *sizes)` whole
numbers, `b` truths. Families of calls alike (pointwise functions, activations, distributions, optimizers) are lists below.
"""

import math
import pathlib
import re

import numpy as np

TYPES = {"floats": "float32 float16", "numbers": "float32 float16 int64", "all": "float32 float16 int64 bool"}

ROWS = pathlib.Path(__file__).with_suffix(".txt").read_text()

UNARY = """abs neg sign square reciprocal exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan tanh sinh cosh asin acos
atan asinh acosh atanh erf erfc erfinv sigmoid logit lgamma digamma floor ceil round trunc frac isnan isinf isfinite
sinc nan_to_num special.i0 special.i0e special.i1 special.i1e special.erfcx special.ndtr special.ndtri
special.log_ndtr special.entr special.xlog1py deg2rad relu selu bitwise_not logical_not signbit sgn positive"""
POSITIVE = "log log2 log10 log1p sqrt rsqrt lgamma digamma special.entr".split()
UNIT = "asin acos atanh erfinv logit special.ndtri".split()
BINARY = """add sub mul div floor_divide remainder fmod maximum minimum fmax fmin pow atan2 hypot lt eq logical_and logical_or
logaddexp copysign nextafter bitwise_and bitwise_xor gcd xlogy ldexp heaviside lerp addcmul addcdiv float_power
special.zeta"""
WHOLE = "add sub mul floor_divide remainder maximum minimum lt eq bitwise_and bitwise_xor gcd abs sign square bitwise_not".split()
ACTIVATIONS = """relu relu6 elu selu celu gelu silu mish softplus softsign tanhshrink hardtanh hardsigmoid hardswish hardshrink
softshrink leaky_relu logsigmoid sigmoid tanh"""
DISTRIBUTIONS = """
Normal(g(n), p(n)) LogNormal(g(n), p(n)) Uniform(g(n), g(n)+9) Laplace(g(n), p(n)) Cauchy(g(n), p(n)) Gumbel(g(n), p(n))
Exponential(p(n)) Gamma(p(n), p(n)) Beta(p(n), p(n)) Chi2(p(n)) StudentT(p(n)+2) Bernoulli(q(n)) Geometric(q(n))
Poisson(p(n)) HalfNormal(p(n)) HalfCauchy(p(n)) Pareto(p(n), p(n)) Weibull(p(n), p(n)) Kumaraswamy(p(n), p(n))
Categorical(p(n//10, 10)) OneHotCategorical(p(n//10, 10)) Dirichlet(p(n//10, 10)) Binomial(10, q(n)) NegativeBinomial(10,
q(n)) Multinomial(10, p(n//10, 10)) MultivariateNormal(g(n//4, 4), torch.eye(4)) VonMises(g(n), p(n))
RelaxedBernoulli(torch.tensor(.5), q(n)) ContinuousBernoulli(q(n)) LowRankMultivariateNormal(g(n//4, 4), g(n//4, 4, 1),
p(n//4, 4)) FisherSnedecor(p(n), p(n)+3) InverseGamma(p(n), p(n))
"""
OPTIMIZERS = "ASGD Adadelta Adafactor Adagrad Adam AdamW Adamax NAdam RAdam RMSprop Rprop SGD".split()
TRANSFORMS = """
horizontal_flip(x)
vertical_flip(x)
resize(x, [s(3)//2+1, s(3)//2+1])
resize(x, [s(3)//2+1, s(3)//2+1], interpolation=I.NEAREST)
crop(x, 1, 1, s(3)-2, s(3)-2)
center_crop(x, [s(3)//2+1, s(3)//2+1])
resized_crop(x, 0, 0, s(3)-1, s(3)-1, [s(3), s(3)])
pad(x, [2])
rotate(x, 15.)
rotate(x, 15., I.BILINEAR)
affine(x, 10., [1, 1], 1.1, [3., 2.])
perspective(x, None, None, coefficients=[1.1, .1, 0, .1, 1, 0, .001, .001])
adjust_brightness(x, 1.2)
adjust_contrast(x, 1.2)
adjust_saturation(x, 1.2)
adjust_hue(x, 0.1)
adjust_gamma(x, 1.2)
adjust_sharpness(x, 1.2)
rgb_to_grayscale(x)
equalize(x)
autocontrast(x)
invert(x)
posterize(x, 3)
solarize(x, .5 if x.is_floating_point() else 128)
gaussian_blur(x, [3, 3])
normalize(x.float(), [.5]*3, [.2]*3)
erase(x, 0, 0, 2, 2, torch.zeros(3, 1, 1, dtype=x.dtype))
to_dtype(x, torch.float32, scale=True)
elastic(x, torch.zeros(1, s(3), s(3), 2)+.01)
"""


def _plain_rows():
    for line in ROWS.strip().splitlines():
        group, expression, inputs, types = (part.strip() for part in (line + " | | ").split(" |")[:4])
        yield group, expression, inputs, TYPES.get(types.strip(" |"), types.strip(" |")).split() or ["float32"]


def _kinds(name, floats):
    return [
        "float32",
        *(["float16"] if floats else []),
        *(["int64"] if name in WHOLE else []),
        *(["bool"] if name.startswith(("logical", "bitwise")) else []),
    ]


def _pointwise_rows():
    for name in UNARY.split():
        make = "p" if name in POSITIVE else "u" if name in UNIT else "f"
        x = "x=p(n) + 1" if name == "acosh" else f"x={make}(n)"
        kinds = ["int64", "bool"] if name == "bitwise_not" else _kinds(name, "." not in name)
        if name == "special.xlog1py":
            yield "pointwise", "torch.special.xlog1py(x, y)", "x=f(n), y=p(n)", ["float32"]
        else:
            yield "pointwise", f"torch.{name}(x)", x, kinds
    for name in BINARY.split():
        more = {"lerp": ", 0.3", "addcmul": ", x", "addcdiv": ", x", "heaviside": "", "special.zeta": ""}.get(name, "")
        kinds = (
            ["int64"]
            if name == "gcd"
            else ["int64", "bool"]
            if name.startswith("bitwise")
            else _kinds(name, name in ("add", "sub", "mul", "div", "maximum", "pow"))
        )
        yield "pointwise", f"torch.{name}(x, y{more})", "x=p(n), y=p(n)" if name != "special.zeta" else "x=p(n)+2, y=p(n)", kinds
        if name in ("add", "mul", "div", "maximum", "lt", "pow"):
            yield "pointwise", f"torch.{name}(x, y)", "x=p(s(1), s(1)), y=p(s(1))", ["float32"]
            yield "pointwise", f"torch.{name}(x.t(), y)", "x=p(s(1), s(1)), y=p(s(1), 1)", ["float32"]
    for text in "x + 1|x * 2.5|x ** 2|x ** 3|x ** 0.5|x > 0|x.clamp(-1, 1)|x.float() / 2|1 - x|2 ** x|x // 3|x % 3".split("|"):
        yield "pointwise", text, "x=p(n)", ["float32", "float16", "int64"] if "clamp" in text or "+" in text else ["float32"]
    for name in ACTIVATIONS.split():
        yield "activation", f"F.{name}(x)", "x=f(n)", TYPES["floats"].split()
    yield "activation", 'F.gelu(x, approximate="tanh")', "x=f(n)", ["float32"]


def _other_rows():
    for text in re.split(r"\s+(?=[A-Z])", DISTRIBUTIONS.strip()):
        yield "distribution", "d.sample()", f"d=D.{text}", ["float32"]
    for name in OPTIMIZERS:
        yield "optimizer", "o.step()", f"o=stepping(torch.optim.{name}, 20, n)", ["float32"]
    for call in TRANSFORMS.strip().splitlines():
        yield "transforms", f"V.{call}", "x=image(n)", ["uint8", "float32"]


def rows():
    """(group, expression, inputs, types) of every call."""
    return [*_plain_rows(), *_pointwise_rows(), *_other_rows()]


class Inputs(dict):
    """The names that expressions see; the same numbers for every library."""

    declared = []

    def __init__(self, torch, n, kind):
        super().__init__()
        self.torch, self.kind, self.rng = torch, kind, np.random.default_rng(n)
        self.update(
            torch=torch,
            F=torch.nn.functional,
            nn=torch.nn,
            n=n,
            s=lambda k: max(math.isqrt(n // k), 1),
            c=lambda k: max(round((n / k) ** (1 / 3)), 2),
            min=min,
            max=max,
            f=self.floats,
            g=self.plain,
            u=self.uniform,
            p=self.positive,
            q=self.probabilities,
            i=self.whole,
            b=self.truths,
            stepping=self.stepping,
            image=self.image,
        )
        if "distributions" in dir(torch):
            self["D"] = torch.distributions

    def vision(self):
        """torchvision's functions; where its native ops are of another build than torch, its Python files do with their names."""
        if not hasattr(self.torch, "__flambeau__") and not Inputs.declared:
            Inputs.declared.append(self.torch.library.Library("torchvision", "FRAGMENT"))
            for name in ("nms", "qnms"):
                Inputs.declared[0].define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        from torchvision.transforms import InterpolationMode
        from torchvision.transforms.v2 import functional

        return {"V": functional, "I": InterpolationMode}

    def typed(self, array, tracked):
        x = self.torch.from_numpy(np.ascontiguousarray(array, np.float32))
        if self.kind == "bool":
            return x > 0.5
        x = (x * 10).to(self.torch.int64) if self.kind == "int64" else x.to(getattr(self.torch, self.kind))
        return x.requires_grad_() if tracked and x.is_floating_point() else x

    def floats(self, *sizes):
        return self.typed(self.rng.standard_normal(sizes, np.float32), True)

    def plain(self, *sizes):
        return self.typed(self.rng.standard_normal(sizes, np.float32), False)

    def positive(self, *sizes):
        return self.typed(self.rng.random(sizes, np.float32) + 0.5, True)

    def uniform(self, *sizes):
        return self.typed(self.rng.random(sizes, np.float32) * 0.96 + 0.02, True)

    def probabilities(self, *sizes):
        return self.uniform(*sizes).detach()

    def whole(self, high, *sizes):
        return self.torch.from_numpy(self.rng.integers(0, high, sizes))

    def truths(self, *sizes):
        return self.torch.from_numpy(self.rng.random(sizes) > 0.5)

    def image(self, n):
        x = self.torch.from_numpy(self.rng.integers(0, 256, (3, self["s"](3) + 4, self["s"](3) + 4), np.uint8))
        return x if self.kind == "uint8" else x.float() / 255

    def stepping(self, optimizer, count, n):
        side = max(math.isqrt(n // count), 1)
        parameters = [self.torch.nn.Parameter(self.plain(side, side)) for _ in range(count)]
        for p in parameters:
            p.grad = self.plain(side, side)
        return optimizer(parameters, lr=1e-3)

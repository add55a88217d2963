"""Programs drawn from the op records.

In: a seed. Out: a `Program` that eager runs. Every line is tried as it is drawn: one that eager refuses is dropped, one
whose numbers grow is bounded. Arguments come from the records' own samples: their tensors become values of the program
(elementwise records: any that broadcast; reductions: any, over any dims; others: reshaped to the sample's sizes).
"""

import random
import warnings

import flambeau
import numpy as np

from flambeau.capture.graph.graph import constant_text
from flambeau.eager import dtypes
from flambeau.eager.op.op import OPS
from flambeau.eager.tensor import Tensor

from .graphfuzz import SCOPE, Input, Line, Program, show
from .graphfuzz_records import Slot, families, templates, unchecked

FLOATS, WHOLE = ("float32", "float64", "float16", "bfloat16"), ("int64", "int32", "uint8", "bool")
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 33)
LARGE = 64.0  # numbers beyond are bounded
WITH_NUMBERS = {
    "add",
    "sub",
    "mul",
    "div",
    "floor_divide",
    "remainder",
    "fmod",
    "pow",
    "maximum",
    "minimum",
    "where",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
}
OF_INTEGERS = {"sum", "prod", "amax", "amin", "max_of_all", "min_of_all", "max_dim", "min_dim", "argmax", "argmin", "any", "all"}
OF_NOTHING = {"sum", "prod", "mean", "any", "all", "logsumexp"}
REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, KeyError, AttributeError, ArithmeticError)


# -- drawing


STEPS = {
    "map": 26,
    "reduction": 10,
    "view": 15,
    "write": 14,
    "product": 6,
    "sample": 14,
    "row": 4,
    "joined": 3,
    "looked_up": 5,
    "cast": 4,
    "extern": 1,
    "scattered": 3,
}
FUSED = {"map", "reduction", "view", "product", "row", "joined", "cast"}
KINDS, WEIGHTS = list(STEPS), list(STEPS.values())
# (no slope is above 1: what rounding takes does not grow)
LONG = ("op_sin({})", "op_cos({})", "op_tanh({})", "op_erf({})", "op_exp(op_neg(op_abs({})))", "op_log1p(op_abs({}))")
MAPS_LIKED = ("add", "mul", "sub", "maximum", "where", "relu", "tanh", "neg", "sigmoid", "exp", "abs", "div", "lt", "gt")


class Drawer:
    """Draws one program; `values` are what eager computed so far, by name."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.seed = seed
        self.inputs, self.lines, self.values, self.order = [], [], {}, []
        self.scope = dict(SCOPE)
        r = self.random
        self.sizes = [r.choice(EXTENTS) for _ in range(3)]
        if r.random() < 0.04:
            self.sizes[r.randrange(3)] = 0
        self.most = 9000
        if r.random() < 0.03:
            self.sizes[0], self.most = r.choice((100, 400, 1000)), 70000
        self.dynamic = r.random() < 0.25
        self.gradients = r.random() < 0.35
        self.dtype = r.choices(FLOATS, (70, 15, 7, 8))[0]

    def program(self):
        r = self.random
        for _ in range(r.choice((1, 2, 2, 3))):
            self.new_input(self.some_sizes(), self.dtype if r.random() < 0.75 else r.choice(FLOATS[:2] + WHOLE))
        length, tries, weights = r.choice((2, 3, 3, 4, 4, 5, 7)), 0, WEIGHTS
        if r.random() < 0.08:  # long chains of what fuses
            length, weights = r.choice((9, 12)), [weight if kind in FUSED else 0 for kind, weight in STEPS.items()]
        while length and tries < 60:
            tries += 1
            length -= self.step(r.choices(KINDS, weights)[0])
        other = ()
        if self.dynamic and r.random() < 0.9 and not any(unchecked(line.text) for line in self.lines):
            kept = {n for i in self.inputs for n in i.sizes if n > 1}
            other = tuple((n, r.choice([m for m in (2, 3, 4, 6, 11, 18) if m != n])) for n in sorted(kept))
        outputs = (
            self.outputs() + self.chain(random.Random(f"chain {self.seed}")) + self.slabs(random.Random(f"slabs {self.seed}"))
        )
        read = frozenset(outputs).union(*[line.reads for line in self.lines])
        inputs = tuple(i for i in self.inputs if i.name in read)
        return Program(inputs, tuple(self.lines), tuple(outputs), self.dynamic, other, str(self.seed))

    def outputs(self):
        """What no line reads, and others: views, inputs, one twice."""
        r, read = self.random, frozenset().union(*[line.reads for line in self.lines])
        made = [n for n in self.order if n.startswith("v")]
        last = [n for n in made if n not in read][-4:] or made[-1:] or self.order[:1]
        return last + [r.choice(made if made and r.random() < 0.8 else self.order) for _ in range(r.choice((0, 0, 1, 1, 2)))]

    def chain(self, r):
        """Long functions of one another, of one program in fourteen: [its name], or []. Its numbers are its own: no other line
        depends on them."""
        found = [n for n in self.order if self.values[n].dtype.is_floating_point and self.values[n].numel() >= 32]
        if not found or r.random() > 0.125:
            return []
        text = start = r.choice(found)
        for _ in range(r.choice((2, 3, 4, 5))):
            text = r.choice(LONG).format(text)
            text = f"op_{r.choice(('add', 'mul'))}({text}, {start})" if r.random() < 0.2 else text
        value = self.evaluate(text)
        if value is None or not largest(value) <= LARGE:
            return []
        self.add(text, value)
        return [self.order[-1]]

    def slabs(self, r):
        """Of one program in ten: reductions down the columns of an array of its own, and maps of it with what they give, once in
        a while of another outer index. [names of results], or []."""
        if r.random() > 0.1:
            return []
        x = self.new_input((r.choice((16, 24, 40)), r.choice((2, 5, 9, 13)), r.choice((33, 40, 67))), self.dtype)
        made = []
        for _ in range(r.choice((1, 1, 2))):
            if r.random() < 0.3:
                self.add(text := r.choice(LONG).format(x), self.evaluate(text))
                x = self.order[-1]
            total = r.choice(("op_sum({}, (1,), True)", "op_mean({}, (1,), True)", "op_amax({}, (1,), True)")).format(x)
            self.add(total, self.evaluate(total))
            total = self.order[-1]
            made += [total] if r.random() < 0.3 else []
            along = (
                f"op_flip({total}, ({r.choice((0, 2))},))" if r.random() < 0.15 else r.choice(("{}", "op_tanh({})")).format(total)
            )
            text = r.choice(("op_sub({}, {})", "op_mul({}, {})", "op_div({}, op_add(op_abs({}), 1.0))")).format(x, along)
            value = self.evaluate(text)
            if value is None or not largest(value) <= LARGE:
                break
            self.add(text, value)
            x = self.order[-1]
            made.append(x)
        return made

    def some_sizes(self):
        r = self.random
        rank = r.choices((0, 1, 2, 3, 4), (4, 20, 46, 22, 4))[0]
        sizes = [1 if r.random() < 0.08 else r.choice(self.sizes) for _ in range(rank)]
        return tuple(n if int(np.prod(sizes)) < self.most or n < 5 else 3 for n in sizes)

    def new_input(self, sizes, dtype, values=None):
        r = self.random
        layout = "rows" if not sizes or r.random() < 0.6 else r.choice(("columns", "steps", "offset", "expanded"))
        if layout == "expanded" and (sizes[0] < 2 or r.random() < 0.6):
            layout = "rows"
        floating = dtype in FLOATS
        if values is None:
            values = r.choices(("normal", "grid", "special"), (60, 38, 2))[0]
        grad = None
        if self.gradients and floating and not isinstance(values, np.ndarray) and r.random() < 0.7:
            grad = "computed" if r.random() < 0.25 else "leaf"
        made = Input(f"x{len(self.inputs)}", tuple(sizes), dtype, layout, values, grad, r.randrange(1 << 20))
        self.inputs.append(made)
        self.values[made.name] = made.tensor()[1]
        self.order.append(made.name)
        return made.name

    # -- lines

    def step(self, kind):
        """Whether a line could be added."""
        inputs = len(self.inputs)
        text = getattr(self, kind)()
        if text and (self.write_line(text) if kind in ("write", "scattered") else self.value_line(text)):
            return True
        for unused in self.inputs[max(inputs, 1) :]:
            del self.values[unused.name]
            self.order.remove(unused.name)
        del self.inputs[max(inputs, 1) :]
        return False

    def evaluate(self, text):
        """What eager gives, or None where it refuses."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                return eval(text, self.scope, self.values)
            except REFUSALS:
                return None

    def value_line(self, text):
        value = self.evaluate(text)
        if isinstance(value, tuple):
            shown = [k for k, v in enumerate(value) if isinstance(v, Tensor)]
            if not shown:
                return False
            at = self.random.choice(shown)
            text, value = f"{text}[{at}]", value[at]
        if not isinstance(value, Tensor) or value.numel() > 2 * self.most or value.dtype.is_complex or value.dim() > 6:
            return False
        bound = self.bound(value)
        if bound is None:
            return False
        self.add(bound.format(text), self.evaluate(bound.format(text)) if bound != "{}" else value)
        return True

    def add(self, text, value):
        name = f"v{len(self.lines)}"
        self.lines.append(Line(name, text))
        self.values[name] = value
        self.order.append(name)

    def bound(self, value):
        """The form in which later lines may use a value; None: not at all."""
        size = largest(value)
        if size <= LARGE or (size != size and self.random.random() < 0.3):
            return "{}"
        if size != size:
            return None
        return "op_tanh({})" if value.dtype.is_floating_point else "op_remainder({}, 17)"

    def write_line(self, text):
        target = text[0] if isinstance(text, tuple) else None
        statement = text[1]
        before = self.values[target]
        if not self.executed(statement):
            return False
        if not largest(before) <= LARGE:
            self.executed(f"{target}.tanh_()" if before.dtype.is_floating_point else f"{target}.remainder_(17)")
        return True

    def executed(self, statement):
        """Whether eager runs a statement; it becomes a line then."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                exec(statement, self.scope, self.values)
            except REFUSALS:
                return False
        self.lines.append(Line(None, statement))
        return True

    # -- picking

    def pick(self, fits=lambda t: True):
        """A value's name, rather a late one; None where none fits."""
        names = [n for n in self.order if fits(self.values[n])]
        if not names:
            return None
        return names[-1 - int(len(names) * self.random.random() ** 2.5)]

    def pick_float(self):
        return self.pick(lambda t: t.dtype.is_floating_point and t.numel() > 0)

    def dim(self, name):
        rank = self.values[name].dim()
        return self.random.randrange(rank) if rank else 0

    def fit(self, slot, dtype):
        """An expression with the sizes and the kind of numbers of a slot."""
        if slot.kind == "given":
            return self.new_input(slot.sizes, slot.dtype, slot.array)
        if slot.kind == "ints":
            return self.new_input(slot.sizes, slot.dtype, slot.high)
        name = self.pick_float()
        if name is None or self.random.random() < 0.3:
            name = self.new_input(slot.sizes, dtype)
        text = self.shaped(name, slot.sizes)
        if self.values[name].dtype.name != dtype:
            text = f"{text}.to(dtypes.{dtype})"
        return self.ranged(text, slot.kind)

    @staticmethod
    def ranged(text, kind):
        forms = {
            "positive": "({}.abs() + 0.5)",
            "uniform": "({}.tanh() * 0.9)",
            "bools": "({} > 0)",
            "probabilities": "({}.sigmoid() * 0.98 + 0.01)",
        }
        return forms.get(kind, "{}").format(text)

    def shaped(self, name, sizes):
        t = self.values[name]
        if tuple(t.shape) == sizes:
            return name
        count = int(np.prod(sizes))
        flat = f"{name}.reshape(-1)" if t.dim() != 1 else name
        if count > t.numel():
            return f"{flat}[:1].expand({list(sizes)})" if sizes else f"{flat}[0]"
        return f"{flat}[:{count}].reshape({list(sizes)})"

    def spelled(self, op, args):
        return f"op_{op}({', '.join(args)})"

    # -- kinds of lines

    def map(self):
        """An elementwise record over values that broadcast."""
        r, name = self.random, self.random.choice(families()["maps"] if self.random.random() < 0.6 else MAPS_LIKED)
        op, row = OPS[name], r.choice(templates(name))
        first = self.pick(lambda t: t.dtype.is_floating_point) if r.random() < 0.7 else self.pick()
        if first is None:
            return None
        names = [
            self.operand(name, value, first, k) if isinstance(value, Slot) else constant_text(value)
            for k, value in enumerate(row)
        ]
        if name == "cast":
            return f"op_cast({names[0]}, dtypes.{r.choice(FLOATS[:2] + WHOLE)})"
        return self.spelled(name, names) if any(first in n for n in names) else None

    def operand(self, name, slot, first, at):
        r = self.random
        if at == 0 and slot.kind == "normal":
            return first
        if slot.dtype == "bool":
            found = self.pick(lambda t: t.dtype is dtypes.bool and broadcasts(t, self.values[first]))
            return found if found is not None and r.random() < 0.6 else f"({self.near(first)} > 0)"
        if slot.kind == "ints":
            return self.near(first)
        if at and name in WITH_NUMBERS and r.random() < 0.3:
            return constant_text(r.choice((0.5, 2, -1.5, 3, 0.0)))
        return self.ranged(self.near(first), slot.kind)

    def near(self, first):
        """A value that broadcasts with another."""
        found = self.pick(lambda t: broadcasts(t, self.values[first]))
        return first if found is None else found

    def reduction(self):
        r, name = self.random, self.random.choice(families()["reductions"])
        x = self.pick(
            lambda t: t.dim() > 0 and (name in OF_INTEGERS or t.dtype.is_floating_point) and (name in OF_NOTHING or t.numel() > 0)
        )
        if x is None:
            return None
        op, row = OPS[name], r.choice(templates(name))
        most = max(
            (len(v) for t in templates(name) for p, v in zip(op.params, t) if p.name == "dim" and type(v) is tuple), default=0
        )
        args = []
        for p, value in zip(op.params, row):
            if isinstance(value, Slot):
                value = x
            elif p.name in ("dim", "dims"):
                rank = self.values[x].dim()
                several = tuple(d for d in range(rank) if r.random() < 0.5 and most > 1) or (r.randrange(rank),)
                value = repr(
                    several if isinstance(value, tuple) else r.choice((None, self.dim(x))) if value is None else self.dim(x)
                )
            elif p.name == "keepdim":
                value = repr(r.random() < 0.4)
            else:
                value = constant_text(value)
            args.append(value)
        return self.spelled(name, args)

    def row(self):
        """softmax, running sums and others along one dim."""
        name = self.random.choice(families()["rows"])
        x = self.pick(lambda t: t.dim() > 0 and t.dtype.is_floating_point)
        if x is None:
            return None
        row = self.random.choice(templates(name))
        rest = [constant_text(v) for v in row[2:]] if not any(isinstance(v, Slot) for v in row[2:]) else []
        return self.spelled(name, [x, repr((self.dim(x),) if isinstance(row[1], tuple) else self.dim(x)), *rest])

    def sample(self):
        return self.sampled(self.random.choice(families()["samples"]))

    def extern(self):
        return self.sampled(self.random.choice(families()["externs"]))

    def sampled(self, name):
        """A record with its sample's sizes."""
        row = self.random.choice(templates(name))
        whole = self.dtype in FLOATS[:2] or name not in families()["externs"]
        dtype = self.dtype if whole and self.random.random() < 0.8 else "float32"
        spelled = [self.argument(v, dtype) for v in row]
        if "backward" in name:  # gradients come row-major from the engine
            spelled = [f"{text}.contiguous()" if isinstance(v, Slot) else text for v, text in zip(row, spelled)]
        return self.spelled(name, spelled)

    def argument(self, value, dtype):
        if isinstance(value, Slot):
            return self.fit(value, dtype)
        if isinstance(value, tuple) and any(isinstance(v, (Slot, tuple)) for v in value):
            return "(" + "".join(self.argument(v, dtype) + ", " for v in value) + ")"
        return constant_text(value)

    def view(self):
        x = self.pick()
        return self.view_of(x) if x else None

    def view_of(self, x):
        r, t = self.random, self.values[x]
        rank, sizes = t.dim(), tuple(t.shape)
        if not rank:
            return r.choice((f"{x}.unsqueeze(0)", f"{x}.expand(3)", f"{x}.reshape(1, 1)", f"{x}.detach()"))
        d, e = r.randrange(rank), r.randrange(rank)
        n = sizes[d]
        a, b = sorted((r.randrange(n + 1), r.randrange(n + 1)))
        cut = lambda inside: "[" + ":, " * d + inside + "]"
        order = list(range(rank))
        r.shuffle(order)
        total = int(np.prod(sizes))
        forms = [
            f"{x}.transpose({d}, {e - rank})",
            f"{x}.permute({order})",
            f"{x}{cut(f'{a}:{b}')}",
            f"{x}{cut(f'{a}:{b}')}",
            f"{x}{cut('::2')}",
            f"{x}{cut(f'{a}::3')}",
            f"{x}.unsqueeze({d})",
            f"{x}.squeeze()",
            f"{x}.squeeze({d})",
            f"{x}.reshape({total})",
            f"{x}.reshape(-1, {sizes[-1]})" if sizes[-1] else f"{x}.reshape(0)",
            f"{x}.flatten()",
            f"{x}.detach()",
            f"{x}.unsqueeze(0).expand({[2, *sizes]})",
            f"{x}.expand({[3 if m == 1 else m for m in sizes]})",
            f"{x}.contiguous()",
            f"{x}.flip({d})",
            f"{x}.roll({r.randrange(-3, 4)}, {d})",
            f"{x}.chunk(2, {d})[-1]",
            f"{x}.reshape({[m for p in (factors(m) for m in sizes) for m in p]})",
            f"{x}.repeat({[1] * (rank - 1) + [2]})",
            f"{x}.movedim({d}, {e})",
            f"{x}.reshape({list(sizes[::-1])})",
        ]
        if n:
            forms += [
                f"{x}{cut(str(r.randrange(n)))}",
                f"{x}{cut(str(-1 - r.randrange(n)))}",
                f"{x}.narrow({d}, {a}, {b - a})",
                f"{x}.select({d}, {r.randrange(n)})",
                f"{x}.unfold({d}, {min(n, 2)}, {r.choice((1, 2))})",
                f"{x}.split({max(1, n // 2)}, {d})[0]",
                f"{x}.unbind({d})[0]",
            ]
        if rank > 1:
            forms += [f"{x}.diagonal(0, {d}, {e})", f"{x}.t()" if rank == 2 else f"{x}.flatten(0, 1)", f"{x}.mT"]
        return r.choice(forms)

    def cast(self):
        x = self.pick()
        return f"{x}.to(dtypes.{self.random.choice(FLOATS + WHOLE)})" if x else None

    def write(self):
        """A statement that writes an input, a value, or a part of one."""
        r, x = self.random, self.pick()
        if x is None:
            return None
        t = self.values[x]
        place = x
        if t.dim() and r.random() < 0.45:
            seen = self.view_of(x)
            value = self.evaluate(seen)
            if isinstance(value, Tensor):
                place, t = seen, value
        self.values["v_target"] = t
        near = self.pick(lambda other: expands(other, t))
        number = constant_text(r.choice((0.5, 2, -1.5, 0.0, 3)))
        source = near if near is not None and r.random() < 0.75 else number
        del self.values["v_target"]
        forms = [
            f"{place}.add_({source})",
            f"{place}.mul_({source})",
            f"{place}.sub_({source})",
            f"{place}.copy_({near or x})",
            f"{place}.relu_()",
            f"{place}.tanh_()",
            f"{place}.neg_()",
            f"{place}.zero_()",
            f"{place}.fill_({number})",
            f"{place}.clamp_(-1, 1)",
            f"{place}.masked_fill_({self.mask(place, t)}, {number})",
            f"{place}.add_({source}, alpha=2)",
            f"{place}[...] = {source}",
        ]
        if place != x and place.endswith("]"):
            forms += [f"{place} = {source}"] * 4
        if "reshape" in place or "contiguous" in place or "flip" in place or "roll" in place:
            return None  # writes into a copy
        return x, r.choice(forms)

    def mask(self, place, t):
        found = self.pick(lambda m: m.dtype is dtypes.bool and expands(m, t))
        return found or f"({place} > 0.25)"

    def product(self):
        r = self.random
        x = self.pick(lambda t: t.dim() >= 1 and t.dtype.is_floating_point)
        if x is None:
            return None
        t = self.values[x]
        inner = t.shape[-1]
        same = lambda o: o.dtype is t.dtype and o.dim() >= 1
        right = self.pick(lambda o: same(o) and o.dim() >= 2 and o.shape[-2] == inner)
        turned = self.pick(lambda o: same(o) and o.dim() >= 2 and o.shape[-1] == inner)
        if right is not None and r.random() < 0.5:
            return f"{x} @ {right}"
        if turned is not None and r.random() < 0.6:
            return f"{x} @ {turned}.mT"
        weight = self.new_input((r.choice((1, 3, 4, 8, 17)), inner), t.dtype.name)
        bias = self.new_input((self.values[weight].shape[0],), t.dtype.name) if r.random() < 0.6 else "None"
        return r.choice((f"op_linear({x}, {weight}, {bias})", f"{x} @ {weight}.mT", f"(op_linear({x}, {weight}, {bias})).relu()"))

    def joined(self):
        r, x = self.random, self.pick(lambda t: t.dim() > 0)
        if x is None:
            return None
        d, t = self.dim(x), self.values[x]
        fits = lambda o: o.dim() == t.dim() and all(a == b or k == d for k, (a, b) in enumerate(zip(o.shape, t.shape)))
        others = [self.pick(fits) for _ in range(r.choice((1, 2)))]
        parts = [x, *others]
        r.shuffle(parts)
        return f"flambeau.{'stack' if r.random() < 0.3 else 'cat'}([{', '.join(parts)}], {d})"

    def index(self, sizes, high):
        """A tensor of indices: an input, or one there is."""
        name = self.pick(lambda t: t.dtype is dtypes.int64 and tuple(t.shape) == tuple(sizes) and inside(t, high))
        return name or self.new_input(sizes, "int64", high)

    def looked_up(self):
        r, x = self.random, self.pick(lambda t: t.dim() > 0 and t.numel() > 0)
        if x is None:
            return None
        t, d = self.values[x], self.dim(x)
        n = t.shape[d]
        count = r.choice((1, 2, 3, 5))
        index = self.index((count,), n)
        shape = tuple(count if k == d else m for k, m in enumerate(t.shape))
        return r.choice(
            (
                f"{x}.index_select({d}, {index})",
                f"{x}[{':, ' * d}{index}]",
                f"{x}[{':, ' * d}{index} - 1]",
                f"op_gather({x}, {d}, {self.index(shape, n)})",
                f"{x}.take_along_dim({self.index(shape, n)}, {d})",
            )
        )

    def scattered(self):
        """Statements that write where tensors tell; of values, not of views."""
        r, x = self.random, self.pick(lambda t: t.dim() > 0 and t.numel() > 0)
        if x is None:
            return None
        t, d = self.values[x], self.dim(x)
        n, count = t.shape[d], r.choice((1, 2, 4))
        shape = tuple(count if k == d else m for k, m in enumerate(t.shape))
        source = self.new_input(shape, t.dtype.name)
        index = self.index((count,), n)
        forms = [
            f"{x}.index_add_({d}, {index}, {source})",
            f"{x}.scatter_add_({d}, {self.index(shape, n)}, {source})",
            f"{x}.index_fill_({d}, {index}, 0.5)",
        ]
        if count == 1:
            forms += [f"{x}.index_copy_({d}, {index}, {source})", f"{x}[{':, ' * d}{index}] = {source}"]
        return x, r.choice(forms)


def largest(t):
    array = t._fl_array
    if not array.size or array.dtype.kind == "b":
        return 0.0
    return float(np.abs(array.astype(np.float64)).max())


def inside(t, high):
    return t.numel() and t._fl_array.min() >= -0 and t._fl_array.max() < high


def broadcasts(a, b):
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a.shape), reversed(b.shape)))


def expands(a, b):
    """Whether `a` fits into the sizes of `b`."""
    return a.dim() <= b.dim() and all(m in (1, n) for m, n in zip(reversed(a.shape), reversed(b.shape)))


def factors(n):
    return (2, n // 2) if n and n % 2 == 0 else (n,)


def draw(seed):
    """The program of a seed. One that eager refuses as a whole is drawn again: it read an index out of random numbers, of which
    a call has others than its lines had while they were drawn."""
    for again in range(10):
        flambeau.manual_seed(5)
        program = Drawer(f"{seed} again {again}" if again else seed).program()
        try:
            show(program.function(), program)
        except REFUSALS:
            continue
        return program
    raise ValueError(f"no program of seed {seed} runs")

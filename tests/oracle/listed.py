"""Programs for names: each line `name name ...: program`, indented lines go on. A program says what it compares by `r`.

In: the texts of listed_*.py. Out: `PROGRAMS`, {names: source}; `call(library, source, compiled)` runs one on a library and
gives plain data. What a program may use is in `tools`: `t` (the library), nn, F, S (schedules), tensors X, Y (3, 4), I
(3, 4, whole numbers), LABELS (3), IMAGE4 (2, 4, 5, 5), SEQUENCE (2, 3, 4), and the helpers below. `layer(m, *inputs)`
stands for `r = layer(...)`: outputs, gradients of inputs and weights, and the names of what the module keeps.
"""

import importlib
import inspect
import os
import re
import tempfile
import textwrap
import warnings

import numpy as np

from . import listed_layers, listed_tensors, listed_training


def parsed(text):
    """{tuple of names: source}"""
    programs, names = {}, None
    for line in text.strip().splitlines():
        if line.startswith(" "):
            programs[names].append(line[4:])
        elif line:
            head, _, source = f"{line} ".partition(": ")
            names = tuple(head.split())
            programs[names] = [source]
    return {names: re.sub(r"(?<![\w.])layer\(", "r = layer(", "\n".join(lines)) for names, lines in programs.items()}


PROGRAMS = {
    names: source for part in (listed_layers, listed_tensors, listed_training) for names, source in parsed(part.TEXT).items()
}


def spoken(name, source):
    """Whether a source has the last part of a name (`op:a/b`: of one of them), also with the in-place underscore."""
    last = name.removeprefix("op:").split("/") if name.startswith("op:") else [name.rpartition(".")[2]]
    return any(re.search(rf"(?<![A-Za-z0-9_]){re.escape(each)}_?(?![A-Za-z0-9_])", source) for each in last)


class Tools:
    """What programs of one library use; `compiled`: layers run compiled by this backend."""

    def __init__(self, t, folder, compiled):
        self.t, self.compiled = t, compiled
        self.scope = dict(
            t=t,
            nn=t.nn,
            F=t.nn.functional,
            S=importlib.import_module(t.__name__ + ".optim.lr_scheduler"),
            np=np,
            os=os,
            inspect=inspect,
            importlib=importlib,
            FOLDER=folder,
            X=self.filled(3, 4),
            Y=self.filled(3, 4, salt=1),
            I=t.arange(12).reshape(3, 4) * 5 % 7,
            LABELS=t.tensor([2, 1, 3]),
            IMAGE4=self.filled(2, 4, 5, 5),
            SEQUENCE=self.filled(2, 3, 4),
            filled=self.filled,
            fill=self.fill,
            leaf=self.leaf,
            layer=self.layer,
            steps=self.steps,
            rates=self.rates,
            initialised=self.initialised,
            near=near,
            Net=self.net_class(),
        )

    def filled(self, *shape, salt=0):
        """Numbers in (-1, 1) from integer arithmetic."""
        drawn = (np.arange(int(np.prod(shape))) * 7919 + 104729 * (salt + 1)) % 10007
        return self.t.from_numpy((drawn / 5003.5 - 1).astype("float32")).reshape(shape)

    def leaf(self, *shape):
        return self.filled(*shape, salt=2).requires_grad_()

    def fill(self, module):
        """The module with weights that both libraries have."""
        with self.t.no_grad():
            for k, (_, p) in enumerate(sorted(module.named_parameters())):
                p.copy_(self.filled(*p.shape, salt=k + 3) * 0.7)
        return module

    def initialised(self, module, x):
        module(x)
        return module

    def net_class(self):
        nn = self.t.nn

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.first = nn.Linear(4, 3)
                self.inner = nn.Sequential(nn.BatchNorm1d(3), nn.Tanh())

            def forward(self, x):
                return self.inner(self.first(x))

        return Net

    def layer(self, module, *inputs):
        self.fill(module)
        inputs = [x.clone().requires_grad_() if x.is_floating_point() else x for x in inputs]
        run = self.t.compile(module, backend=self.compiled) if self.compiled else module
        out = run(*inputs)
        outs = tensors(self.t, out)
        sum((o * self.filled(*o.shape, salt=9)).sum() for o in outs if o.requires_grad).backward()
        return [outs, [x.grad for x in inputs], [p.grad for _, p in sorted(module.named_parameters())], list(module.state_dict())]

    def steps(self, make, count=4):
        """Where an optimizer leads two parameters."""
        params = [self.t.nn.Parameter(self.filled(3)), self.t.nn.Parameter(self.filled(2, 2))]
        optimizer = make(params)
        for k in range(count):
            optimizer.zero_grad()
            sum(((p - k) ** 2).sum() for p in params).backward()
            optimizer.step()
        return params

    def rates(self, make, count=7):
        """The learning rates of a schedule."""
        optimizer = self.t.optim.SGD([self.leaf(2)], 1.0)
        schedule, found = make(optimizer), []
        for _ in range(count):
            found += [optimizer.param_groups[0]["lr"], *schedule.get_last_lr()]
            optimizer.step()
            schedule.step()
        return found


def near(value, expected, within=0.1):
    """Of a random number: whether it is as expected, else the number itself."""
    return True if abs(float(value) - expected) <= within else float(value)


def tensors(t, value):
    if isinstance(value, t.Tensor):
        return [value]
    return [e for part in value for e in tensors(t, part)] if isinstance(value, (tuple, list)) else []


def plain(t, value):
    """Plain data: of a tensor type, sizes and numbers."""
    if isinstance(value, t.Tensor):
        value = value.detach()
        wide = value.float() if value.dtype in (t.bfloat16, t.float16) else value
        return str(value.dtype), tuple(value.shape), np.array(wide.resolve_conj().numpy())
    if isinstance(value, (t.dtype, t.device)):
        return str(value)
    if isinstance(value, dict):
        return {k: plain(t, v) for k, v in value.items()}
    return [plain(t, v) for v in value] if isinstance(value, (tuple, list)) else value


def call(t, source, compiled=None):
    """What the program of this source makes on the library; compiled: its layers are, or else all of it."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        t.manual_seed(0)
        scope = Tools(t, folder, compiled).scope
        exec(compile(f"def program():\n{textwrap.indent(source, '    ')}\n    return r\n", "<listed>", "exec"), scope)
        program = scope["program"]
        if compiled and "layer(" not in source:
            program = t.compile(program, backend=compiled)
        return plain(t, program())


def agree(ours, theirs, where="r"):
    """The first difference, or ""."""
    if isinstance(theirs, np.ndarray) and isinstance(ours, np.ndarray):
        close = (
            ours.shape == theirs.shape
            and ours.dtype == theirs.dtype
            and (
                np.allclose(ours, theirs, 2e-4, 2e-5, equal_nan=True)
                if theirs.dtype.kind in "fc"
                else np.array_equal(ours, theirs)
            )
        )
        return "" if close else f"{where}:\n{ours}\ntorch\n{theirs}"
    if isinstance(theirs, (list, tuple)) and isinstance(ours, (list, tuple)) and len(ours) == len(theirs):
        return next((d for k, (a, b) in enumerate(zip(ours, theirs)) for d in [agree(a, b, f"{where}[{k}]")] if d), "")
    if isinstance(theirs, dict) and isinstance(ours, dict) and list(ours) == list(theirs):
        return next((d for k in theirs for d in [agree(ours[k], theirs[k], f"{where}[{k!r}]")] if d), "")
    if isinstance(theirs, float) and isinstance(ours, float):
        return "" if ours == theirs or abs(ours - theirs) <= 1e-5 * max(1, abs(theirs)) else f"{where}: {ours}, torch {theirs}"
    same = type(ours) is type(theirs) and (named(ours) == named(theirs))
    return "" if same else f"{where}: {ours!r}, torch {theirs!r}"


def named(value):
    """Texts, whose library's name is left out."""
    return value.replace("flambeau", "torch") if isinstance(value, str) else value

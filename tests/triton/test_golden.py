"""The text of the kernels of ten graphs. Each also runs, and equals eager."""

import pytest
import flambeau
from flambeau.inductor.triton.codegen import generate
from flambeau.runtime.config import config

from ..test_ops_compiled import near
from .graphs import GRAPHS


@pytest.mark.parametrize("name", GRAPHS)
def test_text(name, programs, golden):
    f, shapes = GRAPHS[name]
    inputs = [flambeau.randn(*s) for s in shapes]
    compiled = flambeau.compile(f, backend="triton")
    flambeau.manual_seed(1)
    wanted = f(*inputs)
    flambeau.manual_seed(1)
    with config.patch(strict=True):
        found = compiled(*inputs)
    for a, b in zip(found if isinstance(found, tuple) else (found,), wanted if isinstance(wanted, tuple) else (wanted,)):
        near(a, b, name, strided=False)
    text = generate(programs[-1]).text
    golden(f"{name}.txt", text[text.index("\n# ") + 1:text.index("\n\n\ndef cdiv")] + "\n")

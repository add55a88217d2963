"""`import torch` gives flambeau: each case is a fresh process, as the alias lasts as long as one."""

import subprocess
import sys
import textwrap

import pytest


def run(program, alias=True):
    start = "import flambeau; flambeau.alias_torch()\n" if alias else ""
    done = subprocess.run([sys.executable, "-c", start + textwrap.dedent(program)], capture_output=True, text=True)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def test_paths_are_the_same_modules():
    code, out, err = run("""
        import torch, torch.nn as nn, torch.nn.functional as F, torch.utils.data, torch.optim.lr_scheduler
        from torch import Tensor
        from torch.utils.data import DataLoader, Dataset
        from torch.nn.modules.module import Module
        import torch.backends.cudnn as cudnn
        import flambeau
        assert F is flambeau.nn.functional and nn is flambeau.nn and Module is flambeau.nn.Module
        assert Tensor is flambeau.Tensor and torch.add is flambeau.add
        assert torch.utils.data.DataLoader is flambeau.utils.data.DataLoader
        cudnn.benchmark = True
        flambeau.alias_torch()                          # twice is once
        assert sys.modules["torch"] is torch if (sys := __import__("sys")) else None
        print(torch.ones(2) + 1)
    """)
    assert (code, out) == (0, "tensor([2., 2.])"), err


def test_versions_and_specs():
    code, out, err = run("""
        import importlib.metadata, importlib.util, torch
        assert importlib.util.find_spec("torch") is not None and importlib.util.find_spec("torch.nn.functional")
        assert importlib.util.find_spec("torch.absent") is None
        assert importlib.metadata.version("torch") == torch.__version__ == torch.version.__version__
        print(importlib.metadata.metadata("torch")["Name"], torch.__version__)
    """)
    assert (code, out) == (0, "torch 2.13.0"), err


def test_missing_names_are_named():
    code, out, err = run("""
        import torch
        for statement in ("torch.no_such_thing", "from torch import no_such_thing", "import torch.no_such_thing",
                          "torch.nn.no_such_thing", "torch.onnx.export(None)", "torch.fx.Tracer(param_shapes_constant=True)"):
            try:
                exec(statement)
            except (AttributeError, ImportError, RuntimeError) as error:
                wanted = statement.split()[-1].rpartition(".")[2].split("(")[0]
                assert wanted in str(error), (statement, error)
            else:
                raise AssertionError(statement)
        assert not hasattr(torch, "no_such_thing")
    """)
    assert code == 0, err


def test_the_real_torch_is_not_replaced():
    code, out, err = run(
        """
        import sys, types
        sys.modules["torch"] = types.ModuleType("torch")
        sys.modules["torch"].__version__ = "2.13.0"
        import flambeau
        try:
            flambeau.alias_torch()
        except RuntimeError as error:
            print(error)
    """,
        alias=False,
    )
    assert code == 0 and "torch 2.13.0 is already imported" in out and "before anything imports torch" in out, err


def test_decorators_return_their_argument():
    code, out, err = run("""
        import torch
        def f(x): return x
        assert torch.jit.script(f) is f and torch.jit.ignore(f) is f and torch.jit.unused(f) is f
        assert torch.jit.ignore(drop=True)(f) is f and torch.fx.wrap("f") == "f" and torch.jit.is_scripting() is False
    """)
    assert code == 0, err


def test_spawned_workers_see_the_alias(tmp_path):
    (tmp_path / "rows.py").write_text(
        textwrap.dedent("""
        import torch
        class Rows(torch.utils.data.Dataset):
            def __len__(self): return 4
            def __getitem__(self, i): return torch.full((2,), float(i))
    """)
    )
    code, out, err = run(f"""
        import sys; sys.path.insert(0, {str(tmp_path)!r})
        import torch, rows
        from torch.utils.data import DataLoader
        if __name__ == "__main__":
            loader = DataLoader(rows.Rows(), batch_size=2, num_workers=1, multiprocessing_context="spawn")
            print([b.tolist() for b in loader])
    """)
    assert (code, out) == (0, "[[[0.0, 0.0], [1.0, 1.0]], [[2.0, 2.0], [3.0, 3.0]]]"), err


@pytest.mark.parametrize("name", ["cuda", "backends.mps", "mps", "xpu"])
def test_absent_devices_say_so(name):
    code, out, err = run(f"import torch; print(torch.{name}.is_available())")
    assert (code, out) == (0, "False"), err


CHILDREN = """
    import sys; sys.path.insert(0, {folder!r})
    import flambeau
    {first}flambeau.alias_torch()
    import multiprocessing, torch, rows
    {last}flambeau.alias_torch()
    if __name__ == "__main__":
        for method in ("fork", "spawn", "forkserver"):
            with multiprocessing.get_context(method).Pool(1) as pool:
                print(method, pool.apply(rows.total, (torch.ones(3), rows.Kept(2))))
"""


@pytest.mark.parametrize("early", [True, False])
def test_children_of_plain_multiprocessing_have_the_alias(tmp_path, early):
    """However they are started, and whether multiprocessing was imported before the alias or after it."""
    (tmp_path / "rows.py").write_text(
        textwrap.dedent("""
        import torch
        class Kept:
            def __init__(self, n): self.x = torch.full((2,), float(n))
        def total(x, kept): return (x.sum() + kept.x.sum()).item()
    """)
    )
    program = textwrap.dedent(CHILDREN).format(
        folder=str(tmp_path), first="" if early else "import multiprocessing.spawn; ", last=""
    )
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run([sys.executable, str(tmp_path / "program.py")], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.split("\n") == ["fork 7.0", "spawn 7.0", "forkserver 7.0", ""], done.stderr

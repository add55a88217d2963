"""Eager on CUDA without a GPU: every record's samples and programs as people write them, on a strict stand-in for cupy.

The stand-in lives in processes of its own (sys.modules). `CUDA_TESTS=all` runs the samples in bfloat16 as well.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

import flambeau as torch

HERE = pathlib.Path(__file__).parent
ALL = os.environ.get("CUDA_TESTS") == "all"


def run(*arguments, check=True):
    return subprocess.run([sys.executable, *map(str, arguments)], cwd=HERE, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def records():
    done = run("records.py", *(("--halves",) if ALL else ()))
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_every_record_gives_what_it_gives_on_the_host(records):
    assert records["checked"] > 1000
    assert not records["failed"], json.dumps(records["failed"], indent=1)


ON_HOST = (
    "moved_columns moved_columns_backward ps_roi_pool ps_roi_pool_backward roi_align roi_align_backward roi_pool "
    "roi_pool_backward unsuppressed"
).split()  # torchvision's operators, whose kernels are for processors


def test_no_other_record_leaves_the_gpu(records):
    """Whatever has no kernel on a GPU runs on the host and is counted."""
    assert records["hosted"] == ON_HOST


def test_programs():
    done = run("programs.py")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert done.stdout.count(" ok\n") >= 21


def test_names_and_types_of_the_stand_in_are_cupys():
    """Where cupy is installed (no GPU is needed for this)."""
    pytest.importorskip("cupy")
    done = run("names.py")
    assert done.returncode == 0, done.stdout + done.stderr


needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")


@needs_no_gpu
def test_questions_without_a_gpu():
    cuda = torch.cuda
    assert not cuda.is_available() and cuda.device_count() == 0 and not cuda.is_initialized()
    assert cuda.memory_allocated() == cuda.max_memory_allocated() == cuda.memory_reserved() == 0 and cuda.memory_stats() == {}
    assert not cuda.is_bf16_supported() and cuda.get_arch_list() == [] and cuda.host_runs() == {}
    cuda.manual_seed(3), cuda.manual_seed_all(3), cuda.empty_cache(), cuda.reset_peak_memory_stats(), cuda.ipc_collect()
    with cuda.device(None), cuda.device(-1), cuda.stream(None):
        pass
    assert torch.device("cuda:1").index == 1


@needs_no_gpu
@pytest.mark.parametrize(
    "ask",
    [
        lambda: torch.ones(2, device="cuda"),
        lambda: torch.ones(2).cuda(),
        lambda: torch.ones(2).to("cuda:0"),
        lambda: torch.nn.Linear(2, 2).cuda(),
        lambda: torch.tensor([1.0], device="cuda"),
        lambda: torch.cuda.synchronize(),
        lambda: torch.cuda.Stream(),
        lambda: torch.cuda.Event(),
        lambda: torch.cuda.current_device(),
        lambda: torch.cuda.get_device_name(),
        lambda: torch.rand(3, device="cuda"),
        lambda: torch.ones(2).untyped_storage().cuda(),
    ],
)
def test_work_without_a_gpu_says_what_to_install(ask):
    with pytest.raises(RuntimeError, match="CUDA is not available: .*pip install cupy-cuda12x"):
        ask()

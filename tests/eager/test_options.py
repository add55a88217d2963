"""Options of factories and of calls beside the values: each is honoured, or refused by name."""

import os
import subprocess
import sys

import pytest

import flambeau as fl

FACTORIES = {
    "zeros": lambda **o: fl.zeros(2, 3, **o),
    "ones": lambda **o: fl.ones(2, 3, **o),
    "empty": lambda **o: fl.empty(2, 3, **o),
    "full": lambda **o: fl.full((2, 3), 1.0, **o),
    "arange": lambda **o: fl.arange(3, **o),
    "range": lambda **o: fl.range(0, 3, **o),
    "linspace": lambda **o: fl.linspace(0, 1, 3, **o),
    "logspace": lambda **o: fl.logspace(0, 1, 3, **o),
    "eye": lambda **o: fl.eye(3, **o),
    "rand": lambda **o: fl.rand(2, **o),
    "randn": lambda **o: fl.randn(2, **o),
    "randint": lambda **o: fl.randint(3, (2,), **o),
    "randperm": lambda **o: fl.randperm(3, **o),
    "empty_strided": lambda **o: fl.empty_strided((2, 3), (3, 1), **o),
    "zeros_like": lambda **o: fl.zeros_like(fl.ones(2), **o),
    "ones_like": lambda **o: fl.ones_like(fl.ones(2), **o),
    "empty_like": lambda **o: fl.empty_like(fl.ones(2), **o),
    "full_like": lambda **o: fl.full_like(fl.ones(2), 2, **o),
    "rand_like": lambda **o: fl.rand_like(fl.ones(2), **o),
    "randn_like": lambda **o: fl.randn_like(fl.ones(2), **o),
    "randint_like": lambda **o: fl.randint_like(fl.ones(2), 3, **o),
    "tril_indices": lambda **o: fl.tril_indices(2, 2, **o),
    "triu_indices": lambda **o: fl.triu_indices(2, 2, **o),
    "new_zeros": lambda **o: fl.ones(2).new_zeros(2, **o),
    "new_ones": lambda **o: fl.ones(2).new_ones(2, **o),
    "new_empty": lambda **o: fl.ones(2).new_empty(2, **o),
    "new_full": lambda **o: fl.ones(2).new_full((2,), 1, **o),
    "new_empty_strided": lambda **o: fl.ones(2).new_empty_strided((2,), (1,), **o),
    "empty_permuted": lambda **o: fl.empty_permuted((2, 3), (1, 0), **o),
    "hann_window": lambda **o: fl.hann_window(4, **o),
    "fftfreq": lambda **o: fl.fft.fftfreq(4, **o),
    "rfftfreq": lambda **o: fl.fft.rfftfreq(4, **o),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_layouts(name):
    make = FACTORIES[name]
    assert make(layout=fl.strided).shape == make().shape
    with pytest.raises(RuntimeError, match="torch.sparse_coo"):
        make(layout=fl.sparse_coo)


@pytest.mark.parametrize("name", ["zeros", "ones", "empty", "full"])
def test_names_are_refused(name):
    with pytest.raises(RuntimeError, match="names"):
        FACTORIES[name](names=("a", "b"))


@pytest.mark.parametrize(
    "make",
    [
        fl.empty_like,
        fl.zeros_like,
        fl.ones_like,
        fl.rand_like,
        fl.randn_like,
        lambda x, **o: fl.full_like(x, 2, **o),
        lambda x, **o: fl.randint_like(x, 5, **o),
    ],
)
def test_memory_formats_of_likes(make):
    x = fl.ones(2, 3, 4, 5)
    assert make(x, memory_format=fl.channels_last).is_contiguous(memory_format=fl.channels_last)
    last = x.contiguous(memory_format=fl.channels_last)
    assert make(last).is_contiguous(memory_format=fl.channels_last)
    assert make(last, memory_format=fl.contiguous_format).is_contiguous()
    with pytest.raises(RuntimeError, match="rank 4"):
        make(fl.ones(2), memory_format=fl.channels_last)


def test_memory_formats_of_conversions():
    x = fl.ones(2, 3, 4, 5)
    assert fl.empty(2, 3, 4, 5, memory_format=fl.channels_last).stride() == (60, 1, 15, 3)
    for convert in ("double", "float", "half", "cpu"):
        assert getattr(x, convert)(memory_format=fl.channels_last).stride() == (60, 1, 15, 3)
    with pytest.raises(RuntimeError, match="rank 4"):
        fl.empty(2, memory_format=fl.channels_last)


def test_out_of_frequencies():
    out = fl.empty(0)
    assert fl.fft.fftfreq(4, out=out) is out and out.tolist() == [0.0, 0.25, -0.5, -0.25]


@pytest.mark.parametrize("kind", [fl.float64, fl.complex128])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_lu_solve_on_both_sides(kind, left, adjoint):
    A, B = (fl.view_as_complex(fl.randn(2, 4, 4, 2, dtype=fl.float64)) for _ in range(2))
    A, B = (A, B) if kind.is_complex else (A.real.clone(), B.real.clone())
    X = fl.linalg.lu_solve(*fl.linalg.lu_factor(A), B, left=left, adjoint=adjoint)
    M = A.mH if adjoint else A
    assert fl.allclose(M @ X if left else X @ M, B)


def test_lu_without_pivots_is_refused():
    for call in (fl.linalg.lu, fl.linalg.lu_factor):
        with pytest.raises(RuntimeError, match="pivot"):
            call(fl.eye(3), pivot=False)


def test_lu_unpacks_what_is_asked():
    LU, pivots = fl.linalg.lu_factor(fl.randn(3, 3))
    P, L, U = fl.lu_unpack(LU, pivots, unpack_pivots=False)
    assert P.numel() == 0 and L.shape == (3, 3)
    P, L, U = fl.lu_unpack(LU, pivots, unpack_data=False)
    assert P.shape == (3, 3) and L.numel() == U.numel() == 0


def test_drivers_of_svd_are_refused():
    for call in (fl.linalg.svd, fl.linalg.svdvals):
        with pytest.raises(RuntimeError, match="driver"):
            call(fl.eye(3), driver="gesvd")


def test_svd_without_vectors():
    U, S, V = fl.svd(fl.tensor([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]]), compute_uv=False)
    assert S.tolist() == [4.0, 3.0] and U.shape == (3, 3) and V.shape == (2, 2) and not U.any() and not V.any()


def test_hermitian_reads_the_lower_triangle():
    A = fl.tensor([[2.0, 99.0], [1.0, 2.0]], dtype=fl.float64)
    full = fl.tensor([[2.0, 1.0], [1.0, 2.0]], dtype=fl.float64)
    assert fl.allclose(fl.linalg.pinv(A, hermitian=True), fl.linalg.inv(full))
    ones = fl.tensor([[1.0, 7.0], [1.0, 1.0]], dtype=fl.float64)
    assert fl.linalg.matrix_rank(ones, hermitian=True).item() == 1 and fl.linalg.matrix_rank(ones).item() == 2


def test_byte_order_of_buffers():
    bytes_ = b"\x01\x02\x03\x04"
    assert fl.UntypedStorage.from_buffer(bytes_, "big", dtype=fl.int16).tolist() == [2, 1, 4, 3]
    assert fl.UntypedStorage.from_buffer(bytes_, "little", dtype=fl.int16).tolist() == [1, 2, 3, 4]
    assert fl.UntypedStorage.from_buffer(bytes_, "native", count=1, offset=2, dtype=fl.int16).tolist() == [3, 4]


def test_refused_by_name():
    for call, name in (
        (lambda: fl.gather(fl.ones(2), 0, fl.tensor([0]), sparse_grad=True), "sparse_grad"),
        (lambda: fl.stft(fl.ones(64), 16, return_complex=True, align_to_window=True), "align_to_window"),
        (lambda: fl.func.jacfwd(fl.sin, randomness="none"), "randomness"),
        (lambda: fl.profiler.profile(with_modules=True), "with_modules"),
        (lambda: fl.library.Library("aten", "IMPL").impl("neg", abs, "CPU"), "aten"),
        (lambda: setattr(fl.backends.quantized, "engine", "qnnpack"), "qnnpack"),
    ):
        with pytest.raises(RuntimeError, match=name):
            call()


def test_kernels_for_other_devices_leave_the_cpu_alone():
    @fl.library.custom_op("options::twice", mutates_args=())
    def twice(x: fl.Tensor) -> fl.Tensor:
        return x * 2

    fl.library.register_kernel("options::twice", "cuda", lambda x: x * 100)
    fl.library.impl("options::twice", "CUDA", lambda x: x * 100)
    assert twice(fl.ones(1)).item() == 2
    fl.library.register_kernel("options::twice", ["cpu", "cuda"], lambda x: x * 3)
    assert twice(fl.ones(1)).item() == 3


def test_settings_that_do_not_exist():
    from flambeau.capture.dynamo import config

    with pytest.raises(AttributeError, match="recompile_limit"):
        config.recompile_limits = 3
    with pytest.raises(AttributeError, match="nonsense"):
        config.nonsense = 3
    with config.patch(fail_on_recompile_limit_hit=True):
        assert config.fail_on_recompile_limit_hit
    assert not hasattr(config, "fail_on_recompile_limit_hit")


def started(**variables):
    """What a new process says its logs and its dump folder are, and what it warns of."""
    code = "from flambeau.runtime.config import config; print(','.join(config.logs), config.dump)"
    env = {k: v for k, v in os.environ.items() if not k.startswith(("FLAMBEAU_LOGS", "FLAMBEAU_DUMP", "TORCH_"))}
    done = subprocess.run([sys.executable, "-c", code], env={**env, **variables}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def test_variables_of_pytorch():
    assert started(TORCH_LOGS="+graph_breaks,output_code,-guards")[0] == "breaks,kernels None"
    assert started(TORCH_LOGS="graph_breaks", FLAMBEAU_LOGS="cache")[0] == "cache None"
    assert started(TORCH_COMPILE_DEBUG="1")[0].endswith("torch_compile_debug")
    assert "distributed" in started(TORCH_LOGS="distributed")[1]

"""What Triton is not given, and why: such calls run by eager between launches, on a GPU by cupy and its libraries.

In: an `ExternCall` of a program. Out: the reason, in words that counters, notes and generated files show.
"""

from __future__ import annotations

from typing import Any

from ..loops.ir import View, leaves

_CHAIN = "its steps depend on each other"
_FACTORS = "factorisations are the vendor's library's"
_COMPLEX = "kernels have no complex numbers"
REASONS = {
    **dict.fromkeys(
        "inv det adjugate slogdet solve solve_triangular cholesky qr lu_factor row_order eigh svd eig matrix_exp".split(),
        _FACTORS,
    ),
    **dict.fromkeys(("fft_c2c", "fft_r2c", "fft_c2r"), "Fourier transforms are the vendor's library's"),
    **dict.fromkeys(
        "ctc_loss ctc_loss_backward lstm_sequence lstm_sequence_backward gru_sequence gru_sequence_backward "
        "rnn_sequence rnn_sequence_backward".split(),
        _CHAIN,
    ),
    "cast": "kernels compute in types of their own: no complex numbers, and float8 from and to float32 and halves only",
    **dict.fromkeys("complex conj angle sgn real imag view_as_real view_as_complex".split(), _COMPLEX),
    **dict.fromkeys(("gamma_draw", "gamma_slope"), "it draws by rejection, a number of times that only the draws tell"),
    **dict.fromkeys(
        "roi_align roi_align_backward roi_pool roi_pool_backward ps_roi_pool ps_roi_pool_backward moved_columns "
        "moved_columns_backward".split(),
        "bins of boxes and moved taps have kernels for the CPU only",
    ),
    "unsuppressed": _CHAIN,
    "gemm": "tensor cores multiply floating matrices",
    "grouped_mm": "sizes of its groups are data",
    "searchsorted": "a search of one row by all is no loop over elements",
    "sort": "rows are sorted by one program up to a known length",
    "topk": "rows are sorted by one program up to a known length",
}


def fallback_reason(kernel: Any) -> str:
    """The reason that a call runs eagerly."""
    if any(v.dtype.is_complex for v in (*leaves(kernel.args, View), *kernel.outputs)):
        return _COMPLEX
    return REASONS.get(kernel.op.name, "there is no scalar primitive for it")


def call_text(kernel: Any) -> str:
    """The call with its operands."""
    views = ", ".join(f"{v.dtype.name}[{', '.join(map(str, v.sizes))}]" for v in leaves(kernel.args, View))
    return f"{kernel.op.name}({views})"


def fallback_note(kernel: Any) -> str:
    """One line for notes: the call, where it stands, and why it is no kernel."""
    where = next((f" at {o.line}" for o in kernel.origins if o.line), "")
    return f"{call_text(kernel)}{where} runs eagerly between launches: {fallback_reason(kernel)}"

"""Short-time Fourier transforms: overlapping windowed pieces of a signal, and the signal back from them."""

import numpy as np

from . import dtypes
from .fft import fft, ifft, irfft, rfft
from .nn import functional as F
from .ops import complex_numbers as c
from .ops.rearrange import pad
from .tensor import Tensor, install_methods


def frame(x, window, n_fft, hop_length, center, pad_mode):
    """(batch, frames, n_fft): overlapping pieces, windowed."""
    if center:
        x = F.pad(x.unsqueeze(1), (n_fft // 2, n_fft // 2), pad_mode).squeeze(1)
    return x.unfold(-1, n_fft, hop_length) * window


def _window(window, win_length, n_fft, like):
    w = like.new_ones(win_length) if window is None else window
    left = (n_fft - win_length) // 2
    return pad(w, ((left, n_fft - win_length - left),), 0) if win_length < n_fft else w


def stft(
    input,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    pad_mode="reflect",
    normalized=False,
    onesided=None,
    return_complex=None,
    align_to_window=None,
):
    """Short-time transforms: (*, frequencies, frames)."""
    if return_complex is None and not input.dtype.is_complex:
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs, and will further "
            "require that return_complex=True in a future PyTorch release."
        )
    if align_to_window is not None:
        raise RuntimeError("stft: align_to_window is not supported: frames are as long as n_fft; leave it out")
    hop, length = hop_length or n_fft // 4, win_length or n_fft
    x = input.unsqueeze(0) if input.ndim == 1 else input
    frames = frame(x, _window(window, length, n_fft, x), n_fft, hop, center, pad_mode)
    onesided = not frames.dtype.is_complex if onesided is None else onesided
    norm = "ortho" if normalized else None
    out = (rfft(frames, norm=norm) if onesided else fft(frames, norm=norm)).transpose(1, 2)
    out = out.squeeze(0) if input.ndim == 1 else out
    return out if return_complex or return_complex is None else c.view_as_real(out.contiguous())


def istft(
    input,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    normalized=False,
    onesided=None,
    length=None,
    return_complex=False,
):
    """The signal whose short-time transforms fit best: overlapping frames added, divided by the windows' squares."""
    hop, width = hop_length or n_fft // 4, win_length or n_fft
    x = (input.unsqueeze(0) if input.ndim == 2 else input).transpose(1, 2)
    onesided = x.shape[-1] != n_fft if onesided is None else onesided
    norm = "ortho" if normalized else None
    frames = irfft(x, n_fft, norm=norm) if onesided else ifft(x, norm=norm)
    frames = frames if return_complex or not frames.dtype.is_complex else c.real(frames)
    w = _window(window, width, n_fft, frames)
    count = frames.shape[1]
    total = n_fft + hop * (count - 1)
    places = Tensor._fl_from_array(np.add.outer(np.arange(count) * hop, np.arange(n_fft)).reshape(-1), dtypes.int64).to(
        input.device
    )
    signal = frames.new_zeros(frames.shape[0], total).index_add(1, places, (frames * w).reshape(frames.shape[0], -1))
    weight = w.new_zeros(total).index_add(0, places, (w * w).expand(count, n_fft).reshape(-1))
    start = n_fft // 2 if center else 0
    end = total - start if length is None else start + length
    if end > total:
        signal, weight = (pad(t, tuple((0, 0) for _ in t.shape[:-1]) + ((0, end - total),), 0) for t in (signal, weight))
    signal, weight = signal[..., start:end], weight[start:end]
    if bool((weight[: min(end, total) - start].abs() < 1e-11).any()):
        raise RuntimeError("window overlap add min: 1")
    out = signal / weight.clamp(min=1e-11) if end > total else signal / weight
    return out.squeeze(0) if input.ndim == 2 else out


install_methods({"stft": stft, "istft": istft})

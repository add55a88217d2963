"""torch.masked: there are no masked tensors."""

from .. import missing

_ADVICE = "there are no masked tensors; torch.where, masked_fill and masked_select take a mask"
globals().update(
    missing.functions(
        "torch.masked",
        "amax amin argmax argmin as_masked_tensor cumprod cumsum is_masked_tensor log_softmax logaddexp logsumexp "
        "masked_tensor mean median norm normalize prod softmax softmin std sum var",
        _ADVICE,
    )
)
globals().update(missing.kinds("torch.masked", "MaskedTensor", _ADVICE))

"""torch.nested: there are no nested tensors."""

from .. import missing

_ADVICE = "there are no nested tensors; nn.utils.rnn.pad_sequence makes one tensor of rows of unlike length"
globals().update(
    missing.functions(
        "torch.nested", "to_padded_tensor as_nested_tensor nested_tensor nested_tensor_from_jagged narrow masked_select", _ADVICE
    )
)

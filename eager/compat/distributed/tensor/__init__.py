"""torch.distributed.tensor: packages ask whether a tensor is a DTensor, which none is; making one raises."""

from ... import missing

globals().update(missing.kinds("torch.distributed.tensor", "DTensor", "tensors lie on one device of one process"))

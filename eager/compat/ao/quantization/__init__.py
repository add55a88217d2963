"""torch.ao.quantization: float models only. Stubs are identities, as in PyTorch before `convert`; converting raises."""

from ....nn.modules.module import Module
from ... import missing


class QuantStub(Module):
    """Returns its input until a model is converted, which raises here."""

    def __init__(self, qconfig=None):
        super().__init__()

    def forward(self, x):
        return x


class DeQuantStub(QuantStub):
    """Returns its input."""


class QuantWrapper(Module):
    """quant, module, dequant."""

    def __init__(self, module):
        super().__init__()
        self.quant, self.dequant, self.module = QuantStub(), DeQuantStub(), module

    def forward(self, x):
        return self.dequant(self.module(self.quant(x)))


globals().update(
    missing.functions(
        "torch.ao.quantization",
        """prepare prepare_qat convert fuse_modules fuse_modules_qat
get_default_qconfig get_default_qat_qconfig quantize quantize_dynamic default_observer default_weight_observer
default_per_channel_weight_observer""",
        "there is no quantisation",
    )
)
QConfig = missing.kind("torch.ao.quantization.QConfig", "there is no quantisation")

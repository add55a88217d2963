"""torch.onnx: there is no exporter; symbolic registrations at import time are accepted and unused."""

from .. import missing

_ADVICE = "there is no ONNX exporter"
export = missing.function("torch.onnx.export", _ADVICE)
dynamo_export = missing.function("torch.onnx.dynamo_export", _ADVICE)


def is_in_onnx_export():
    return False


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version):
    """Nothing exports, so the function is never called."""


def unregister_custom_op_symbolic(symbolic_name, opset_version):
    """Nothing was registered."""


class OperatorExportTypes:
    ONNX, ONNX_ATEN, ONNX_ATEN_FALLBACK = range(3)


class TrainingMode:
    EVAL, PRESERVE, TRAINING = range(3)

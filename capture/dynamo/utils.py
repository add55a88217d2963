"""torch._dynamo.utils: questions about the compiler."""


def is_compile_supported(device_type):
    """Whether functions on this device can be compiled."""
    return device_type == "cpu"

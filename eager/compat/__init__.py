"""Names that PyTorch code imports and this library has no work for: scripting marks, backend switches, absent devices.

Each module says what its names do here: nothing (and why that is right), or an error that names the symbol. They are
public under PyTorch's paths (`flambeau.jit`, `flambeau.backends.cudnn`) and are imported when first asked for.
"""

"""torch.backends.quantized: there is no quantised engine."""

engine = "none"
supported_engines = ["none"]

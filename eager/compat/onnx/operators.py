"""torch.onnx.operators: named by registrations; there is no exporter to use it."""

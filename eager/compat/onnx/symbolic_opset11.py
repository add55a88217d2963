"""torch.onnx.symbolic_opset11: named by registrations; there is no exporter to use it."""

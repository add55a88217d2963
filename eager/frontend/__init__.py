"""PyTorch's names and arguments for what the op records do: each function parses its arguments and calls a record."""

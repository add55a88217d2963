"""The tensor runtime: tensors, op records, autograd, nn, optim, data. `api` is its list of public names; importing that
defines every op."""

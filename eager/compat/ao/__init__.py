"""torch.ao: quantisation names."""

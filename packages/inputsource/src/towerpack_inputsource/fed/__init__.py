"""Sources whose tensors are fed with each session call."""

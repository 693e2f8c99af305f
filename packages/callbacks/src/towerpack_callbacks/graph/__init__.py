"""Questions about a finished graph: tensors by name, gradients, what depends on what."""

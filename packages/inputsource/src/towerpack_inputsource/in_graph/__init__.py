"""Sources with tensors computed by TensorFlow."""

"""Sources whose tensors TensorFlow computes by itself."""

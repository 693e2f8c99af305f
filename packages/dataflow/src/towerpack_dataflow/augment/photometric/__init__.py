"""Changes of pixel values: colours, brightness, noise, normalisation."""

"""Augmentation policies: randomly chosen operations, and mixtures of the images of a batch."""

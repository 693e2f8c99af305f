"""Augmentation policies: randomly chosen operations, and mixtures of the images of a batch."""

from ._mixing import CutMix, MixUp
from ._rand_augment import RandAugment, TrivialAugment

__all__ = ["CutMix", "MixUp", "RandAugment", "TrivialAugment"]

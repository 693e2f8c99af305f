"""Generative adversarial networks: two networks, their costs, and trainers that alternate between them."""

from ._adversarial_costs import (
    GANCosts,
    every_k_steps,
    gradient_penalty,
    hinge_costs,
    least_squares_costs,
    minimax_costs,
    non_saturating_costs,
    r1_penalty,
    wasserstein_costs,
)
from ._gan_model import GANModelDesc
from ._gan_trainers import GANTrainer, MultiGPUGANTrainer, SeparateGANTrainer

__all__ = [
    "GANCosts",
    "GANModelDesc",
    "GANTrainer",
    "MultiGPUGANTrainer",
    "SeparateGANTrainer",
    "every_k_steps",
    "gradient_penalty",
    "hinge_costs",
    "least_squares_costs",
    "minimax_costs",
    "non_saturating_costs",
    "r1_penalty",
    "wasserstein_costs",
]

"""torchvision v2 and Albumentations in PyTorch's DataLoader, as their documents advise on two cores.

Images are tensors of uint8 until they are normalised, and workers have one thread each.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from _images_files import paths
from _images_row import AREA, ASPECT, BATCH, COUNT, FACTORS, JITTER, MEAN, SIZE, STD, Run, passes
from _loaders import Cycle, one_thread


def decode_torchvision(path: str) -> np.ndarray:
    """A picture as torchvision decodes it."""
    from torchvision.io import ImageReadMode, decode_image

    return decode_image(path, mode=ImageReadMode.RGB).permute(1, 2, 0).numpy()


def torchvision(folder: str) -> Run:
    """v2 on tensors."""
    import torch
    from torchvision.io import ImageReadMode, decode_image
    from torchvision.transforms import v2

    recipe = v2.Compose(
        [
            # Antialiased as its documents advise; without it, tensors take as long.
            v2.RandomResizedCrop(SIZE, AREA, ASPECT, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.ColorJitter(JITTER, JITTER, JITTER),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN.tolist(), STD.tolist()),
        ]
    )
    return loader(folder, lambda path: recipe(decode_image(path, mode=ImageReadMode.RGB)))


def albumentations(folder: str, half: bool = False) -> Run:
    """Albumentations over OpenCV."""
    os.environ["NO_ALBUMENTATIONS_UPDATE"] = "1"  # otherwise it looks up its newest version online
    import albumentations as A
    import cv2
    from albumentations.pytorch import ToTensorV2

    recipe = A.Compose(
        [
            A.RandomResizedCrop((SIZE, SIZE), AREA, ASPECT),
            A.HorizontalFlip(),
            A.ColorJitter(FACTORS, FACTORS, FACTORS, (0, 0), p=1),
            A.Normalize(MEAN.tolist(), STD.tolist()),
            ToTensorV2(),
        ]
    )

    def load(path: str) -> Any:
        if half:
            image = cv2.cvtColor(cv2.imread(path, cv2.IMREAD_REDUCED_COLOR_2), cv2.COLOR_BGR2RGB)
        else:
            image = cv2.imread(path, cv2.IMREAD_COLOR_RGB)
        return recipe(image=image)["image"]

    return loader(folder, load)


def albumentations_halved(folder: str) -> Run:
    """Over pictures that OpenCV decodes at half their height and width."""
    return albumentations(folder, half=True)


def loader(folder: str, load: Any) -> Run:
    """Two workers, which stay from pass to pass."""
    from torch.utils.data import DataLoader

    names = paths(folder, COUNT)
    batches = DataLoader(
        Cycle(lambda number: load(names[number]), COUNT),
        BATCH,
        num_workers=2,
        persistent_workers=True,
        multiprocessing_context="fork",
        worker_init_fn=lambda _: one_thread(),
    )
    return passes(lambda: batches)

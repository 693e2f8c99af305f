"""Process-wide settings of libraries in a worker: random numbers, threads, memory."""

from __future__ import annotations

import ctypes
import random
import sys
from collections.abc import Sequence

import numpy as np

__all__ = ["keep_freed_memory", "one_thread_for_opencv", "seed_global_generators"]

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MOST_FROM_HEAP = 2**25  # the most that glibc accepts


def seed_global_generators(entropy: Sequence[int], number: int) -> None:
    """Seeds the process-wide generators of Python, NumPy, PyTorch and OpenCV.

    A fork has copies of its parent's generators, and PyTorch and OpenCV start with one seed in all processes.
    Without this, all workers would draw the same numbers. Datapoints with numbers from `rng=True` or
    `epoch.rng()` do not depend on them.

    Args:
        entropy: integers that determine the numbers; empty for entropy of the operating system.
        number: number of the worker in its pool.
    """
    sequence = np.random.SeedSequence(list(entropy) or None, spawn_key=(number,))
    words = [int(word) for word in sequence.generate_state(4, np.uint32)]
    random.seed(words[0] << 32 | words[1])
    # A new generator, because a thread of the parent may have held the lock of the old one during the fork.
    np.random.set_bit_generator(np.random.MT19937(sequence.spawn(1)[0]))  # type: ignore[attr-defined]
    if "torch" in sys.modules and hasattr(sys.modules["torch"], "default_generator"):
        sys.modules["torch"].default_generator.manual_seed(words[2] << 16 | words[3] >> 16)
    if "cv2" in sys.modules and hasattr(sys.modules["cv2"], "setRNGSeed"):
        sys.modules["cv2"].setRNGSeed(words[3] >> 1)


def keep_freed_memory() -> None:
    """Makes malloc keep freed blocks, which serve the next datapoint while still warm.

    By default glibc returns blocks of this size to the system when they are freed, and gets them again, page
    by page and zeroed: for images, a tenth of a worker's time.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MOST_FROM_HEAP)
        mallopt(_M_TRIM_THRESHOLD, 4 * _MOST_FROM_HEAP)


def one_thread_for_opencv() -> None:
    """Makes OpenCV use one thread: the workers keep all processors busy."""
    opencv = sys.modules.get("cv2")
    if opencv is not None:
        opencv.setNumThreads(0)

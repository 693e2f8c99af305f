"""One process of benchmarks/startup.py: a whole training of the example's network, or only its first step.

    python benchmarks/_whole_process.py towerpack|keras first|whole

"first" prints a line when the first step is done, and ends at once.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

EPOCHS = 3


def first_step_is_done() -> None:
    """Prints a message, and exits without cleanup."""
    print("first step", flush=True)
    os._exit(0)


def towerpack(first: bool) -> None:
    """The example as it is; its last callback notices the first step."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    import digits_lenet

    if first:

        class Leave(digits_lenet.Result):
            def _trigger_step(self) -> None:
                first_step_is_done()

        digits_lenet.Result = Leave
    digits_lenet.train(resume=False, max_epoch=EPOCHS)


def keras(first: bool) -> None:
    """The same data, validation and checkpoints in Keras, as installed."""
    import _keras_lenet
    import keras
    import numpy as np

    from towerpack_dataflow.datasets import Digits

    def arrays(part: str) -> tuple[np.ndarray, np.ndarray]:
        pairs = list(Digits(part))
        images = np.stack([image for image, _ in pairs])[:, :, :, None]
        return images, np.asarray([label for _, label in pairs], np.int32)

    class Leave(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None) -> None:
            first_step_is_done()

    callbacks = [keras.callbacks.ModelCheckpoint("best.keras", "val_accuracy", save_best_only=True)]
    images, labels = arrays("train")
    _keras_lenet.network(_keras_lenet.AS_INSTALLED).fit(
        images,
        labels,
        batch_size=32,
        epochs=EPOCHS,
        validation_data=arrays("test"),
        callbacks=[*callbacks, *([Leave()] if first else [])],
    )


if __name__ == "__main__":
    {"towerpack": towerpack, "keras": keras}[sys.argv[1]](sys.argv[2] == "first")

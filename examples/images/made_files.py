"""Generated images in the file formats of known data sets, so that scripts read them like the real ones."""

import io
import tarfile

import cv2
import numpy as np
from drawn_images import NAMES, digit_images, group_image, shape_image
from scipy.io import savemat


def make_cifar10(folder, training=2000, test=500):
    """Writes the archive of CIFAR-10 in its binary version.

    Args:
        folder: the folder for `cifar-10-binary.tar.gz`.
        training: number of images to train on, in five files.
        test: number of images to test with.
    """
    rng = np.random.default_rng(0)

    def records(count):
        labels = np.arange(count) % len(NAMES)
        images = np.stack([shape_image(label, (32, 32), rng) for label in labels])
        pixels = images.transpose(0, 3, 1, 2).reshape(count, -1)
        return np.concatenate([labels[:, None].astype(np.uint8), pixels], 1).tobytes()

    members = {f"data_batch_{number}.bin": records(training // 5) for number in range(1, 6)}
    members |= {"test_batch.bin": records(test), "batches.meta.txt": "\n".join(NAMES).encode()}
    with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz", compresslevel=1) as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def make_svhn(folder):
    """Writes the files of SVHN's cropped digits; those of `extra` are the same as of `train`, drawn again."""
    for seed, (name, split) in enumerate({"train": "train", "extra": "train", "test": "test"}.items()):
        images, labels = digit_images(split, np.random.default_rng(seed))
        content = {"X": images.transpose(1, 2, 3, 0), "y": np.where(labels == 0, 10, labels)[:, None]}
        savemat(folder / f"{name}_32x32.mat", content)


def make_image_folders(folder, training=1000, test=200):
    """Writes JPEG files of several sizes, `train/CLASS/NUMBER.jpg` and `val/CLASS/NUMBER.jpg`."""
    rng = np.random.default_rng(0)
    for part, count in (("train", training), ("val", test)):
        for name in NAMES:
            (folder / part / name).mkdir(parents=True)
        for number in range(count):
            label = number % len(NAMES)
            image = group_image(label, rng.integers(72, 112, 2), rng)
            path = folder / part / NAMES[label] / f"{number:05}.jpg"
            cv2.imwrite(str(path), image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 90])

"""Read pictures for an ImageNet training: workers decode, crop, mirror and batch them.

    python imagenet_flow.py                       a generated folder of JPEG files
    python imagenet_flow.py --folder train/       one folder for each class, as in ILSVRC12

The last line is the rate. It needs `pip install "towerpack-dataflow[image]"`.
"""

import argparse
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np

from towerpack_dataflow import BatchData, DataFromList, MultiProcessMapData

SIZE = 224


def make_pictures(folder, count):
    """Writes JPEG files of 500 by 375 pixels in ten folders."""
    rng = np.random.default_rng(0)
    for number in range(count):
        coarse = rng.integers(0, 256, (12, 16, 3), np.uint8)
        path = folder / f"class{number % 10}" / f"{number:05}.jpg"
        path.parent.mkdir(exist_ok=True)
        cv2.imwrite(str(path), cv2.resize(coarse, (500, 375), interpolation=cv2.INTER_CUBIC))


def files_in(folder):
    """Lists `[path, label]` of all pictures; the folders in the order of their names are the classes."""
    folders = sorted(path for path in folder.iterdir() if path.is_dir())
    return [
        [str(path), label] for label, place in enumerate(folders) for path in sorted(place.glob("*.jp*g"))
    ]


def load(datapoint, rng):
    """Decodes a picture, and takes a random part of it: 8 to 100 % of its area, mirrored half of the time."""
    path, label = datapoint
    image = cv2.imread(path)
    assert image is not None, f"{path} is no picture"
    height, width = image.shape[:2]
    area, ratio = rng.uniform(0.08, 1) * height * width, np.exp(rng.uniform(np.log(3 / 4), np.log(4 / 3)))
    wide, tall = min(width, round(np.sqrt(area * ratio))), min(height, round(np.sqrt(area / ratio)))
    left, top = rng.integers(0, width - wide + 1), rng.integers(0, height - tall + 1)
    part = cv2.resize(image[top : top + tall, left : left + wide], (SIZE, SIZE))
    return [np.ascontiguousarray(part[:, :: rng.choice([-1, 1]), ::-1]), label]


def make_flow(folder, workers, batch):
    """Creates the flow: the batches do not depend on the number of workers."""
    flow = MultiProcessMapData(DataFromList(files_in(folder)), workers, load, rng=True)
    return BatchData(flow, batch)


def run(folder, workers, batch, epochs):
    """Reads some epochs, and prints the rate."""
    flow, count = make_flow(folder, workers, batch), 0
    next(iter(flow))  # the workers have started
    begin = time.perf_counter()
    for _ in range(epochs):
        for images, labels in flow:
            assert images.shape[1:] == (SIZE, SIZE, 3) and len(labels) == batch
            count += len(images)
    print(f"{count / (time.perf_counter() - begin):.0f} images/s, {workers} workers, batches of {batch}")


def main():
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--folder", type=Path, help="a folder of JPEG folders, one a class (default: generated)"
    )
    parser.add_argument(
        "--pictures", type=int, default=512, help="pictures to generate (default: %(default)s)"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()
    if options.folder is not None:
        run(options.folder, options.workers, options.batch, options.epochs)
        return
    with tempfile.TemporaryDirectory() as folder:
        make_pictures(Path(folder), options.pictures)
        run(Path(folder), options.workers, options.batch, options.epochs)


if __name__ == "__main__":
    main()

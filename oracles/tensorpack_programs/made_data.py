"""Small data in the formats that Tensorpack's examples read: digits and random numbers."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import scipy.io
from sklearn.datasets import load_digits

__all__ = ["make", "make_for_repositories"]


def make(folder: Path) -> None:
    """Makes all data in a folder, unless they are there.

    Args:
        folder: `$TENSORPACK_DATASET` of the programs; further data are beside it.
    """
    if (folder / "complete").exists():
        return
    rng = np.random.default_rng(0)
    _mnist(folder / "mnist_data")
    _cifar(folder, rng)
    _svhn(folder / "svhn_data", rng)
    _imagenet(folder, rng)
    _photographs(folder / "photographs", rng, 12, 200, 200)
    _photographs(folder / "pairs", rng, 4, 256, 512)
    for part, count in (("trainA", 4), ("trainB", 4), ("testA", 32), ("testB", 32)):
        _photographs(folder / "two_styles" / part, rng, count, 256, 256)
    _celeba(folder / "celeba", rng)
    _edges(folder / "bsds500_data" / "BSR" / "BSDS500" / "data", rng)
    _words(folder / "ptb_data", rng)
    _speech(folder / "speech", rng)
    _zip(folder / "coco.zip", rng)
    _balloons(folder / "balloon", rng)
    _objects(folder / "coco", rng)
    (folder / "corpus.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 2000)
    (folder / "complete").touch()


def _digits() -> tuple[np.ndarray, np.ndarray]:
    digits = load_digits()
    images = np.pad(
        (np.kron(digits.images, np.ones((3, 3))) * 15.9).astype(np.uint8), ((0, 0), (2, 2), (2, 2))
    )
    return images, digits.target.astype(np.uint8)


def _mnist(folder: Path) -> None:
    folder.mkdir(parents=True)
    images, labels = _digits()
    for name, part in (("train", slice(1500)), ("t10k", slice(1500, None))):
        _idx(folder / f"{name}-images-idx3-ubyte.gz", images[part], 2051)
        _idx(folder / f"{name}-labels-idx1-ubyte.gz", labels[part], 2049)


def _idx(path: Path, array: np.ndarray, magic: int) -> None:
    header = struct.pack(">" + "I" * (1 + array.ndim), magic, *array.shape)
    path.write_bytes(gzip.compress(header + array.tobytes()))


def _cifar(root: Path, rng: np.random.Generator) -> None:
    for count, inside, label_bytes in ((10, "cifar-10-batches-bin", 1), (100, "cifar-100-binary", 2)):
        folder = root / f"cifar{count}_data"
        (folder / inside).mkdir(parents=True)
        names = (
            [f"data_batch_{k}.bin" for k in range(1, 6)] + ["test_batch.bin"]
            if count == 10
            else ["train.bin", "test.bin"]
        )
        for name in names:
            records = rng.integers(0, 256, (200, label_bytes + 3072), dtype=np.uint8)
            records[:, :label_bytes] = rng.integers(0, 10, (200, label_bytes))
            (folder / inside / name).write_bytes(records.tobytes())
        meta = "batches.meta.txt" if count == 10 else "fine_label_names.txt"
        (folder / inside / meta).write_text("\n".join(f"class{k}" for k in range(count)) + "\n")
        archive = "cifar-10-binary.tar.gz" if count == 10 else "cifar-100-binary.tar.gz"
        with tarfile.open(folder / archive, "w:gz") as file:
            file.add(folder / inside, inside)


def _svhn(folder: Path, rng: np.random.Generator) -> None:
    folder.mkdir(parents=True)
    for part in ("train", "test", "extra"):
        images = rng.integers(0, 256, (32, 32, 3, 300), dtype=np.uint8)
        labels = rng.integers(1, 11, (300, 1), dtype=np.uint8)
        scipy.io.savemat(folder / f"{part}_32x32.mat", {"X": images, "y": labels})


def _imagenet(root: Path, rng: np.random.Generator) -> None:
    meta = root / "ilsvrc_metadata"
    meta.mkdir(parents=True)
    synsets = [f"n{k:08d}" for k in range(1000)]
    (meta / "synsets.txt").write_text("\n".join(synsets) + "\n")
    (meta / "synset_words.txt").write_text("\n".join(f"{s} word{k}" for k, s in enumerate(synsets)) + "\n")
    mean = rng.uniform(100, 130, (3, 256, 256)).astype(np.float32)
    (meta / "imagenet_mean.binaryproto").write_bytes(_blob(mean))
    train = [(f"{synsets[k % 4]}/{synsets[k % 4]}_{k}.JPEG", k % 4) for k in range(256)]
    val = [(f"ILSVRC2012_val_{k + 1:08d}.JPEG", k % 4) for k in range(16)]
    for part, files in (("train", train), ("val", val)):
        (meta / f"{part}.txt").write_text("".join(f"{name} {label}\n" for name, label in files))
        for name, _ in files:
            path = root / "imagenet" / part / name
            path.parent.mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(path), _photograph(rng, 260, 300))
    (meta / "test.txt").write_text("")


def _blob(mean: np.ndarray) -> bytes:
    """Returns Caffe's BlobProto of one image: its sizes and its data."""

    def varint(value: int) -> bytes:
        out = b""
        while value > 127:
            out, value = out + bytes([value & 127 | 128]), value >> 7
        return out + bytes([value])

    sizes = b"".join(
        bytes([number << 3]) + varint(size) for number, size in zip((1, 2, 3, 4), (1, *mean.shape))
    )
    data = mean.astype("<f4").tobytes()
    return sizes + b"\x2a" + varint(len(data)) + data


def _photograph(rng: np.random.Generator, height: int, width: int) -> np.ndarray:
    small = rng.integers(0, 256, (height // 16 + 1, width // 16 + 1, 3), dtype=np.uint8)
    return cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC)


def _photographs(folder: Path, rng: np.random.Generator, count: int, height: int, width: int) -> None:
    folder.mkdir(parents=True)
    for k in range(count):
        cv2.imwrite(str(folder / f"{k:06d}.jpg"), _photograph(rng, height, width))


def _celeba(folder: Path, rng: np.random.Generator) -> None:
    _photographs(folder, rng, 160, 218, 178)
    for path in sorted(folder.glob("*.jpg"), reverse=True):
        path.rename(folder / f"{int(path.stem) + 1:06d}.jpg")
    rows = [f"{k + 1:06d}.jpg {1 if k % 2 else -1} 1" for k in range(160)]
    (folder / "list_attr_celeba.txt").write_text("160\nMale Young\n" + "\n".join(rows) + "\n")


def _edges(folder: Path, rng: np.random.Generator) -> None:
    for part in ("train", "test", "val"):
        (folder / "groundTruth" / part).mkdir(parents=True)
        _photographs(folder / "images" / part, rng, 64 if part == "train" else 8, 321, 481)
        for path in (folder / "images" / part).glob("*.jpg"):
            truths = np.empty((1, 3), object)
            # Those on which all agree: HED's cost has no gradient for a picture without edges.
            edges = (rng.random((321, 481)) > 0.98).astype(np.uint8)
            for k in range(3):
                truths[0, k] = {"Boundaries": edges, "Segmentation": edges}
            scipy.io.savemat(folder / "groundTruth" / part / f"{path.stem}.mat", {"groundTruth": truths})


def _words(folder: Path, rng: np.random.Generator) -> None:
    folder.mkdir(parents=True)
    for part in ("train", "valid", "test"):
        words = rng.integers(0, 200, (400, 30))
        text = "\n".join(" ".join(f"w{k}" for k in row) for row in words)
        (folder / f"ptb.{part}.txt").write_text(text + "\n")


def _speech(folder: Path, rng: np.random.Generator) -> None:
    import lmdb
    import msgpack
    import msgpack_numpy

    folder.mkdir(parents=True)
    for part in ("train", "test"):
        environment = lmdb.open(str(folder / f"{part}.lmdb"), subdir=False, map_size=2**26)
        with environment.begin(write=True) as transaction:
            keys = [f"{k:08d}".encode() for k in range(80)]
            for key in keys:
                point = [rng.normal(size=(60, 39)).astype(np.float32), rng.integers(0, 60, 8)]
                transaction.put(key, msgpack.packb(point, use_bin_type=True, default=msgpack_numpy.encode))
            transaction.put(b"__keys__", msgpack.packb(keys, use_bin_type=True))
        environment.close()
    with open(folder / "stats.data", "wb") as file:
        pickle.dump((np.zeros(39, np.float32), np.ones(39, np.float32)), file)


def _zip(path: Path, rng: np.random.Generator) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for k in range(96):
            done, data = cv2.imencode(".jpg", _photograph(rng, 400, 420))
            assert done
            archive.writestr(f"train2017/{k:012d}.jpg", io.BytesIO(data.tobytes()).getvalue())


def _balloons(folder: Path, rng: np.random.Generator) -> None:
    for part in ("train", "val"):
        _photographs(folder / part, rng, 4, 300, 400)
        regions = {}
        for path in (folder / part).glob("*.jpg"):
            shape = {
                "name": "polygon",
                "all_points_x": [50, 250, 250, 50],
                "all_points_y": [40, 40, 200, 200],
            }
            regions[path.name] = {
                "filename": path.name,
                "size": path.stat().st_size,
                "regions": {"0": {"shape_attributes": shape, "region_attributes": {}}},
            }
        (folder / part / "via_region_data.json").write_text(json.dumps(regions))


def _objects(folder: Path, rng: np.random.Generator) -> None:
    """Makes COCO's annotations: two objects and a crowd in each picture."""
    (folder / "annotations").mkdir(parents=True)
    for part in ("train2017", "val2017"):
        _photographs(folder / part, rng, 4, 96, 120)
        images = [
            {"id": int(path.stem) + 1, "file_name": path.name, "height": 96, "width": 120}
            for path in sorted((folder / part).glob("*.jpg"))
        ]
        places = [(1, 20, 10, 40, 40, 0), (90, 50, 30, 60, 60, 0), (3, 5, 0, 10, 96, 1)]
        objects = [
            {"id": 10 * image["id"] + k, "image_id": image["id"], **_object(*place)}
            for image in images
            for k, place in enumerate(places)
        ]
        categories = [{"id": k, "name": f"category {k}"} for k in (1, 3, 90)]
        made = {"images": images, "annotations": objects, "categories": categories}
        (folder / "annotations" / f"instances_{part}.json").write_text(json.dumps(made))


def _object(category: int, x: int, y: int, width: int, height: int, crowd: int) -> dict[str, Any]:
    polygon = [x, y, x + width, y, x + width, y + height, x, y + height]
    counts = [96 * x, 96 * width, 96 * (120 - x - width)]  # of whole columns
    shape = {"size": [96, 120], "counts": counts} if crowd else [polygon]
    return {
        "category_id": category,
        "bbox": [x, y, width, height],
        "area": width * height,
        "iscrowd": crowd,
        "segmentation": shape,
    }


def make_for_repositories(folder: Path) -> None:
    """Makes the further data of repositories.toml in the folder of `make`, unless they are there."""
    if (folder / "complete for repositories").exists():
        return
    rng = np.random.default_rng(0)
    np.savez(folder / "nothing.npz", nothing=np.zeros(1, np.float32))
    _cells(folder / "cells", rng)
    _nuclei(folder / "nuclei", rng)
    (folder / "complete for repositories").touch()


def _cells(folder: Path, rng: np.random.Generator) -> None:
    """Makes pictures with one mask for each cell; 98, 14, 9 and 5 of them are for validation."""
    counts = {"train": 110, "test_stage1": 14, "extra_data": 9, "extra_data_tnbc": 5, "stage2_test_final": 2}
    for part, count in counts.items():
        for k in range(count):
            place = folder / part / f"{part}{k}"
            for name in ("images", "masks"):
                (place / name).mkdir(parents=True)
            cv2.imwrite(str(place / "images" / f"{place.name}.png"), _photograph(rng, 256, 256))
            for number, (y, x) in enumerate(rng.integers(0, 200, (3, 2))):
                mask = np.zeros((256, 256), np.uint8)
                mask[y : y + 40, x : x + 40] = 255
                cv2.imwrite(str(place / "masks" / f"{number}.png"), mask)


def _nuclei(folder: Path, rng: np.random.Generator) -> None:
    """Makes arrays of int32: a picture, and the number and the kind of the nucleus of each pixel."""
    for part, count in (("train", 8), ("valid", 4)):
        place = folder / part / "540x540_80x80"
        place.mkdir(parents=True)
        for k in range(count):
            channels = np.zeros((540, 540, 5), np.int32)
            channels[..., :3] = _photograph(rng, 540, 540)
            for number, (y, x) in enumerate(rng.integers(0, 500, (40, 2)), start=1):
                channels[y : y + 30, x : x + 30, 3:] = number, rng.integers(1, 5)
            np.save(place / f"{k}.npy", channels)

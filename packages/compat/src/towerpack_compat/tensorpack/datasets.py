"""`tensorpack.dataflow`: data sets with Tensorpack's folders, shuffling and colour order; flows; and files.

Files of `tensorpack.dataflow.serialize` contain any objects that pickle takes, and Tensorpack reads them too.
Reading such a file may run code: read none of strangers.
"""

from __future__ import annotations

import itertools
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

import towerpack_dataflow
from towerpack_dataflow import DataFlow, augment, datasets
from towerpack_dataflow.batch._collate import Collator  # noqa: PLC2701
from towerpack_dataflow.storage import create_path

from .utils.functions import dumps, get_dataset_path, get_rng

__all__ = [
    "BSDS500",
    "ILSVRC12",
    "AugmentImageComponent",
    "AugmentImageComponents",
    "AugmentImageCoordinates",
    "AugmentorList",
    "BatchData",
    "BatchDataByShape",
    "Caltech101Silhouettes",
    "Cifar10",
    "Cifar100",
    "CifarBase",
    "DataFromQueue",
    "FashionMnist",
    "ILSVRC12Files",
    "ILSVRCMeta",
    "LMDBSerializer",
    "Mnist",
    "MultiThreadPrefetchData",
    "MultiThreadRunner",
    "NumpySerializer",
    "Places365Standard",
    "RNGDataFlow",
    "SVHNDigit",
    "TFRecordSerializer",
    "TinyImageNet",
    "TransformAugmentorBase",
]


class _Random:
    """Adds `self.rng` to a flow; all data sets of Tensorpack have it, and subclasses use it."""

    rng: Any

    def reset_state(self) -> None:
        """Creates the random number generator."""
        super().reset_state()  # type: ignore[misc]
        self.rng = get_rng(self)

    def _enter(self, epoch: Any) -> None:
        super()._enter(epoch)  # type: ignore[misc]
        self.rng = np.random.RandomState(epoch.rng().bit_generator)

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the generator; each pass creates one."""
        state: dict[str, Any] = super().__getstate__()  # type: ignore[assignment]
        return {key: value for key, value in state.items() if key != "rng"}


class RNGDataFlow(_Random, towerpack_dataflow.RNGDataFlow):
    """A flow with random numbers: `reset_state` sets `self.rng`, a `numpy.random.RandomState`."""


class _BlueFirst(_Random):
    """Returns images in OpenCV's order of channels: blue, green, red."""

    def datapoint(self, epoch: Any, index: int) -> Any:
        image, *rest = super().datapoint(epoch, index)  # type: ignore[misc]
        return [np.ascontiguousarray(image[..., ::-1]), *rest]


class _Arrays(_Random):
    """Provides all images and labels of a part as arrays."""

    _images: np.ndarray
    _lst: Any
    _folder: str

    def __init__(self, train_or_test: Any, shuffle: bool = True, dir: Any = None) -> None:
        super().__init__(train_or_test, shuffle, dir or get_dataset_path(self._folder))  # type: ignore[call-arg]

    @property
    def images(self) -> np.ndarray:
        """All images, float32 of 0 to 1, of shape [number, 28, 28, 1]."""
        return self._images[..., np.newaxis]

    @property
    def labels(self) -> np.ndarray:
        """All labels, in the order of the images."""
        return np.array([label for _, label in map(self._lst.__getitem__, range(len(self._images)))])


class Mnist(_Arrays, datasets.Mnist):
    """See `towerpack_dataflow.datasets.Mnist`; both parts are shuffled."""

    _folder = "mnist_data"


class FashionMnist(_Arrays, datasets.FashionMnist):
    """See `towerpack_dataflow.datasets.FashionMnist`; both parts are shuffled."""

    _folder = "fashion_mnist_data"


class _MeanOfParts(_Random):
    """Computes the mean image of several parts of a data set, by default training and test."""

    _folder: str

    def __init__(self, train_or_test: Any, shuffle: bool | None = None, dir: Any = None) -> None:
        self._folder_of_all = dir
        super().__init__(train_or_test, shuffle, dir or get_dataset_path(self._folder))  # type: ignore[call-arg]

    def get_per_pixel_mean(self, names: Any = ("train", "test")) -> Any:
        """Returns the mean of all images of the parts, an array in the shape of an image."""
        parts = [type(self)(name, False, self._folder_of_all) for name in names]  # type: ignore[call-arg]
        means = [super(_MeanOfParts, part).get_per_pixel_mean() for part in parts]  # type: ignore[misc]
        return np.average(means, axis=0, weights=[len(part) for part in parts])  # type: ignore[arg-type]

    def get_per_channel_mean(self, names: Any = ("train", "test")) -> Any:
        """Returns the mean of each channel over all images of the parts, an array of 3 numbers."""
        return self.get_per_pixel_mean(names).mean(axis=(0, 1))


class Cifar10(_MeanOfParts, datasets.Cifar10):
    """See `towerpack_dataflow.datasets.Cifar10`."""

    _folder = "cifar10_data"


class Cifar100(_MeanOfParts, datasets.Cifar100):
    """See `towerpack_dataflow.datasets.Cifar100`."""

    _folder = "cifar100_data"


def CifarBase(train_or_test: Any, shuffle: Any = None, dir: Any = None, cifar_classnum: int = 10) -> Any:
    """Returns `Cifar10` or `Cifar100`."""
    return {10: Cifar10, 100: Cifar100}[cifar_classnum](train_or_test, shuffle, dir)


class SVHNDigit(_Random, datasets.SVHNDigit):
    """See `towerpack_dataflow.datasets.SVHNDigit`; every part is shuffled."""

    def __init__(self, name: Any, data_dir: Any = None, shuffle: bool = True) -> None:
        super().__init__(name, shuffle, data_dir or get_dataset_path("svhn_data"))

    @staticmethod
    def get_per_pixel_mean(names: Any = ("train", "test", "extra")) -> Any:
        """Returns the mean of all images of the parts, an array [32, 32, 3]."""
        parts = [datasets.SVHNDigit(name, False, get_dataset_path("svhn_data")) for name in names]
        means = [part.get_per_pixel_mean() for part in parts]
        return np.average(means, axis=0, weights=list(map(len, parts)))


class Caltech101Silhouettes(_Random, datasets.Caltech101Silhouettes):
    """See `towerpack_dataflow.datasets.Caltech101Silhouettes`; every part is shuffled."""

    def __init__(self, name: Any, shuffle: bool = True, dir: Any = None) -> None:
        super().__init__(name, shuffle, dir or get_dataset_path("caltech101_data"))


class BSDS500(_BlueFirst, datasets.BSDS500):
    """See `towerpack_dataflow.datasets.BSDS500`; BGR, and every part is shuffled."""

    def __init__(self, name: Any, data_dir: Any = None, shuffle: bool = True) -> None:
        super().__init__(name, shuffle, data_dir or get_dataset_path("bsds500_data"))


class ILSVRCMeta(datasets.ILSVRCMeta):
    """See `towerpack_dataflow.datasets.ILSVRCMeta`; its mean is BGR."""

    def __init__(self, dir: Any = None) -> None:
        super().__init__(dir or get_dataset_path("ilsvrc_metadata"))

    def get_per_pixel_mean(self, size: Any = None) -> Any:
        """Returns the mean of the training images, BGR, an array [256, 256, 3] or of another size."""
        mean = super().get_per_pixel_mean() if size is None else super().get_per_pixel_mean(size)
        return np.ascontiguousarray(mean[..., ::-1])


class _WithMetadata(_Random):
    """Reads the lists of images from Tensorpack's folder."""

    def __init__(
        self,
        dir: Any,
        name: Any,
        meta_dir: Any = None,
        shuffle: bool | None = None,
        dir_structure: Any = None,
    ) -> None:
        meta_dir = meta_dir or get_dataset_path("ilsvrc_metadata")
        super().__init__(dir, name, meta_dir, shuffle, dir_structure)  # type: ignore[call-arg]


class ILSVRC12Files(_WithMetadata, datasets.ILSVRC12Files):
    """See `towerpack_dataflow.datasets.ILSVRC12Files`."""


class ILSVRC12(_BlueFirst, _WithMetadata, datasets.ILSVRC12):
    """See `towerpack_dataflow.datasets.ILSVRC12`; BGR."""


class TinyImageNet(_BlueFirst, datasets.TinyImageNet):
    """See `towerpack_dataflow.datasets.TinyImageNet`; BGR."""


class Places365Standard(_BlueFirst, datasets.Places365Standard):
    """See `towerpack_dataflow.datasets.Places365Standard`; BGR."""


class _LikeFirst:
    """Converts each component to the dtype that it has in the first datapoint of a batch.

    Args:
        collator: builds the batches.
    """

    count = property(attrgetter("_collator.count"))

    def __init__(self, collator: Collator) -> None:
        self._collator, self.take = collator, collator.take

    def extend(self, datapoints: Iterator[Any], count: int) -> bool:
        """Adds datapoints up to a number of them in the batch; returns whether there were enough."""
        return self._collator.extend(map(self._cast, datapoints), count)

    def _cast(self, datapoint: Any) -> Any:
        named = isinstance(datapoint, dict)
        items = datapoint if named else dict(enumerate(datapoint))
        if not self.count:
            self._dtypes = {key: _dtype_in_batch(value) for key, value in items.items()}
        pairs = {key: (items[key], dtype) for key, dtype in self._dtypes.items()}
        cast = {
            key: each if dtype is None else np.asarray(each, dtype) for key, (each, dtype) in pairs.items()
        }
        return cast if named else list(cast.values())


def _dtype_in_batch(value: Any) -> Any:
    """Returns the dtype of a batch of such values; None for strings and lists, which are not converted."""
    number = "int32" if isinstance(value, int) else "float32" if type(value) is float else None
    return number or getattr(value, "dtype", None)


class BatchData(towerpack_dataflow.BatchData):
    """See `towerpack_dataflow.BatchData`; a batch has the dtypes of its first datapoint."""

    @staticmethod
    def aggregate_batch(data_holder: Any, use_list: bool = False) -> Any:  # type: ignore[override]
        """Returns the batch of a list of datapoints."""
        collator = BatchData._collator(len(data_holder), use_list)
        collator.extend(iter(data_holder), len(data_holder))
        return collator.take()

    @staticmethod
    def _collator(size: int, use_list: bool, *more: Any) -> Any:
        whole = Collator(size, use_list, *more)
        return whole if use_list else _LikeFirst(whole)


class BatchDataByShape(towerpack_dataflow.ProxyDataFlow):
    """Batches datapoints in which a component has one shape; incomplete batches wait for the next pass.

    Args:
        ds: the flow below.
        batch_size: datapoints in a batch.
        idx: the component.
    """

    def __init__(self, ds: Any, batch_size: int, idx: int) -> None:
        super().__init__(ds)
        self.batch_size, self.idx = int(batch_size), idx
        self.holder: dict[Any, list[Any]] = defaultdict(list)

    def __len__(self) -> int:
        return len(self.ds) // self.batch_size

    def __iter__(self) -> Iterator[Any]:
        given = False
        for _ in range(100):  # passes; shapes that never repeat end it
            for datapoint in self.ds:
                group = self.holder[shape := datapoint[self.idx].shape]
                group.append(datapoint)
                if len(group) == self.batch_size:
                    given = True
                    yield BatchData.aggregate_batch(self.holder.pop(shape))
            if given:  # a pass without a full batch reads the flow again, as Tensorpack's runners do
                return


class DataFromQueue(DataFlow):
    """Yields the items of a queue, endlessly.

    Args:
        queue: an object with a method `get`.
    """

    def __init__(self, queue: Any) -> None:
        super().__init__()
        self.queue = queue

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield self.queue.get()


class MultiThreadRunner(DataFlow):
    """Yields from several endless flows, each in a thread; the length is that of one flow.

    Args:
        get_df: creates a flow; called once for each thread.
        num_prefetch: no effect.
        num_thread: the number of threads.
    """

    def __init__(self, get_df: Callable[[], DataFlow], num_prefetch: int, num_thread: int) -> None:
        super().__init__()
        self._made = [get_df() for _ in range(num_thread)]
        endless = [towerpack_dataflow.RepeatedData(flow, -1) for flow in self._made]
        self._flows = [towerpack_dataflow.MultiThreadRunner(flow, 1) for flow in endless]

    def __len__(self) -> int:
        return len(self._made[0])

    def reset_state(self) -> None:
        """Starts the threads."""
        for flow in self._flows:
            flow.reset_state()
        self._turns = itertools.chain.from_iterable(zip(*self._flows))

    def __iter__(self) -> Iterator[Any]:
        try:
            return itertools.islice(self._turns, len(self))
        except (NotImplementedError, TypeError):
            return self._turns


MultiThreadPrefetchData = MultiThreadRunner


TransformAugmentorBase = augment.ImageAugmentor


class _OpenCVImages:
    """Accepts all images that OpenCV moves, such as label maps; Tensorpack checks no image."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, opencv_images=True, **kwargs)  # type: ignore[call-arg]


class AugmentorList(_OpenCVImages, augment.AugmentorList):  # type: ignore[misc]
    """Applies augmentors in order."""


class AugmentImageComponent(_OpenCVImages, augment.AugmentImageComponent):  # type: ignore[misc]
    """Augments one image of each datapoint."""


class AugmentImageComponents(_OpenCVImages, augment.AugmentImageComponents):
    """Augments components of each datapoint by the same transforms."""


class AugmentImageCoordinates(_OpenCVImages, augment.AugmentImageCoordinates):  # type: ignore[misc]
    """Augments one image of each datapoint, with its coordinates."""


def _datapoints(df: Any) -> Iterator[Any]:
    df.reset_state()
    return iter(df)


class LMDBSerializer:
    """Writes one pass of a flow to an LMDB file of pickles, and reads it."""

    load = staticmethod(partial(towerpack_dataflow.LMDBSerializer.load, allow_pickle=True))

    @staticmethod
    def save(df: Any, path: str, write_frequency: int = 5000) -> None:
        """Writes a flow to a file, or into an empty folder, in one transaction."""
        import lmdb

        path, keys = f"{path}/data.mdb" if os.path.isdir(path) else path, []
        assert not os.path.isfile(path), f"LMDB file {path} exists!"
        with create_path(path) as new:  # which holds a lock
            database = lmdb.open(new, subdir=False, map_size=2**41, meminit=False, lock=False)
            with database, database.begin(write=True) as transaction:
                for number, datapoint in enumerate(_datapoints(df)):
                    keys.append(b"%08d" % number)
                    transaction.put(keys[-1], dumps(datapoint))
                transaction.put(b"__keys__", dumps(keys))


class TFRecordSerializer:
    """Writes one pass of a flow to a TFRecord file of pickles, and reads it."""

    load = staticmethod(partial(towerpack_dataflow.TFRecordSerializer.load, allow_pickle=True))

    @staticmethod
    def save(df: Any, path: str) -> None:
        """Writes a flow."""
        towerpack_dataflow.write_tfrecord(map(dumps, _datapoints(df)), path)


class NumpySerializer:
    """Writes one pass of a flow to an `.npz` file of one array, and reads it."""

    load = staticmethod(partial(towerpack_dataflow.NumpySerializer.load, allow_pickle=True))

    @staticmethod
    def save(df: Any, path: str) -> None:
        """Writes a flow."""
        np.savez_compressed(path, buffer=np.asarray(list(_datapoints(df)), dtype=object))

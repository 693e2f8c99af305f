"""Documents of tokens in a memory map, in batches of at most `BUDGET` tokens with their padding, 2 workers.

A batch has int64 tokens, padded at the end to a multiple of 8, and a mask. The batches are those of documents
of similar length, in a random order.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np
from _feed import FOLDER, fed, forever, our_loader, subject
from _loaders import Run, grain_stream, spdl_stream

WORKERS, BUDGET, MULTIPLE, WINDOW = 2, 16_384, 8, 5000
COUNT = 1500


@functools.cache
def tokens() -> np.ndarray:
    """All documents, one after the other; each process maps the file."""
    mapped: np.ndarray = np.load(FOLDER / "tokens.npy", mmap_mode="r")
    return mapped


@functools.cache
def ends() -> np.ndarray:
    """Where each document ends."""
    found: np.ndarray = np.load(FOLDER / "ends.npy")
    return found


def lengths() -> np.ndarray:
    """The lengths of the documents."""
    return np.diff(ends(), prepend=0)


def document(index: int) -> np.ndarray:
    """The tokens of a document."""
    end = ends()[index]
    return tokens()[ends()[index - 1] if index else 0 : end]


def count(batch: Any) -> int:
    """The tokens of a batch without padding."""
    ids, mask = np.asarray(batch["ids"]), np.asarray(batch["mask"])
    assert ids.dtype == np.int64, ids.dtype
    assert ids.shape == mask.shape, (ids.shape, mask.shape)
    return int(np.count_nonzero(mask))


def by_hand() -> list[list[int]]:
    """Batches within the budget: the documents of each window by length, cut, in a random order."""
    sizes, rng = lengths(), np.random.default_rng(0)
    order, batches = rng.permutation(len(sizes)), []
    for low in range(0, len(order), WINDOW):
        batch: list[int] = []
        for index in sorted(order[low : low + WINDOW].tolist(), key=lambda place: -sizes[place]):
            longest = -(-sizes[(batch or [index])[0]] // MULTIPLE) * MULTIPLE
            if (len(batch) + 1) * longest > BUDGET:
                batches.append(batch)
                batch = []
            batch.append(index)
        batches.append(batch)
    rng.shuffle(batches)
    return batches


def padded(members: list[int]) -> dict[str, np.ndarray]:
    """A batch, as one writes it in NumPy."""
    documents = [document(index) for index in members]
    sizes = np.array([len(each) for each in documents])
    longest = -(-int(sizes.max()) // MULTIPLE) * MULTIPLE
    ids = np.zeros((len(documents), longest), np.int64)
    for row, each in zip(ids, documents):
        row[: len(each)] = each
    return {"ids": ids, "mask": np.arange(longest) < sizes[:, None]}


def ours(texts: Any) -> Run:
    """Datapoints in padded batches."""
    from towerpack_dataflow import BatchByBudget
    from towerpack_dataflow.interop.collate import pad

    collate = functools.partial(pad, multiple_of=MULTIPLE, mask="mask")
    flow = BatchByBudget(texts, lengths(), BUDGET, WINDOW, collate=collate)
    return fed(forever(our_loader(flow, num_workers=WORKERS)), count, COUNT)


@subject("B", "towerpack")
def our_parts() -> Run:
    from towerpack_dataflow import DataFromRagged

    return ours(DataFromRagged({"ids": tokens()}, np.append(0, ends()), shuffle=False, dtype=np.int64))


@subject("B", "towerpack, documents by a function")
def our_documents() -> Run:
    from towerpack_dataflow import MapData

    return ours(MapData(range(len(ends())), lambda index: {"ids": document(index).astype(np.int64)}))


class Batches:
    """The batches as a data set."""

    def __init__(self) -> None:
        self.members = by_hand()

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, index: int) -> Any:
        return padded(self.members[index])


def torch_stream(data: Any, **options: Any) -> Iterable[Any]:
    """PyTorch's own loader."""
    from torch.utils.data import DataLoader

    settings = {"num_workers": WORKERS, "persistent_workers": True, "multiprocessing_context": "fork"}
    return forever(DataLoader(data, **settings, **options))


@subject("B", "torch, NumPy by hand")
def torch_numpy() -> Run:
    return fed(torch_stream(Batches(), batch_size=None, shuffle=True), count, COUNT)


@subject("B", "torch, pad_sequence")
def torch_pad_sequence() -> Run:
    import torch

    class Documents:
        def __len__(self) -> int:
            return len(ends())

        def __getitem__(self, index: int) -> Any:
            return torch.from_numpy(document(index).astype(np.int64))

    def collated(documents: list[Any]) -> dict[str, Any]:
        ids = torch.nn.utils.rnn.pad_sequence(documents, batch_first=True)
        ids = torch.nn.functional.pad(ids, (0, -ids.shape[1] % MULTIPLE))
        sizes = torch.tensor([len(each) for each in documents])
        return {"ids": ids, "mask": torch.arange(ids.shape[1]) < sizes[:, None]}

    return fed(torch_stream(Documents(), batch_sampler=by_hand(), collate_fn=collated), count, COUNT)


@subject("B", "Hugging Face")
def hugging_face() -> Run:
    import datasets
    import torch

    data = datasets.load_from_disk(str(FOLDER / "documents")).with_format("numpy")

    class Rows:
        def __len__(self) -> int:
            return len(data)

        def __getitems__(self, indices: list[int]) -> Any:
            return data[indices]["ids"]

    def collated(documents: Any) -> dict[str, Any]:
        sizes = np.array([len(each) for each in documents])
        longest = -(-int(sizes.max()) // MULTIPLE) * MULTIPLE
        ids = np.zeros((len(documents), longest), np.int64)
        for row, each in zip(ids, documents):
            row[: len(each)] = each
        mask = np.arange(longest) < sizes[:, None]
        return {"ids": torch.from_numpy(ids), "mask": torch.from_numpy(mask)}

    return fed(torch_stream(Rows(), batch_sampler=by_hand(), collate_fn=collated), count, COUNT)


@subject("B", "grain, NumPy by hand")
def grain() -> Run:
    import grain as library

    return fed(
        grain_stream(library.MapDataset.source(Batches()).shuffle(1).repeat(), WORKERS, 16), count, COUNT
    )


class Endless:
    """The members of batches without end."""

    def __iter__(self) -> Any:
        return forever(by_hand())


@subject("B", "spdl, NumPy by hand")
def spdl() -> Run:
    return fed(spdl_stream(Endless(), [(padded, WORKERS)], 0, 2**20), count, COUNT)


@subject("B", "tf.data")
def tf_data() -> Run:
    import tensorflow as tf

    bounds = [*range(64, 1025, 64)]
    rows = tf.RaggedTensor.from_row_splits(np.asarray(tokens()), np.concatenate([[0], ends()]))
    data = tf.data.Dataset.from_tensor_slices(rows).shuffle(WINDOW).repeat()
    data = data.map(lambda ids: {"ids": tf.cast(ids, tf.int64), "mask": tf.ones_like(ids, tf.bool)})
    data = data.bucket_by_sequence_length(
        lambda row: tf.shape(row["ids"])[0], bounds, [BUDGET // bound for bound in [*bounds, 1088]]
    )
    return fed(data.prefetch(tf.data.AUTOTUNE).as_numpy_iterator(), count, COUNT // 5)

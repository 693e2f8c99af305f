"""A table of 12 columns of numbers, in batches of 4096 rows: Parquet in the file's order, Arrow shuffled."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from _feed import FOLDER, fed, forever, our_loader, subject
from _loaders import Run

ROWS, COUNT, WORKERS = 4096, 2000, 2
PARQUET, ARROW = FOLDER / "table.parquet", FOLDER / "table.arrow"


def rows_of(batch: Any) -> int:
    """The rows of a batch, with a look at each column."""
    assert len(batch) == 12, list(batch)
    for column in batch.values():
        np.asarray(column)[::512].sum()
    return ROWS


def ours(kind: str, workers: int) -> Run:
    from towerpack_dataflow import ArrowData, BatchData, ParquetData

    flow = ParquetData(PARQUET) if kind == "parquet" else ArrowData(ARROW, shuffle=True)
    return fed(forever(our_loader(BatchData(flow, ROWS), num_workers=workers)), rows_of, COUNT)


for _workers in (0, WORKERS):
    _name = "towerpack" if _workers else "towerpack, no workers"
    subject("C Parquet", _name)(partial(ours, "parquet", _workers))
    subject("C Arrow", _name)(partial(ours, "arrow", _workers))


def batches_of_groups(first: int, step: int) -> Iterator[dict[str, np.ndarray]]:
    """Batches of every `step`-th row group, as one writes it with pyarrow."""
    from pyarrow import parquet

    file = parquet.ParquetFile(PARQUET)
    groups = list(range(first, file.num_row_groups, step))
    for batch in file.iter_batches(ROWS, groups):
        if batch.num_rows == ROWS:
            # A loader's batches may be written to, and those of Arrow may not.
            yield {name: np.array(column) for name, column in zip(batch.schema.names, batch.columns)}


def torch_stream(data: Any, workers: int, **options: Any) -> Any:
    """PyTorch's own loader."""
    from torch.utils.data import DataLoader

    if workers:
        options = {**options, "persistent_workers": True, "multiprocessing_context": "fork"}
    return forever(DataLoader(data, num_workers=workers, **options))


def torch_pyarrow(workers: int) -> Run:
    from torch.utils.data import IterableDataset, get_worker_info

    class Groups(IterableDataset):
        def __iter__(self) -> Any:
            info = get_worker_info()
            return batches_of_groups(*((info.id, info.num_workers) if info else (0, 1)))

    return fed(torch_stream(Groups(), workers, batch_size=None), rows_of, COUNT)


def hugging_face(shuffle: bool, workers: int) -> Run:
    import datasets

    if not shuffle:
        data = datasets.Dataset.from_parquet(str(PARQUET), cache_dir=str(FOLDER / "cache"))
    else:
        data = datasets.Dataset.from_file(str(FOLDER / "table.arrows"))
    data = data.with_format("torch")

    class Rows:
        def __len__(self) -> int:
            return len(data)

        def __getitems__(self, indices: list[int]) -> Any:
            return data[indices] if shuffle else data[indices[0] : indices[-1] + 1]

    stream = torch_stream(
        Rows(), workers, batch_size=ROWS, shuffle=shuffle, drop_last=True, collate_fn=lambda batch: batch
    )
    return fed(stream, rows_of, COUNT)


def torch_gathered(workers: int) -> Run:
    """Rows of mapped columns, gathered by NumPy."""
    import pyarrow as pa
    import torch
    from pyarrow import ipc

    table = ipc.open_file(pa.memory_map(str(ARROW))).read_all().combine_chunks()
    columns = {name: table.column(name).chunk(0).to_numpy() for name in table.column_names}

    class Rows:
        def __len__(self) -> int:
            return table.num_rows

        def __getitems__(self, indices: list[int]) -> Any:
            wanted = np.asarray(indices)
            return {name: torch.from_numpy(column[wanted]) for name, column in columns.items()}

    stream = torch_stream(
        Rows(), workers, batch_size=ROWS, shuffle=True, drop_last=True, collate_fn=lambda batch: batch
    )
    return fed(stream, rows_of, COUNT)


def tf_data(kind: str) -> Run:
    import tensorflow as tf
    from pyarrow import parquet

    table = parquet.read_table(PARQUET)
    if kind == "parquet":
        first = next(batches_of_groups(0, 64))
        signature = {name: tf.TensorSpec([ROWS], column.dtype) for name, column in first.items()}
        data = tf.data.Dataset.from_generator(partial(batches_of_groups, 0, 1), output_signature=signature)
        return fed(data.repeat().prefetch(tf.data.AUTOTUNE).as_numpy_iterator(), rows_of, COUNT // 5)
    columns = {name: tf.constant(table.column(name).to_numpy()) for name in table.column_names}
    data = tf.data.Dataset.range(table.num_rows).shuffle(table.num_rows).repeat()
    data = data.batch(ROWS, drop_remainder=True)
    data = data.map(
        lambda rows: {name: tf.gather(each, rows) for name, each in columns.items()}, tf.data.AUTOTUNE
    )
    return fed(data.prefetch(tf.data.AUTOTUNE).as_numpy_iterator(), rows_of, COUNT // 5)


for _workers in (0, WORKERS):
    _where = f", {_workers} workers"
    subject("C Parquet", f"torch, pyarrow by hand{_where}")(partial(torch_pyarrow, _workers))
    subject("C Parquet", f"Hugging Face{_where}")(partial(hugging_face, False, _workers))
    subject("C Arrow", f"torch, NumPy by hand{_where}")(partial(torch_gathered, _workers))
    subject("C Arrow", f"Hugging Face{_where}")(partial(hugging_face, True, _workers))
subject("C Parquet", "tf.data")(partial(tf_data, "parquet"))
subject("C Arrow", "tf.data")(partial(tf_data, "arrow"))

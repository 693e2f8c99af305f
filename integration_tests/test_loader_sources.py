"""`interop.torch.DataLoader` over the data of other libraries: the same batches for any number of workers."""

import io
import tarfile

import numpy as np
import pytest
import torch

from towerpack_dataflow import BatchData, DataFromArrays, MapData
from towerpack_dataflow.interop.torch import DataLoader
from towerpack_dataflow.interop.transforms import seeded

pytestmark = pytest.mark.filterwarnings("default")  # the libraries warn of each other


def seen(data, workers, **options):
    options = {"batch_size": 4, "seed": 1, "start_method": "fork" if workers else None, **options}
    with DataLoader(data, num_workers=workers, **options) as loader:
        return [list(loader), list(loader)]


def alike(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(alike, one, other))
    return torch.equal(one, other) if torch.is_tensor(one) else np.array_equal(one, other)


@pytest.fixture
def rows(tmp_path):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {
            "number": datasets.Value("int64"),
            "half": datasets.Value("float16"),
            "pair": datasets.Sequence(datasets.Value("int32"), length=2),
        }
    )
    parts = [
        datasets.Dataset.from_dict(
            {"number": part, "half": part, "pair": [[n, -n] for n in part]}, features=features
        )
        for part in (range(7), range(7, 8), range(8, 30))
    ]
    datasets.concatenate_datasets(parts).save_to_disk(tmp_path / "saved")
    return datasets.load_from_disk(tmp_path / "saved")


def test_columns_of_hugging_face_come_from_the_mapped_file(rows):
    for shuffle in (False, True):
        first, second = seen(rows, 0, shuffle=shuffle, drop_last=True)
        assert len(first) == 7
        assert alike(first, second) is not shuffle
        for batch in first:
            numbers = batch["number"].tolist()
            assert shuffle or numbers == list(range(numbers[0], numbers[0] + 4))
            assert batch["half"].dtype == torch.float16
            assert batch["half"].tolist() == numbers
            assert batch["pair"].tolist() == [[n, -n] for n in numbers]
        assert alike(seen(rows, 2, shuffle=shuffle, drop_last=True), [first, second])
    assert type(next(iter(DataLoader(rows)))["number"]) is torch.Tensor  # one row


def test_other_data_sets_of_hugging_face(rows):
    ordered = rows.select(range(10, 2, -1))
    assert seen(ordered, 0)[0][0]["number"].tolist() == [10, 9, 8, 7]
    formatted = rows.with_format("torch")
    assert alike(seen(formatted, 0), seen(rows, 0))
    text = rows.map(lambda row: {"text": str(row["number"])})
    assert seen(text, 1)[0][0]["text"].tolist() == ["0", "1", "2", "3"]
    stream = rows.to_iterable_dataset().shuffle(seed=3, buffer_size=8)
    first, second = seen(stream, 0)
    assert sorted(n for batch in first for n in batch["number"].tolist()) == list(range(30))
    assert not alike(first, second)  # the stream is told the epoch
    assert alike(seen(stream, 1), [first, second])


def test_sources_of_grain():
    grain = pytest.importorskip("grain")
    data = grain.MapDataset.source(list(range(20))).shuffle(seed=1).map(lambda number: {"n": number * 10})
    first = seen(data, 0)[0]
    assert sorted(n for batch in first for n in batch["n"].tolist()) == list(range(0, 200, 10))
    stream = seen(data.to_iter_dataset(), 0)[0]
    assert alike(stream, first)


def test_webdataset(tmp_path):
    webdataset = pytest.importorskip("webdataset")
    with tarfile.open(tmp_path / "shard.tar", "w") as shard:
        for number in range(10):
            content = str(number).encode()
            member = tarfile.TarInfo(f"{number:04}.cls")
            member.size = len(content)
            shard.addfile(member, io.BytesIO(content))
    data = webdataset.WebDataset(str(tmp_path / "shard.tar"), shardshuffle=False).decode().to_tuple("cls")
    for workers in (0, 1):
        assert [batch[0].tolist() for batch in seen(data, workers)[0]] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_albumentations_repeat_for_any_number_of_workers():
    albumentations = pytest.importorskip("albumentations")
    pipeline = albumentations.Compose([albumentations.RandomCrop(8, 8), albumentations.HorizontalFlip(p=0.5)])
    images = np.random.default_rng(0).integers(0, 255, (16, 12, 12, 3), np.uint8)

    def augmented(row):
        return [pipeline(image=row[0])["image"]]

    def flow():
        return BatchData(MapData(DataFromArrays([images], shuffle=False), seeded(augmented), rng=True), 4)

    first, second = seen(flow(), 0, batch_size=None)
    assert not alike(first, second)
    assert alike(seen(flow(), 2, batch_size=None), [first, second])


def test_transforms_of_torchvision_repeat_for_any_number_of_workers():
    v2 = pytest.importorskip("torchvision.transforms.v2", exc_type=(ImportError, RuntimeError))
    transform = v2.Compose([v2.RandomCrop(8), v2.RandomHorizontalFlip(), v2.ColorJitter(0.5)])

    class Images(torch.utils.data.Dataset):
        def __len__(self):
            return 16

        def __getitem__(self, index):
            return transform(torch.arange(3 * 12 * 12, dtype=torch.float32).reshape(3, 12, 12) / 432 + index)

    first, second = seen(Images(), 0)
    assert not alike(first, second)
    assert alike(seen(Images(), 2), [first, second])


def test_tokenizers_in_workers():
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.WordLevel({"a": 1, "b": 2, "[UNK]": 0}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.encode_batch(["a b"] * 100)  # starts its threads in this process

    def collate(texts):
        tokenizer.enable_padding(pad_id=9)
        return np.array([encoding.ids for encoding in tokenizer.encode_batch(texts)])

    for workers in (0, 2):
        batches = seen(["a", "b a", "c", "a b"], workers, batch_size=2, collate=collate)[0]
        assert [batch.tolist() for batch in batches] == [[[1, 9], [2, 1]], [[0, 9], [1, 2]]]


def test_arrays_of_zarr_are_read_by_row(tmp_path):
    zarr = pytest.importorskip("zarr")
    values = np.arange(60.0).reshape(20, 3)
    stored = zarr.create_array(str(tmp_path / "stored"), shape=values.shape, chunks=(7, 3), dtype="float64")
    stored[:] = values
    for shuffle in (False, True):
        flows = [
            BatchData(DataFromArrays([data, range(20)], shuffle=shuffle), 6) for data in (stored, values)
        ]
        first, second = (seen(flow, 0, batch_size=None) for flow in flows)
        assert alike(first, second)
        assert alike(seen(flows[0], 1, batch_size=None), second)

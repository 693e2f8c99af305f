"""Reads tensors from files of `torch.save`, without PyTorch and without running code from the file.

Pickles name functions to call. Only the names in this file are known, each as a function of this file;
any other name is refused.

Source: `torch/serialization.py`, https://github.com/pytorch/pytorch
"""

from __future__ import annotations

import io
import math
import pickle
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, final

import ml_dtypes
import numpy as np

from .._errors import CheckpointError

__all__ = ["read_torch"]

_MAGIC = 0x1950A86A20F9469CFC6C  # of PyTorch before 1.6
_DTYPES: dict[str, Any] = {
    "DoubleStorage": "f8",
    "FloatStorage": "f4",
    "HalfStorage": "f2",
    "BFloat16Storage": ml_dtypes.bfloat16,
    "LongStorage": "i8",
    "IntStorage": "i4",
    "ShortStorage": "i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
    "ComplexFloatStorage": "c8",
    "ComplexDoubleStorage": "c16",
}


def read_torch(path: Path) -> dict[str, np.ndarray]:
    """Reads the tensors of a file of `torch.save`: a state dict, or a dictionary with one in it.

    Names of nested dictionaries are joined by dots. If the file has a `state_dict` or `model` beside other
    entries, such as an optimizer, only its tensors are returned. Numbers and text are left out.

    Raises:
        CheckpointError: the file cannot be read, has other objects than tensors in dictionaries, or no
            tensor.
    """
    try:
        with open(path, "rb") as file:
            content = _read_archive(path) if zipfile.is_zipfile(file) else _read_old(path, file)
    except CheckpointError:
        raise
    # Damaged pickles fail in many ways.
    except Exception as error:
        raise CheckpointError(f"{path} cannot be read as a file of torch.save: {error}.") from error
    if not isinstance(content, dict):
        raise CheckpointError(
            f"{path} has a {type(content).__name__}; expected a dictionary of tensors. Save the state dict: "
            "torch.save(model.state_dict(), path)."
        )
    inner = [content[key] for key in ("state_dict", "model") if isinstance(content.get(key), dict)]
    arrays = dict(_tensors(inner[0] if inner else content, ""))
    if not arrays:
        raise CheckpointError(f"{path} has no tensor. Its entries are {', '.join(map(str, content))[:200]}.")
    return arrays


def _tensors(content: Mapping[Any, Any], place: str) -> Iterator[tuple[str, np.ndarray]]:
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _tensors(value, f"{place}{name}.")
        elif isinstance(value, np.ndarray):
            yield f"{place}{name}", value


def _read_archive(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        if len(names) != 1:
            raise CheckpointError(f"{path} is an archive without data.pkl, so it is not from torch.save.")
        root = names[0].removesuffix("data.pkl")
        if f"{root}constants.pkl" in archive.namelist():
            raise CheckpointError(
                f"{path} is a TorchScript program. Save its tensors: "
                "torch.save(torch.jit.load(path).state_dict(), path)."
            )
        order: Literal["<", ">"] = "<"
        if f"{root}byteorder" in archive.namelist():
            order = "<" if archive.read(f"{root}byteorder") == b"little" else ">"
        storages: dict[str, np.ndarray] = {}

        def storage(key: str, dtype: np.dtype[Any], count: int) -> np.ndarray:
            if key not in storages:
                data = archive.read(f"{root}data/{key}")  # checks its CRC
                storages[key] = np.frombuffer(data, dtype.newbyteorder(order), count)
            return storages[key]

        return _Tensors(io.BytesIO(archive.read(names[0])), storage).load()


def _read_old(path: Path, file: BinaryIO) -> Any:
    """Reads a file of PyTorch before 1.6: five pickles, then the storages in the order of their keys."""
    file.seek(0)
    if _plain(file) != _MAGIC:
        raise CheckpointError(f"{path} is not a file of torch.save.")
    _plain(file)
    system = _plain(file)
    order: Literal["<", ">"] = "<" if system["little_endian"] else ">"
    wanted: dict[str, tuple[np.dtype[Any], int]] = {}

    # The pickle comes before the bytes: it is read twice.
    def note(key: str, dtype: np.dtype[Any], count: int) -> np.ndarray:
        wanted[key] = dtype.newbyteorder(order), count
        return np.broadcast_to(np.zeros((), dtype), (count,))

    begin = file.tell()
    _Tensors(file, note).load()
    storages = {}
    for key in _plain(file):
        dtype, count = wanted[key]
        if int.from_bytes(file.read(8), "little" if order == "<" else "big") != count:
            raise CheckpointError(
                f"{path}: the storage {key} has another length than its tensors. It is damaged."
            )
        storages[key] = np.frombuffer(file.read(count * dtype.itemsize), dtype, count)
    file.seek(begin)
    return _Tensors(file, lambda key, dtype, count: storages[key]).load()


def _plain(file: BinaryIO) -> Any:
    return _Tensors(file, _no_storage).load()


def _no_storage(key: str, dtype: np.dtype[Any], count: int) -> np.ndarray:
    raise pickle.UnpicklingError("a tensor is in an unexpected place")


class _StorageType(NamedTuple):
    name: str


class _Dict(dict[Any, Any]):
    """An `OrderedDict` of the file, whose attributes are ignored."""

    __slots__ = ()

    def __setstate__(self, state: object) -> None:
        """Ignores attributes, such as `_metadata` of a state dict."""


@final
class _Call:
    """A function of the file; without attributes, so that the file cannot change it."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *args: Any) -> Any:
        return self._function(*args)

    def __setstate__(self, state: object) -> None:
        raise pickle.UnpicklingError("the file sets attributes of a function")


class _Tensors(pickle.Unpickler):
    """Unpickles tensors, dictionaries, lists, numbers and text.

    Args:
        file: the file.
        storage: returns a storage, by its key, type and number of elements.
    """

    def __init__(self, file: BinaryIO, storage: Callable[[str, np.dtype[Any], int], np.ndarray]) -> None:
        super().__init__(file, encoding="utf-8")
        self._storage = storage

    def find_class(self, module: str, name: str) -> Any:
        if module == "collections" and name == "OrderedDict":
            return _Call(_Dict)
        if module == "torch" and name in _DTYPES:
            return _StorageType(name)
        if module == "torch._utils" and name in {"_rebuild_tensor_v2", "_rebuild_tensor"}:
            return _Call(_rebuild_tensor)
        if module == "torch._utils" and name in {"_rebuild_parameter", "_rebuild_parameter_with_state"}:
            return _Call(lambda data, *rest: data)
        if module == "torch" and name == "Size":
            return _Call(tuple)
        raise pickle.UnpicklingError(
            f"it has an object of {module}.{name}, and only tensors in dictionaries are read. Save "
            "model.state_dict()"
        )

    def persistent_load(self, pid: Any) -> np.ndarray:
        kind, storage_type, key, _, count = pid[:5]
        if kind != "storage" or not isinstance(storage_type, _StorageType) or (len(pid) > 5 and pid[5]):
            raise pickle.UnpicklingError(f"it has a reference of an unknown kind, {kind!r}")
        return self._storage(str(key), np.dtype(_DTYPES[storage_type.name]), int(count))


def _rebuild_tensor(
    storage: np.ndarray, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *rest: object
) -> np.ndarray:
    if len(shape) != len(strides) or min((offset, *shape, *strides)) < 0:
        raise pickle.UnpicklingError(f"a tensor has the shape {shape} and the strides {strides}")
    last = (
        offset + sum((size - 1) * stride for size, stride in zip(shape, strides)) if math.prod(shape) else 0
    )
    if last >= max(len(storage), 1):
        raise pickle.UnpicklingError(f"a tensor of shape {shape} ends behind its storage")
    steps = [stride * storage.itemsize for stride in strides]
    view = np.lib.stride_tricks.as_strided(storage[offset:], shape, steps, writeable=False)
    # A shape with strides of 0 could claim any size; native byte order, since arrays are fed to TensorFlow.
    if view.size > max(len(storage), 1) * 64:
        raise pickle.UnpicklingError(
            f"a tensor of shape {shape} repeats a storage of {len(storage)} elements"
        )
    return view.astype(view.dtype.newbyteorder("="))

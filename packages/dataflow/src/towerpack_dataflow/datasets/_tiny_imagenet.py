"""`TinyImageNet`: small photographs of 200 ImageNet classes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, final

from .. import _argument_checks as arguments
from .._errors import FormatError
from ._download import PathLike
from ._image_files import ImageFiles, LabelledImages, check_listed, text_lines

__all__ = ["TinyImageNet"]

_CLASSES = 200
_WHENCE = "unpack http://cs231n.stanford.edu/tiny-imagenet-200.zip (MD5 90528d7ca1a48142e341f4ef8d21d0de)"


@final
class TinyImageNet(LabelledImages):
    """Yields small photographs; addressable.

    A datapoint is `[image, label]`: uint8 of shape (64, 64, 3), RGB, and an int from 0 to 199, the position
    of the class in `wnids.txt`. There are 100,000 for training and 10,000 for validation. When the flow is
    created, the names of the images in the folders are compared with those in the lists; no image is opened.

    Source: Y. Le, X. Yang, "Tiny ImageNet visual recognition challenge", 2015.

    Args:
        dir: the folder `tiny-imagenet-200`, unpacked.
        name: `"train"` or `"val"`; the labels of the test set are not published.
        shuffle: whether each epoch has a different order; by default, only for the training set.

    Raises:
        ArgumentError: `name` has another value.
        DatasetError: a list, or an image of a list, is missing.
        FormatError: a list is damaged, or lacks images of the folder; or, while iterating, a file is not an
            image.
        ImportError: no image decoder is installed; raised while iterating.

    Example:
        ```python
        train = AugmentImageComponent(TinyImageNet("tiny-imagenet-200", "train"), [Flip(horiz=True)])
        ```
    """

    def __init__(self, dir: PathLike, name: Literal["train", "val"], shuffle: bool | None = None) -> None:
        """Reads the lists and compares them with the folders; opens no image."""
        arguments.one_of("name", name, ("train", "val"))
        folder = Path(dir).expanduser()
        synsets = _synsets(folder)
        files = _training_files(folder, synsets) if name == "train" else _validation_files(folder, synsets)
        shuffle = name == "train" if shuffle is None else shuffle
        super().__init__(ImageFiles(folder / name, files, shuffle))
        self._folder, self._synsets = folder, synsets

    def get_label_names(self) -> list[str]:
        """Returns the words of each label, such as `goldfish, Carassius auratus`.

        Raises:
            DatasetError: `words.txt` is missing.
            FormatError: it lacks a class.
        """
        path = self._folder / "words.txt"
        lines = text_lines(path, _WHENCE)
        words = {synset: text for synset, _, text in (line.partition("\t") for line in lines)}
        missing = [synset for synset in self._synsets if synset not in words]
        if missing:
            raise FormatError(f"{path} lacks {len(missing)} classes, {missing[0]} among them; {_WHENCE}")
        return [words[synset] for synset in self._synsets]


def _synsets(folder: Path) -> list[str]:
    path = folder / "wnids.txt"
    synsets = text_lines(path, _WHENCE)
    if len(set(synsets)) != _CLASSES or len(synsets) != _CLASSES:
        raise FormatError(
            f"{path} has {len(synsets)} lines, {len(set(synsets))} of them distinct; expected {_CLASSES} "
            f"classes; {_WHENCE}"
        )
    return synsets


def _training_files(folder: Path, synsets: list[str]) -> list[tuple[str, int]]:
    files = []
    for label, synset in enumerate(synsets):
        path = folder / "train" / synset / f"{synset}_boxes.txt"
        names = [row[0] for row in _rows(path)]
        check_listed(path.parent / "images", names, str(path))
        files += [(f"{synset}/images/{name}", label) for name in names]
    return files


def _validation_files(folder: Path, synsets: list[str]) -> list[tuple[str, int]]:
    path = folder / "val" / "val_annotations.txt"
    rows = _rows(path)
    check_listed(path.parent / "images", [row[0] for row in rows], str(path))
    labels = {synset: label for label, synset in enumerate(synsets)}
    strange = [row[1] for row in rows if row[1] not in labels]
    if strange:
        raise FormatError(f"{path} has the class {strange[0]}, which wnids.txt lacks; {_WHENCE}")
    return [(f"images/{row[0]}", labels[row[1]]) for row in rows]


def _rows(path: Path) -> list[list[str]]:
    """Returns the fields of each line of a list: the file, then its class or its box."""
    rows = [line.split("\t") for line in text_lines(path, _WHENCE)]
    for number, row in enumerate(rows, 1):
        if len(row) < 5:  # the file, four numbers, and optionally a class
            raise FormatError(
                f"{path}, line {number}: received {len(row)} fields in {row!r:.80}; expected the file and "
                "its box, separated by tabs"
            )
    return rows

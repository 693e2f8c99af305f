"""Text as files of words, one sentence in each line, and the perplexities of models that count words.

The files are Mikolov's: `ptb.train.txt`, `ptb.valid.txt` and `ptb.test.txt`, of words between spaces, with
`<unk>` for rare ones. `write_text` writes such files from the help texts of Python and the docstrings of
its standard library.
"""

import ast
import pydoc_data.topics
import re
import sysconfig
from collections import Counter
from pathlib import Path

import numpy as np

from towerpack_dataflow import DataFlow

SPLITS = ("train", "valid", "test")
UNKNOWN, END = "<unk>", "<eos>"
# Not about Python, or not there with every Python.
LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "pydoc_data"}


def read_words(folder):
    """Reads the files in a folder.

    Returns:
        The words of each split as numbers, int32, by the split's name; and the size of the vocabulary.
    """
    texts = {split: _words(folder / f"ptb.{split}.txt") for split in SPLITS}
    codes = {word: code for code, (word, _) in enumerate(Counter(texts["train"]).most_common())}
    unknown = codes.setdefault(UNKNOWN, len(codes))
    numbers = {
        split: np.array([codes.get(word, unknown) for word in text], np.int32)
        for split, text in texts.items()
    }
    return numbers, len(codes)


def _words(path):
    return path.read_text(encoding="utf-8").replace("\n", f" {END} ").split()


class Windows(DataFlow):
    """Windows of several streams of the text, in the order of the text; and the words that come next."""

    def __init__(self, words, streams, times):
        self._times, self._count = times, (len(words) - 1) // (streams * times)
        length = self._count * times
        self._streams = words[np.arange(streams)[:, None] * length + np.arange(length + 1)]

    def __len__(self):
        return self._count

    def datapoint(self, epoch, index):
        window = self._streams[:, index * self._times : (index + 1) * self._times + 1]
        return [window[:, :-1].copy(), window[:, 1:].copy()]


# ---- without a network


def unigram_perplexity(words, held_out, count):
    """Returns the perplexity of a unigram model; a missing word has the count 1.

    Args:
        words: the training text.
        held_out: the text to compute the perplexity of.
        count: the size of the vocabulary.
    """
    frequencies = np.bincount(words, minlength=count) + 1.0
    return _perplexity((frequencies / frequencies.sum())[held_out])


def bigram_perplexity(words, held_out, count, discount=0.75):
    """Returns the perplexity of a bigram model, after Kneser and Ney (1995).

    The count of each pair is reduced by `discount`. The sum of these reductions for a first word is
    distributed over all words, in proportion to the number of different words that each follows.
    """
    pairs, times = np.unique(words[:-1].astype(np.int64) * count + words[1:], return_counts=True)
    before, after = pairs // count, pairs % count
    seen = np.bincount(before, times, count)
    followers, preceded = np.bincount(before, minlength=count), np.bincount(after, minlength=count) + 1.0
    asked = held_out[:-1].astype(np.int64) * count + held_out[1:]
    place = np.minimum(np.searchsorted(pairs, asked), len(pairs) - 1)
    kept = np.where(pairs[place] == asked, times[place] - discount, 0)
    first = held_out[:-1]
    given_away = np.where(seen > 0, discount * followers, 1)[first]
    others = (preceded / preceded.sum())[held_out[1:]]
    return _perplexity((kept + given_away * others) / np.maximum(seen, 1)[first])


def _perplexity(probabilities):
    return float(np.exp(-np.log(probabilities).mean()))


# ---- a text that comes with Python


def write_text(folder, vocabulary=3000):
    """Writes the files with a limited vocabulary; every tenth document is held out for each split."""
    documents = [*pydoc_data.topics.topics.values(), *_docstrings()]
    held_out = {"valid": documents[4::10][::2], "test": documents[4::10][1::2]}
    apart = {id(document) for split in held_out.values() for document in split}
    parts = {"train": [document for document in documents if id(document) not in apart], **held_out}
    sentences = {split: [s for document in parts[split] for s in _sentences(document)] for split in SPLITS}
    frequent = Counter(word for sentence in sentences["train"] for word in sentence).most_common(
        vocabulary - 2
    )
    known = {word for word, _ in frequent}
    for split in SPLITS:
        lines = (
            " ".join(word if word in known else UNKNOWN for word in sentence) for sentence in sentences[split]
        )
        (folder / f"ptb.{split}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _docstrings():
    """Yields the docstrings of each module of the standard library as one text, each docstring once."""
    library, seen = Path(sysconfig.get_path("stdlib")), set()
    for path in sorted(library.rglob("*.py")):
        if LEFT_OUT.isdisjoint(path.relative_to(library).parts):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
            found = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds))
            new = [text for text in dict.fromkeys(found) if text and text not in seen]
            seen.update(new)
            if new:
                yield "\n\n".join(new)


def _sentences(text):
    for sentence in re.split(r"[.!?:;]\s|\n\s*\n", text.lower()):
        words = re.findall(r"[a-z]+(?:'[a-z]+)?|\d+", sentence)
        if words:
            yield ["N" if word.isdigit() else word for word in words]

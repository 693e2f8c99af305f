"""`checkpoint vars|diff|export`: lists, compares and exports the contents of checkpoints."""

from __future__ import annotations

import filecmp
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..checkpoint import Checkpoint, load_variables, read_checkpoint, state_to_json
from ..checkpoint.format import files_below, shown_value, target_of
from ..monitors import ScalarHistory
from ..writing._atomic_write import write_archive
from ._command_line import CheckpointCommandError, align

__all__ = ["difference", "export", "list_variables"]


_LONGEST = 60  # of a displayed value, in characters


def difference(first: Path, second: Path) -> list[str]:
    """Returns the lines of the comparison.

    Raises:
        CheckpointCommandError: a checkpoint does not exist.
        CheckpointError: a checkpoint cannot be read.
    """
    a, b = _read(first), _read(second)
    lines = [f"A  {a.path}", f"B  {b.path}", "", *_variables(a.variables, b.variables), ""]
    files = list(_files(a.callback_files, b.callback_files))
    lines += [*files, ""] if files else []
    states = list(_states(_flat(a.state), _flat(b.state)))
    if not states:
        return [*lines, "state: equal"]
    return [*lines, f"state: {len(states)} entries differ", *(f"  {line}" for line in align(states))]


def _read(path: Path) -> Checkpoint:
    if not path.is_dir() and target_of(path) is None:
        raise CheckpointCommandError(f"there is no directory {path}")
    return read_checkpoint(path)


def _variables(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> Iterator[str]:
    only_a, only_b, both = sorted(set(a) - set(b)), sorted(set(b) - set(a)), sorted(set(a) & set(b))
    alike = [n for n in both if a[n].shape == b[n].shape and a[n].dtype == b[n].dtype]
    distances = {name: _distance(a[name], b[name]) for name in alike}
    changed = sorted((n for n in alike if distances[n] != 0), key=lambda n: (-_rank(distances[n]), n))
    unlike = [name for name in both if name not in distances]
    yield (
        f"variables: {len(alike) - len(changed)} equal, {len(changed)} with other values, "
        f"{len(unlike)} with other shape or dtype, {len(only_a)} only in A, {len(only_b)} only in B"
    )
    rows = [["only in A", name, _kind(a[name])] for name in only_a]
    rows += [["only in B", name, _kind(b[name])] for name in only_b]
    rows += [["other kind", name, f"{_kind(a[name])} -> {_kind(b[name])}"] for name in unlike]
    rows += [["other values", name, _words(distances[name])] for name in changed]
    if rows:
        yield from (f"  {line}" for line in align(rows))


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """Computes the largest absolute difference; NaN if only one is NaN, or if other values differ."""
    if np.array_equal(a, b):
        return 0.0
    if a.dtype.kind in "OSU":
        return float("nan")
    wide: Any = np.complex128 if a.dtype.kind == "c" else np.float64
    with np.errstate(invalid="ignore"):
        distance = np.abs(a.astype(wide) - b.astype(wide))
    same = (a == b) | ((a != a) & (b != b))  # NaN alone is not equal to itself
    return float(np.max(np.where(same, 0.0, distance)))


def _rank(distance: float) -> float:
    return float("inf") if np.isnan(distance) else distance


def _words(distance: float) -> str:
    return "not comparable: NaN or text" if np.isnan(distance) else f"max |A - B| = {distance:.6g}"


def _kind(array: np.ndarray) -> str:
    return f"{array.dtype}[{', '.join(map(str, array.shape))}]"


def _files(a: Path, b: Path) -> Iterator[str]:
    """Compares callbacks' files, if any; hard links to one file are equal without reading."""
    in_a, in_b = ({file.relative_to(where): file for file in files_below(where)} for where in (a, b))
    rows = [["only in A", str(name)] for name in sorted(set(in_a) - set(in_b))]
    rows += [["only in B", str(name)] for name in sorted(set(in_b) - set(in_a))]
    both = sorted(set(in_a) & set(in_b))
    changed = [name for name in both if not _same_content(in_a[name], in_b[name])]
    rows += [["other content", str(name)] for name in changed]
    if in_a or in_b:
        yield f"files: {len(both) - len(changed)} equal, {len(rows)} differ"
    if rows:
        yield from (f"  {line}" for line in align(rows))


def _same_content(a: Path, b: Path) -> bool:
    return a.samefile(b) or filecmp.cmp(a, b, shallow=False)


def _flat(value: Any, where: str = "") -> dict[str, Any]:
    """Flattens nested dicts to entries by path; lists and other values are kept as they are."""
    if where.endswith(f"/ {ScalarHistory.__name__}"):
        return {f"{where} / {name}": words for name, words in _histories(value)}
    if not isinstance(value, dict) or not value:
        return {where: value}
    entries: dict[str, Any] = {}
    for key, part in value.items():
        name = key if isinstance(key, str) else repr(key)
        entries |= _flat(part, f"{where} / {name}" if where else name)
    return entries


def _histories(state: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Describes the histories of statistics, which a checkpoint stores in packed form."""
    history = ScalarHistory()
    history.load_state_dict(state)
    for name in history.names():
        yield name, f"{len(history.pairs(name))} values, the last {history.latest(name):.6g}"


def _states(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[list[str]]:
    for where in sorted(set(a) | set(b)):
        if where not in b:
            yield [where, f"only in A: {_shown(a[where])}"]
        elif where not in a:
            yield [where, f"only in B: {_shown(b[where])}"]
        elif state_to_json({where: a[where]}) != state_to_json({where: b[where]}):  # NaN is equal to NaN here
            yield [where, f"{_shown(a[where])} -> {_shown(b[where])}"]


def _shown(value: Any) -> str:
    text = shown_value(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]}… ({len(text)} characters)"


_Variables = dict[str, np.ndarray[Any, Any]]


def list_variables(source: Path, patterns: Sequence[re.Pattern[str]]) -> list[str]:
    """Returns a line for each variable with a matching name, or for all without patterns.

    A line has the name, the shape, the dtype and the number of elements. The last line has the totals.

    Raises:
        CheckpointCommandError: there is no checkpoint, or no name matches.
        CheckpointError: the checkpoint cannot be read.
    """
    chosen = _choose(source, patterns)
    rows = [
        [name, f"[{', '.join(map(str, array.shape))}]", _dtype(array), f"{array.size:,}"]
        for name, array in chosen.items()
    ]
    table = align([["name", "shape", "dtype", "parameters"], *rows], right=(3,))
    total = sum(array.size for array in chosen.values())
    size = sum(array.nbytes for array in chosen.values())
    return [*table, f"{len(chosen)} variables, {total:,} parameters, {size / 2**20:.2f} MiB"]


def export(source: Path, target: Path, patterns: Sequence[re.Pattern[str]]) -> tuple[int, int]:
    """Writes the variables with a matching name, or all without patterns.

    Types that NumPy does not have, such as bfloat16, become float32.

    Returns:
        The number of variables written, and the size of the archive in bytes.

    Raises:
        CheckpointCommandError: there is no checkpoint, no name matches, or a variable is not numeric.
        CheckpointError: the checkpoint cannot be read.
    """
    chosen = _choose(source, patterns)
    texts = [name for name, array in chosen.items() if array.dtype.kind == "O"]
    if texts:
        raise CheckpointCommandError(
            f"variable {texts[0]} holds text, which an archive cannot store; exclude it with --keys"
        )
    write_archive(target, chosen)
    return len(chosen), target.stat().st_size


def _choose(source: Path, patterns: Sequence[re.Pattern[str]]) -> _Variables:
    if not source.exists() and not source.with_name(f"{source.name}.index").exists():
        raise CheckpointCommandError(f"there is no checkpoint {source}")
    variables = load_variables(source)
    chosen = {
        name: array
        for name, array in sorted(variables.items())
        if not patterns or any(pattern.search(name) for pattern in patterns)
    }
    if not chosen:
        wanted = ", ".join(repr(pattern.pattern) for pattern in patterns) or "anything"
        raise CheckpointCommandError(
            f"no variable matches {wanted}; there are: {', '.join(sorted(variables)) or 'none'}"
        )
    return chosen


def _dtype(array: np.ndarray[Any, Any]) -> str:
    return "string" if array.dtype.kind in "OSU" else array.dtype.name

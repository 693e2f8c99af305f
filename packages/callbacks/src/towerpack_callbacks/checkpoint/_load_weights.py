"""`load_weights`: the weights of a file under the names of a graph, by rules for all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from .._errors import CheckpointError
from .format import load_variables

__all__ = ["load_weights"]

# Name or pattern in the file; name in the graph, or None; order of axes.
Rule = Sequence[str | None]
_PLACE = re.compile(r"\\\{(\w+)\\\}")


def load_weights(path: str | Path, rules: Iterable[Rule]) -> dict[str, np.ndarray]:
    """Reads published weights and gives them the names and axes of a graph's variables.

    Args:
        path: a file supported by `load_variables`: safetensors, PyTorch (`.pth`, `.pt`), Keras, NumPy,
            TensorFlow or Caffe.
        rules: the first that matches a whole name is applied. Each is a pair or a triple:

            1. the name in the file, in which `{word}` stands for one or more characters except dots and
               slashes;
            2. the name of the variable, in which `{word}` is replaced by these characters; `None` to leave
               the weight out;
            3. optional: the axes before and after, such as "OIHW->HWIO" for a convolution's kernel.

    Returns:
        Arrays by variable name, with the types of the file.

    Raises:
        CheckpointError: the file cannot be read; no rule matches a name; a rule matches no name; two weights
            get the same name; or an array has another number of axes than its rule.
        TypeError: a rule has another form.

    Example:
        ```python
        weights = load_weights(
            "resnet18.safetensors",
            [
                ("layer{g}.{b}.conv{i}.weight", "group{g}/block{b}/conv{i}/W", "OIHW->HWIO"),
                ("fc.weight", "linear/W", "OI->IO"),
                ("fc.bias", "linear/b"),
                ("{layer}.num_batches_tracked", None),
            ],
        )
        SmartInit(weights, allow=[])  # each variable needs a value, and each value is used
        ```
    """
    compiled = [_compiled(rule) for rule in rules]
    arrays: dict[str, np.ndarray] = {}
    used: set[int] = set()
    left = []
    for name, array in load_variables(path).items():
        number, match = next(
            (
                (number, match)
                for number, (pattern, _, _) in enumerate(compiled)
                if (match := pattern.fullmatch(name))
            ),
            (-1, None),
        )
        if match is None:
            left.append(f"{name} {array.shape}")
            continue
        used.add(number)
        _, target, axes = compiled[number]
        if target is None:
            continue
        renamed = target
        for word, found in match.groupdict().items():
            renamed = renamed.replace(f"{{{word}}}", found)
        if renamed in arrays:
            raise CheckpointError(
                f"{path}: two weights become {renamed!r}, the second is {name!r}. Change rules."
            )
        arrays[renamed] = _transposed(array, axes, name, path)
    if left:
        raise CheckpointError(
            f"{path}: no rule matches {len(left)} of its weights. Add rules, with the name None to leave a "
            "weight out:\n  " + "\n  ".join(left)
        )
    if unused := [pattern.pattern for number, (pattern, _, _) in enumerate(compiled) if number not in used]:
        raise CheckpointError(
            f"{path}: no weight matches the rules {', '.join(unused)}. Remove or correct them."
        )
    return arrays


def _compiled(rule: Rule) -> tuple[re.Pattern[str], str | None, str | None]:
    if isinstance(rule, str) or not 2 <= len(rule) <= 3 or not isinstance(rule[0], str):
        raise TypeError(
            "rules has pairs (name in the file, variable or None) and triples with axes such as "
            f'"OIHW->HWIO"; received {rule!r}'
        )
    _, target, axes = (*rule, None) if len(rule) == 2 else rule
    pattern = _PLACE.sub(r"(?P<\1>[^./]+)", re.escape(rule[0]))
    if axes is not None:
        before, _, after = axes.partition("->")
        if sorted(before) != sorted(after) or len(set(before)) != len(before):
            raise TypeError(f'axes are such as "OIHW->HWIO", the same letters twice; received {axes!r}')
    return re.compile(pattern), target, axes


def _transposed(array: np.ndarray, axes: str | None, name: str, path: str | Path) -> np.ndarray:
    if axes is None:
        return array
    before, _, after = axes.partition("->")
    if array.ndim != len(before):
        raise CheckpointError(
            f"{path}: {name!r} has the shape {array.shape}, but its rule has axes {axes!r}."
        )
    return np.ascontiguousarray(array.transpose([before.index(axis) for axis in after]))

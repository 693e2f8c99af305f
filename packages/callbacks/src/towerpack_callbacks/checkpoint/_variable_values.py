"""Reads values of variables from a session and assigns them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from .._errors import CheckpointError
from ..graph import take_copies
from .format import load_variables

__all__ = [
    "add_copies",
    "assign_variables",
    "complete_copies",
    "copies_or_variables",
    "initial_feeds",
    "load_weights",
    "snapshot_variables",
    "variables_in",
]

# TensorFlow does not copy a fed array whose address is a multiple of this.
_ALIGNMENT = 64

# The names of variables that were assigned values. The key is a tuple because TensorFlow exports collections
# with string keys.
_ASSIGNED = ("towerpack_assigned_variables",)

# Variables that a session initialises and that accept values.
_INITIALIZED = (tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.LOCAL_VARIABLES)


def snapshot_variables(sess: tf.Session, variables: Iterable[tf.Variable]) -> dict[str, np.ndarray]:
    """Copies the values of variables by name, all from the same step."""
    by_name = {variable.op.name: variable for variable in variables}
    values: dict[str, np.ndarray] = sess.run(by_name)
    return values


def assign_variables(sess: tf.Session, values: Mapping[str, np.ndarray]) -> None:
    """Assigns new values to variables of the session's graph.

    Args:
        sess: the session; its graph may be final.
        values: arrays by variable name, of the variables' shapes and dtypes.

    Raises:
        KeyError: the graph has no variable of such a name.
        ValueError: a shape does not fit, or a type cannot hold a value.
    """
    variables = variables_in(sess.graph, _INITIALIZED)
    sess.graph.get_collection_ref(_ASSIGNED).extend(values)
    # Outside its graph a tensor cannot be a dictionary key where eager execution is on.
    with sess.graph.as_default():
        while values:
            now, values = _apart(variables, values)
            feeds = _feeds(variables, now)
            sess.run([variables[name].initializer for name in now], feeds)


def initial_feeds(
    graph: tf.Graph, values: Mapping[str, np.ndarray]
) -> tuple[dict[tf.Tensor, np.ndarray], dict[str, np.ndarray]]:
    """Returns the feeds that initialise some variables with given values.

    Call it, and use the feeds, while `graph` is the default graph.

    Args:
        graph: the graph of the variables; it may be final.
        values: arrays by variable name, of the variables' shapes and dtypes.

    Returns:
        The feeds, and the values that must be assigned afterwards: those of variables that share their
        initial value with another one, so that a feed cannot distinguish them.

    Raises:
        KeyError: the graph has no variable of such a name.
        ValueError: a shape does not fit, or a type cannot hold a value.
    """
    variables = variables_in(graph, _INITIALIZED)
    graph.get_collection_ref(_ASSIGNED).extend(values)
    used = Counter(_initial(variable).name for variable in variables.values())
    alone = {
        name: value
        for name, value in values.items()
        if name not in variables or used[_initial(variables[name]).name] == 1
    }
    shared = {name: value for name, value in values.items() if name not in alone}
    return _feeds(variables, alone), shared


def complete_copies(sess: tf.Session) -> None:
    """Initialises declared copies that have received no value, if any variable has received one.

    Args:
        sess: the session, after `assign_variables` or with the feeds of `initial_feeds`. `begin_as_copies`
            declared the copies in its graph.
    """
    assigned = set(sess.graph.get_collection(_ASSIGNED))
    if not assigned:
        return
    pairs = take_copies(sess.graph)
    originals = {copy.op.name: original for copy, original in pairs if copy.op.name not in assigned}
    with sess.graph.as_default():
        values = sess.run(originals)
    assign_variables(sess, values)


def variables_in(graph: tf.Graph, collections: Iterable[str]) -> dict[str, tf.Variable]:
    """Returns the variables of some collections, by name."""
    return {variable.op.name: variable for key in collections for variable in graph.get_collection(key)}


def _initial(variable: tf.Variable) -> tf.Tensor:
    # An initializer assigns its second input, so feeding that input assigns any value.
    return variable.initializer.inputs[1]


def _apart(
    variables: Mapping[str, tf.Variable], values: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Separates the values of variables with unshared initial values from the others."""
    now: dict[str, np.ndarray] = {}
    later: dict[str, np.ndarray] = {}
    seen: set[str] = set()
    for name, value in values.items():
        initial = _initial(variables[name]).name if name in variables else name
        (later if initial in seen else now)[name] = value
        seen.add(initial)
    return now, later


def _feeds(
    variables: Mapping[str, tf.Variable], values: Mapping[str, np.ndarray]
) -> dict[tf.Tensor, np.ndarray]:
    initials, arrays = [], []
    for name, value in values.items():
        if name not in variables:
            raise KeyError(f"The graph has no variable {name!r}.")
        variable = variables[name]
        if not variable.shape.is_compatible_with(value.shape):
            raise ValueError(f"Variable {name!r} has shape {variable.shape}; received {value.shape}.")
        if isinstance(value, np.ma.MaskedArray):
            raise ValueError(
                f"The value for variable {name!r} is a masked array; expected a plain array. Fill it first."
            )
        initials.append(_initial(variable))
        arrays.append(_converted(name, value, np.dtype(initials[-1].dtype.as_numpy_dtype)))
    # Copies, because TensorFlow uses aligned arrays in place: the caller's array and the variable would share
    # memory.
    return dict(zip(initials, _aligned_copies(arrays)))


def _converted(name: str, value: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Converts a value to the type of its variable; floats may be rounded, other values must be exact."""
    if value.dtype == dtype or dtype.hasobject:
        return np.asarray(value, dtype)
    if dtype.kind == "V" and dtype.names:  # qint8 and similar types
        raise ValueError(f"Variable {name!r} has type {dtype}; received values of type {value.dtype}.")
    with np.errstate(all="ignore"):
        converted = np.asarray(value).astype(dtype)
        back = converted.astype(value.dtype)
    is_float = all(tf.as_dtype(kind).is_floating or kind.kind == "c" for kind in (dtype, value.dtype))
    kept = (
        np.isfinite(converted) == np.isfinite(value)
        if is_float
        else (back == value) & ((converted < 0) == (value < 0))
    )
    if not np.all(kept):
        raise ValueError(f"Variable {name!r} has type {dtype.name}, which cannot hold the values received.")
    return converted


def _aligned_copies(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Copies arrays into one block of memory, aligned so that TensorFlow uses them in place.

    One block, because it then uses large pages: the first write to many blocks of a few megabytes takes
    longer. An array of objects (strings) is returned unchanged.
    """
    sizes = [0 if array.dtype.hasobject else -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT for array in arrays]
    block = np.empty(sum(sizes) + _ALIGNMENT, np.uint8)
    place = -block.ctypes.data % _ALIGNMENT
    copies = []
    for array, size in zip(arrays, sizes):
        if array.dtype.hasobject:
            copies.append(array)
            continue
        copy = block[place : place + array.nbytes].view(array.dtype).reshape(array.shape)
        np.copyto(copy, array)
        copies.append(copy)
        place += size
    return copies


_SCOPE = "towerpack_copies"

# TensorFlow 2.21 stores and fetches these types but has no op that copies them.
_NOT_COPIED = re.compile(r"float[48]_.*|u?int[24]")


def add_copies(graph: tf.Graph, collections: Sequence[str]) -> None:
    """Adds an op that copies each variable, for `copies_or_variables`; once for all savers of a graph.

    TensorFlow copies a fetched variable into new memory pages, in one thread that holds the interpreter lock.
    A copy made by the graph is returned directly, which takes a fraction of the time. On GPUs a fetched value
    is always a copy.
    """
    if graph.finalized or tf.config.list_physical_devices("GPU"):
        return
    with graph.as_default(), tf.name_scope(None), tf.device("/cpu:0"), tf.control_dependencies(None):
        for name, variable in variables_in(graph, collections).items():
            if _can_be_copied(variable.dtype.base_dtype) and _copy_of(graph, name) is None:
                tf.raw_ops.DeepCopy(x=variable.read_value(), name=f"{_SCOPE}/{name}")


def copies_or_variables(graph: tf.Graph, collections: Sequence[str]) -> Mapping[str, tf.Tensor | tf.Variable]:
    """Returns the tensors to fetch for all variables, by name: their copies if they exist."""
    found = variables_in(graph, collections)
    copies = {name: _copy_of(graph, name) for name in found}
    return {name: variable if copies[name] is None else copies[name] for name, variable in found.items()}


def _can_be_copied(dtype: tf.DType) -> bool:
    return bool(dtype.is_numpy_compatible) and not _NOT_COPIED.fullmatch(dtype.name)


def _copy_of(graph: tf.Graph, name: str) -> tf.Tensor | None:
    try:
        return graph.get_tensor_by_name(f"{_SCOPE}/{name}:0")
    except KeyError:
        return None


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
               the weight out if the file has it;
            3. optional: the axes before and after, such as "OIHW->HWIO" for a convolution's kernel.

    Returns:
        Arrays by variable name, with the types of the file.

    Raises:
        CheckpointError: the file cannot be read; no rule matches a name; a rule with a variable matches no
            name; two weights get the same name; or an array has another number of axes than its rule.
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
    unused = [
        pattern.pattern
        for number, (pattern, target, _) in enumerate(compiled)
        if number not in used and target is not None
    ]
    if unused:
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

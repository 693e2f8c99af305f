"""Averages the gradients of towers with separate variables, and puts the result on the device of each tower.

Every mode takes and returns the gradients in the order of the variables, so each tower updates its variable
with the average of all towers' gradients for that variable, regardless of the intermediate steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._errors import ConfigError
from ..towers._builder import check_same_variables
from ..towers._devices import are_gpus
from ..towers._objective import Pairs
from ..towers._tensor_buckets import Buckets

__all__ = [
    "MODES",
    "GradientPacker",
    "all_reduce",
    "average",
    "average_gradients",
    "choose_mode",
    "sum_in_two_groups",
    "sum_over_gpus",
]


MODES = ("nccl", "hierarchical", "cpu")


def choose_mode(mode: str | None, devices: Sequence[str]) -> str:
    """Chooses the averaging mode for the given devices.

    Args:
        mode: one of `MODES`; None: "nccl" between GPUs, "cpu" otherwise.
        devices: the devices of the towers.

    Raises:
        ConfigError: there is no such mode, or the devices do not support it.
    """
    gpus = are_gpus(devices) and len(devices) > 1
    if mode is None:
        return "nccl" if gpus else "cpu"
    if mode not in MODES:
        raise ConfigError(f"mode={mode!r}: expected one of {', '.join(map(repr, MODES))}, or None.")
    if mode == "nccl" and not gpus:
        raise ConfigError(
            f'mode="nccl" works between GPUs, but the towers are on {", ".join(devices)}. Use mode="cpu".'
        )
    if mode == "hierarchical" and len(devices) < 2:
        raise ConfigError(
            'mode="hierarchical" divides the devices into two groups, but there is only one. Use mode="cpu".'
        )
    return mode


def all_reduce(towers: Sequence[Sequence[Any]], devices: Sequence[str], mode: str) -> list[list[Any]]:
    """Averages gradients over towers.

    Args:
        towers: for each tower, its gradients (dense or `tf.IndexedSlices`), in the same order.
        devices: the device of each tower.
        mode: "cpu": each gradient on the CPU. "hierarchical": packed, on the towers' devices, within two
            groups and then between them. "nccl": packed, with NCCL.

    Returns:
        For each tower, the averages, in the same order.
    """
    if len(towers) == 1:
        return [list(towers[0])]
    columns = list(zip(*towers))
    packable = [mode != "cpu" and all(map(_is_packable, column)) for column in columns]
    dense = _reduce_packed(
        [[gradient for gradient, yes in zip(tower, packable) if yes] for tower in towers], devices, mode
    )
    with tf.device("/cpu:0"):
        others = [average(column) for column, yes in zip(columns, packable) if not yes]
    return [_merge(packable, mine, others) for mine in dense]


def _is_packable(gradient: Any) -> bool:
    return isinstance(gradient, tf.Tensor) and bool(gradient.shape.is_fully_defined())


def _merge(packable: Sequence[bool], packed: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    from_packed, from_others = iter(packed), iter(others)
    return [next(from_packed if yes else from_others) for yes in packable]


def _reduce_packed(
    towers: Sequence[Sequence[tf.Tensor]], devices: Sequence[str], mode: str
) -> list[list[tf.Tensor]]:
    """Averages gradients packed into one flat tensor per device; each device sums one of them."""
    if not towers[0]:
        return [[] for _ in towers]
    packer = GradientPacker.like(towers[0], count=len(devices))
    packed = []
    for gradients, device in zip(towers, devices):
        with tf.device(device):
            packed.append(packer.pack(gradients))
    sums = [
        sum_over_gpus(column) if mode == "nccl" else sum_in_two_groups(column, devices, number)
        for number, column in enumerate(zip(*packed))
    ]
    averages = []
    for mine, device in zip(zip(*sums), devices):
        with tf.device(device):
            averages.append(packer.unpack([total / len(devices) for total in mine]))
    return averages


def sum_in_two_groups(tensors: Sequence[tf.Tensor], devices: Sequence[str], number: int) -> list[tf.Tensor]:
    """Sums tensors onto each device: within the first and the second half, then between the two.

    If links within a half are faster than links between halves, as on hosts with eight GPUs, only one tensor
    crosses in each direction.

    Args:
        tensors: tensors of the same shape and dtype, one per device.
        devices: at least two.
        number: selects the device of the sum in each half, in turn.
    """
    half = len(devices) // 2
    groups = [range(half), range(half, len(devices))]
    partial, meeting = [], []
    for group in groups:
        meeting.append(devices[group[number % len(group)]])
        with tf.device(meeting[-1]):
            partial.append(tf.add_n([tensors[index] for index in group]))
    totals: list[tf.Tensor] = []
    for group, place in zip(groups, meeting):
        with tf.device(place):
            # In the same order in both halves, so that all towers get the same bits.
            total = partial[0] + partial[1]
        totals += [total] * len(group)
    return totals


def sum_over_gpus(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Sums tensors onto the device of each.

    This is the only place that calls NCCL, and our tests do not run it: they have no GPUs. NCCL waits until
    all devices take part, so all results must be run together.

    Args:
        tensors: tensors of the same shape and dtype, each on a different GPU of this host.
    """
    # Not public since TensorFlow 2, but used by its own strategies; the op, NcclAllReduce, is public.
    from tensorflow.python.ops import nccl_ops

    return list(nccl_ops.all_sum(tensors))


def average_gradients(towers: Sequence[Pairs]) -> list[tuple[Any, tf.Variable]]:
    """Averages gradients over towers that share their variables, each on the device of its variable.

    Args:
        towers: for each tower, pairs of gradient (dense or `tf.IndexedSlices`) and variable, in the same
            order.

    Returns:
        One pair per variable.

    Raises:
        TowerRuleError: the towers do not train the same variables.
    """
    check_same_variables([[variable.op.name for _, variable in pairs] for pairs in towers])
    pairs = []
    for column in zip(*towers):
        variable = column[0][1]
        with tf.device(variable.device):
            pairs.append((average([gradient for gradient, _ in column]), variable))
    return pairs


def average(gradients: Sequence[Any]) -> Any:
    """Averages one gradient over towers; the average is sparse if the gradient is sparse in all towers."""
    if len(gradients) == 1:
        return gradients[0]
    if all(isinstance(gradient, tf.IndexedSlices) for gradient in gradients):
        # Rows that several towers touched are summed when they are applied.
        return tf.IndexedSlices(
            tf.concat([gradient.values for gradient in gradients], 0) / len(gradients),
            tf.concat([gradient.indices for gradient in gradients], 0),
            gradients[0].dense_shape,
        )
    return tf.add_n([tf.convert_to_tensor(gradient) for gradient in gradients]) / len(gradients)


@final
class GradientPacker:
    """Packs a list of gradients into few flat tensors, and unpacks them in the same order.

    A flat tensor holds neighbours of one dtype, so it is ready as soon as they are, while others are still
    being computed.

    Args:
        shapes: the gradients' shapes, fully defined.
        dtypes: their dtypes.
        count: the approximate number of flat tensors for each dtype.

    Raises:
        ValueError: a shape is not fully defined, or `count` is below 1.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_trainers.replicate import GradientPacker
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     gradients = [tf.ones([2, 2]), tf.zeros([3]), tf.ones([])]
        ...     packer = GradientPacker.like(gradients, count=2)
        ...     packed = packer.pack(gradients)
        ...     [tensor.shape.as_list() for tensor in packed]
        ...     [tensor.tolist() for tensor in session.run(packer.unpack(packed))]
        [[4], [4]]
        [[[1.0, 1.0], [1.0, 1.0]], [0.0, 0.0, 0.0], 1.0]
    """

    def __init__(self, shapes: Sequence[tf.TensorShape], dtypes: Sequence[tf.DType], count: int = 1) -> None:
        for index, shape in enumerate(shapes):
            if not shape.is_fully_defined():
                raise ValueError(
                    f"GradientPacker cannot pack gradient {index}: its shape {shape} is unknown."
                )
        self._buckets = Buckets.by_count(shapes, dtypes, count)

    @classmethod
    def like(cls, gradients: Sequence[tf.Tensor], count: int = 1) -> GradientPacker:
        """Makes a packer for gradients of these shapes and dtypes."""
        return cls([gradient.shape for gradient in gradients], [g.dtype for g in gradients], count)

    def pack(self, gradients: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Joins gradients into flat tensors."""
        return self._buckets.pack(gradients)

    def unpack(self, packed: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Splits flat tensors into gradients, in the original order."""
        return self._buckets.unpack(packed)

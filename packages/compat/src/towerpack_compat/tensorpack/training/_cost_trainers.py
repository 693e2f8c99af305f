"""Trainers of one cost: `setup_graph(signature, input, cost, optimizer)`, then `train`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

import towerpack_trainers as trainers
from towerpack_inputsource import InputSource
from towerpack_trainers import distributed, optimize

from ... import horovod
from ..models import tensorpack_rules
from ..tfutils.session import device_names
from ._empty_trainers import TowerTrainer
from ._towers import TowerFunc

__all__ = [
    "AsyncMultiGPUTrainer",
    "HorovodTrainer",
    "NoOpTrainer",
    "ProxyOptimizer",
    "QueueInputTrainer",
    "SimpleTrainer",
    "SingleCostTrainer",
    "SyncMultiGPUTrainer",
    "SyncMultiGPUTrainerParameterServer",
    "SyncMultiGPUTrainerReplicated",
]


class ProxyOptimizer(optimize.ProxyOptimizer):
    """Forwards all calls to another optimizer, `self._opt`; a subclass adds work before or after them."""

    def __init__(self, opt: tf.train.Optimizer, name: str = "ProxyOptimizer") -> None:
        super().__init__(opt)
        self._opt = opt


class SingleCostTrainer(TowerTrainer):
    """Trains with one cost and one optimizer; subclasses override `_setup_graph`, or `_make_builder`."""

    def setup_graph(  # type: ignore[override]
        self,
        input_signature: Sequence[tf.TensorSpec],
        input: InputSource,
        get_cost_fn: Callable[..., tf.Tensor],
        get_opt_fn: Callable[[], tf.train.Optimizer],
    ) -> None:
        """Builds the graph.

        Args:
            input_signature: the inputs.
            input: provides them in the graph.
            get_cost_fn: builds a replica, and returns the cost.
            get_opt_fn: creates the optimizer.
        """
        self.tower_func = TowerFunc(get_cost_fn, input_signature)
        source: Any = input  # its `setup` returns callbacks in this package
        self.register_callback(source.setup(input_signature))
        self.register_callback(self._setup_graph(input, self.tower_func, get_opt_fn) or [])

    def _setup_graph(
        self, input: InputSource, get_cost_fn: TowerFunc, get_opt_fn: Callable[[], Any]
    ) -> list[Any]:
        builder = self._make_builder()
        with tensorpack_rules():
            self.train_op = builder.build(get_cost_fn.inner, input.get_input_tensors, get_opt_fn)
        return list(builder.callbacks())

    def _make_builder(self) -> Any:
        """Returns the builder that places the towers."""
        raise NotImplementedError

    def _make_get_grad_fn(self, input: Any, get_cost_fn: Any, get_opt_fn: Any) -> Callable[[], Any]:
        """Returns a function that builds a replica, and returns its gradients with their variables."""
        return lambda: trainers.FilterNoneGrad().process(
            get_opt_fn().compute_gradients(get_cost_fn(*input.get_input_tensors()))
        )


class SimpleTrainer(SingleCostTrainer):
    """Trains on one device."""

    def _make_builder(self) -> Any:
        from towerpack_trainers.towers._builder import SingleDeviceBuilder  # noqa: PLC2701

        return SingleDeviceBuilder(exchange=self.processes.gradient_exchange)


QueueInputTrainer = SimpleTrainer


class NoOpTrainer(SimpleTrainer):
    """Builds the graph, and runs only callbacks."""

    def run_step(self) -> None:
        self.hooked_sess.run([])


class SyncMultiGPUTrainerParameterServer(SingleCostTrainer):
    """Trains towers with shared variables.

    Args:
        gpus: the number of GPUs, or a list of their indices.
        ps_device: the device of variables: "cpu", or "gpu" to distribute them over the GPUs.
    """

    def __init__(self, gpus: int | Sequence[int], ps_device: str | None = None) -> None:
        self.devices = device_names(gpus)
        self._ps_device = ps_device or ("gpu" if len(self.devices) <= 2 else "cpu")
        super().__init__()

    def _make_builder(self) -> Any:
        places = self.devices if self._ps_device == "gpu" else ["/cpu:0"]
        return trainers.SyncMultiGPUParameterServerBuilder(self.devices, places)


def SyncMultiGPUTrainer(gpus: int | Sequence[int]) -> SyncMultiGPUTrainerParameterServer:
    """Returns the trainer of several GPUs with shared variables on the CPU."""
    return SyncMultiGPUTrainerParameterServer(gpus, ps_device="cpu")


class AsyncMultiGPUTrainer(SingleCostTrainer):
    """Trains towers asynchronously.

    Args:
        gpus: the number of GPUs, or a list of their indices.
        scale_gradient: whether gradients are divided by the number of towers.
    """

    def __init__(self, gpus: int | Sequence[int], scale_gradient: bool = True) -> None:
        self.devices, self._scale = device_names(gpus), scale_gradient
        super().__init__()

    def _make_builder(self) -> Any:
        return trainers.AsyncMultiGPUBuilder(self.devices, scale_gradient=self._scale)


class SyncMultiGPUTrainerReplicated(SingleCostTrainer):
    """Trains towers with copies of the variables.

    Args:
        gpus: the number of GPUs, or a list of their indices.
        average: whether to average gradients over the towers instead of summing them.
        mode: the algorithm: "nccl", "hierarchical", "gpu" or "cpu"; None chooses automatically.
    """

    def __init__(self, gpus: int | Sequence[int], average: bool = True, mode: str | None = None) -> None:
        self.devices, self._average = device_names(gpus), average
        wanted = None if mode is None else mode.lower()
        self._mode = wanted if wanted == "hierarchical" and len(self.devices) == 8 else None
        super().__init__()

    def _make_builder(self) -> Any:
        kind = trainers.SyncMultiGPUReplicatedBuilder if self._average else _SummingBuilder
        return kind(self.devices, self._mode)


class _SummingBuilder(trainers.SyncMultiGPUReplicatedBuilder):
    """Sums the gradients of the towers: averages gradients scaled by the number of towers."""

    def _scale(self, pairs: Any) -> Any:
        return [(gradient * self._count, variable) for gradient, variable in super()._scale(pairs)]


class HorovodTrainer(SingleCostTrainer):
    """Trains in the processes that `mpiexec` has started, one replica in each, with equal variables.

    Args:
        average: whether to average gradients over the processes instead of summing them.
        compression: no effect; gradients keep their dtype.

    Raises:
        MissingExtraError: mpi4py is not installed, and `mpiexec` has started the process.
    """

    def __init__(self, average: bool = True, compression: Any = None) -> None:
        processes: Any = None
        if horovod.size() > 1:
            processes = distributed.SynchronousProcesses(distributed.MPICommunicator())
            processes.gradient_exchange = processes.gradient_exchange if average else _Summing(processes)
        super().__init__(processes)

    _make_builder = SimpleTrainer._make_builder


class _Summing:
    """Sums gradients over processes: averages gradients scaled by the number of processes."""

    def __init__(self, processes: Any) -> None:
        self._average, self._size = processes.gradient_exchange, processes.communicator.size
        self.sum = self._average.sum

    def __call__(self, pairs: Any) -> Any:
        return [(gradient * self._size, variable) for gradient, variable in self._average(pairs)]

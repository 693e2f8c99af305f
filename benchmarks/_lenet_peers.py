"""The LeNet of benchmarks/digits.py in JAX and PyTorch, each in several ways, on shuffled batches of arrays.

The weight decay of PyTorch's Adam adds the gradient of the penalty of the others.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable

import numpy as np
from _lenet import BATCH, EPOCHS, STEPS, WEIGHTS, Measured, examples, timed
from _loop_flows import RATE, batches

DECAY = 1e-5  # the gradient of the penalty is DECAY times the weights


def jax_lenet(scan: bool = False, products: bool = False) -> Callable[[], Measured]:
    """JAX on the processor.

    Args:
        scan: whether one call computes all batches of the data, in `lax.scan`.
        products: whether convolutions are matrix products of patches, which `lax.scan` computes faster.
    """
    import jax
    import jax.numpy as jnp
    from _jax_adam import begin, epoch_in_scan, updated

    shapes = (3, 3, 1, 32), (32,), (3, 3, 32, 32), (32,), (3, 3, 32, 32), (32,)
    shapes += (128, 512), (512,), (512, 10), (10,)
    assert sum(map(np.prod, shapes)) == WEIGHTS

    def convolution(x, w, b):
        if not products:
            layout = "NHWC", "HWIO", "NHWC"
            return jax.nn.relu(
                jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=layout) + b
            )
        height, width = x.shape[1:3]
        padded = jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        places = [(row, column) for row in range(3) for column in range(3)]
        patches = jnp.concatenate([padded[:, r : r + height, c : c + width] for r, c in places], -1)
        return jax.nn.relu(patches @ w.reshape(-1, w.shape[-1]) + b)

    def pooled(x):
        if not products:
            window = 1, 2, 2, 1
            return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")
        n, height, width, channels = x.shape
        return x.reshape(n, height // 2, 2, width // 2, 2, channels).max((2, 4))

    def cost(values, images, labels, key):
        w0, b0, w1, b1, w2, b2, w3, b3, w4, b4 = values
        net = pooled(convolution(images[..., None], w0, b0))
        net = pooled(convolution(convolution(net, w1, b1), w2, b2))
        net = jax.nn.relu(net.reshape(len(images), -1) @ w3 + b3)
        net = jnp.where(jax.random.bernoulli(key, 0.5, net.shape), 2 * net, 0)
        logits = net @ w4 + b4
        losses = -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
        return jnp.mean(losses) + DECAY / 2 * (jnp.sum(w3**2) + jnp.sum(w4**2))

    def step(state, batch):
        adam, key = state
        key, noise = jax.random.split(key)
        return updated(adam, jax.grad(cost)(adam[0], *batch, noise)), key

    state = begin(shapes), jax.random.key(0)
    one = jax.jit(lambda state, *batch: step(state, batch), donate_argnums=0)
    whole = epoch_in_scan(step, *examples(), BATCH)
    calls, data = len(examples()[0]) // BATCH, batches(*examples())

    def epoch() -> int:
        nonlocal state
        passes = max(1, STEPS // calls)
        if scan:
            for _ in range(passes):
                state = whole(state)
        else:
            for _ in range(STEPS):
                state = one(state, *next(data))
        jax.block_until_ready(state[0])
        return passes * calls if scan else STEPS

    return lambda: timed(epoch, EPOCHS)


def torch_lenet(channels_last: bool = False, compiled: bool = False) -> Callable[[], Measured]:
    """PyTorch with a fused Adam, on one thread, which is faster here than two."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    stage = functools.partial(nn.Conv2d, kernel_size=3, padding=1)
    hidden, last = nn.Linear(128, 512), nn.Linear(512, 10)
    model = nn.Sequential(
        *(stage(1, 32), nn.ReLU(), nn.MaxPool2d(2)),
        *(stage(32, 32), nn.ReLU(), stage(32, 32), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), hidden, nn.ReLU(), nn.Dropout(0.5), last),
    )
    assert sum(parameter.numel() for parameter in model.parameters()) == WEIGHTS
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
    decayed = [hidden.weight, last.weight]
    others = [each for each in model.parameters() if all(each is not one for one in decayed)]
    groups = [{"params": decayed, "weight_decay": DECAY}, {"params": others}]
    optimizer = torch.optim.Adam(groups, RATE, fused=True)
    cost = lambda images, labels: nn.functional.cross_entropy(model(images), labels)  # noqa: E731
    cost = torch.compile(cost) if compiled else cost
    data = batches(*examples())

    def epoch() -> int:
        for _ in range(STEPS):
            images, labels = map(torch.from_numpy, next(data))
            optimizer.zero_grad(set_to_none=True)
            cost(images[:, None], labels.long()).backward()
            optimizer.step()
        return STEPS

    return lambda: timed(epoch, EPOCHS)


def subjects() -> dict[str, Callable[[], Callable[[], Measured]]]:
    """Each way, for the packages that are installed; each needs a separate process."""
    ways = {
        "JAX, a jitted step": jax_lenet,
        "JAX, a jitted step, products of patches": functools.partial(jax_lenet, products=True),
        "JAX, lax.scan, products of patches": functools.partial(jax_lenet, scan=True, products=True),
        "PyTorch, fused Adam": torch_lenet,
        "PyTorch, fused Adam, channels last": functools.partial(torch_lenet, channels_last=True),
        "PyTorch, fused Adam, compiled": functools.partial(torch_lenet, compiled=True),
    }
    installed = {
        peer: importlib.util.find_spec(name) for peer, name in [("JAX", "jax"), ("PyTorch", "torch")]
    }
    return {name: way for name, way in ways.items() if installed[name.partition(",")[0]]}

"""Writes the weights of a network of PyTorch, and the results of all its layers.

    python torch_networks.py resnet18 FOLDER

The folder gets `weights.pth` and `layers.npz`: the network's input, under "input", and the output of each
layer with weights, computed in float64, under its name. PyTorch and TensorFlow do not run well together.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

# The library of a network is imported where its networks are made: each takes seconds.


def import_torchvision():
    """Imports torchvision, also beside a PyTorch without CUDA, with which its compiled ops do not load."""
    try:
        import torchvision
    except RuntimeError:
        # A half-imported module stays. The networks do not use the ops, but their declarations must exist.
        for half in [module for module in sys.modules if module.startswith("torchvision")]:
            del sys.modules[half]
        arguments = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        for operator in ("nms", "qnms"):
            torch.library.define(f"torchvision::{operator}", arguments)
        import torchvision
    return torchvision


def torchvision_network(name):
    """Makes a network of torchvision, with random weights."""
    return getattr(import_torchvision().models, name)(weights=None)


def efficientnet(name):
    """Makes an EfficientNet-Lite of the package for which weights are published."""
    from efficientnet_lite_pytorch import EfficientNet

    return EfficientNet.from_name(name)


def gpt2(name):
    """Makes a decoder of Hugging Face with a small vocabulary."""
    import_torchvision()  # since Transformers imports it, too
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(vocab_size=1000, n_positions=64))


def input_of(name):
    """Returns images, or words."""
    if name == "gpt2":
        return torch.randint(1000, (2, 20))
    size = {"lite0": 224, "lite1": 240, "lite2": 260, "lite3": 280, "lite4": 300}
    side = size.get(name.rpartition("-")[2], 224)
    return 2 * torch.rand(2, 3, side, side) - 1


def randomize(model, given):
    """Gives all parameters values other than those they start with, and normalises the activations."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d | nn.LayerNorm):
            nn.init.uniform_(module.weight, 0.5, 1.5)
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None  # the statistics of the only batch
    for name, parameter in model.named_parameters():
        if name.endswith(("bias", "class_token", "head.weight")):
            nn.init.normal_(parameter, std=0.1)
    with torch.no_grad():
        model.train()(given)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            # Otherwise a channel with little variance would enlarge the rounding of its mean.
            module.running_var += module.running_mean**2
    return model.eval()


def results_of(model, given):
    """Returns the output of each layer with weights, by its name."""
    results, handles = {}, []
    for name, module in model.named_modules():
        if isinstance(module, nn.MultiheadAttention):
            name += ".out_proj"  # which it computes without a call of this module
        elif not isinstance(getattr(module, "weight", None), nn.Parameter):
            continue

        def keep(module, arguments, output, name=name):
            output = output[0] if isinstance(output, tuple) else output
            results[name] = output.float().numpy()  # a copy, which no activation changes in place

        handles.append(module.register_forward_hook(keep))
    with torch.no_grad():
        model(given)
    for handle in handles:
        handle.remove()
    return results


def main(name, folder):
    """Writes the files."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    makers = {"gpt2": gpt2, "efficientnet": efficientnet}
    model = makers.get(name.partition("-")[0], torchvision_network)(name)
    given = input_of(name)
    randomize(model, given)
    torch.save(model.state_dict(), Path(folder) / "weights.pth")
    # In float64, so that only the other side rounds.
    results = results_of(model.double(), given.double() if given.is_floating_point() else given)
    np.savez(Path(folder) / "layers.npz", input=given.numpy(), **results)


if __name__ == "__main__":
    main(*sys.argv[1:])

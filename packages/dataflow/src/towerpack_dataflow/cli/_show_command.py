"""`python -m towerpack_dataflow show`: shows images of a flow, before and after augmentation."""

from __future__ import annotations

import argparse
from itertools import islice
from typing import Any

import numpy as np

from ..augment.flows import augmenting_flow, before_and_after
from ..sources._from_iterable import as_dataflow
from ..viz import save_grid, stack_patches
from ..viz._show_images import images_of
from ._state_commands import FLOW_HELP, CommandError, load_flow

__all__ = ["add_show"]


def add_show(commands: Any) -> None:
    """Adds `show` to a parser's sub-commands."""
    show = commands.add_parser("show", help="write the images of a flow as one picture")
    show.add_argument("flow", metavar="MODULE:NAME", help=FLOW_HELP)
    show.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="file for the picture, such as grid.png"
    )
    show.add_argument(
        "--component", help="position or key of the image (default: an augmented component, or position 0)"
    )
    show.add_argument("--number", type=int, default=16, help="number of images (default: %(default)s)")
    show.add_argument("--batched", action="store_true", help="the component is a batch of images")
    show.add_argument("--scale", type=float, default=1.0, help="factor that scales values to 0 to 255")
    show.set_defaults(run=_show)


def _show(options: argparse.Namespace) -> int:
    flow = as_dataflow(load_flow(options.flow))
    component = _component(options.component)
    augmenting = None if options.batched else augmenting_flow(flow, component)
    if augmenting is None:
        images = [
            _scaled(image, options.scale)
            for image in images_of(
                flow, 0 if component is None else component, options.number, options.batched
            )
        ]
    else:
        pairs = islice(before_and_after(augmenting, component), options.number)
        images = [_side_by_side(pair, options.scale) for pair in pairs]
    if not images:
        raise CommandError(f"{options.flow} has no images to show")
    save_grid(images, options.output)
    kind = "images" if augmenting is None else "images, before and after augmentation"
    print(f"{options.output}: {len(images)} {kind}")
    return 0


def _component(text: str | None) -> Any:
    return int(text) if text is not None and text.lstrip("-").isdigit() else text


def _scaled(image: Any, scale: float) -> Any:
    return image * scale if scale != 1 else image


def _side_by_side(pair: Any, scale: float) -> Any:
    return stack_patches([_visible(_scaled(image, scale)) for image in pair], 1, 2, border=2, pad=True)


def _visible(image: Any) -> Any:
    """Returns an image from 0 to 255: ranges the range of normalised images and of those from 0 to 1."""
    low, high = image.min(), image.max()
    if image.dtype == np.uint8 or (low >= 0 and 1 < high <= 255):
        return image
    return (image - low) * (255 / max(high - low, 1e-6))

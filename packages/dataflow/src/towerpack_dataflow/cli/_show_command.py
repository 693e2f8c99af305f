"""`python -m towerpack_dataflow show`: what a flow of images yields, as a picture."""

from __future__ import annotations

import argparse
from typing import Any

from ..sources._as_dataflow import as_dataflow
from ..viz import save_grid
from ..viz._dump_images import images_of
from ._load_flow import FLOW_HELP, load_flow
from ._state_commands import CommandError

__all__ = ["add_show"]


def add_show(commands: Any) -> None:
    """Adds `show` to a parser's sub-commands."""
    show = commands.add_parser("show", help="write the images that a flow yields as one picture")
    show.add_argument("flow", metavar="MODULE:NAME", help=FLOW_HELP)
    show.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="of the picture, such as grid.png"
    )
    show.add_argument(
        "--component", default="0", help="the image: its place, or its key (default: %(default)s)"
    )
    show.add_argument("--number", type=int, default=16, help="how many images (default: %(default)s)")
    show.add_argument("--batched", action="store_true", help="the component is a batch of images")
    show.add_argument("--scale", type=float, default=1.0, help="what values are multiplied with, to 0 to 255")
    show.set_defaults(run=_show)


def _show(options: argparse.Namespace) -> int:
    component = int(options.component) if options.component.lstrip("-").isdigit() else options.component
    flow = as_dataflow(load_flow(options.flow))
    images = [
        image * options.scale if options.scale != 1 else image
        for image in images_of(flow, component, options.number, options.batched)
    ]
    if not images:
        raise CommandError(f"{options.flow} has no images to show")
    save_grid(images, options.output)
    print(f"{options.output}: {len(images)} images")
    return 0

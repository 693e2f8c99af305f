"""Pictures of data: grids of images, boxes and text on images, and images of flows."""

from ._drawing import PALETTE_RGB, draw_boxes, draw_text, intensity_to_rgb
from ._show_images import (
    dump_dataflow_images,
    gen_stack_patches,
    interactive_imshow,
    save_grid,
    stack_patches,
)

__all__ = [
    "PALETTE_RGB",
    "draw_boxes",
    "draw_text",
    "dump_dataflow_images",
    "gen_stack_patches",
    "intensity_to_rgb",
    "interactive_imshow",
    "save_grid",
    "stack_patches",
]

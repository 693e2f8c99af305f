"""Pictures of data: grids of images, boxes and text on images, and images of flows."""

from ._drawing import PALETTE_RGB, draw_boxes, draw_text, intensity_to_rgb
from ._patches import gen_stack_patches, save_grid, stack_patches
from ._show_images import dump_dataflow_images, interactive_imshow

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

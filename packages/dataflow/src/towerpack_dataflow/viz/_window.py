"""A window that shows an image until it is closed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt

from .._errors import ArgumentTypeError
from ._libraries import as_picture, pyplot

__all__ = ["interactive_imshow"]

OnClick = Callable[[npt.NDArray[Any], int, int], Any]


def interactive_imshow(
    image: npt.ArrayLike,
    on_left_click: OnClick | None = None,
    on_right_click: OnClick | None = None,
    **on_keys: Callable[[npt.NDArray[Any]], Any],
) -> str:
    """Shows an image until a key is pressed or the window is closed.

    Args:
        image: shape [height, width] or [height, width, 1, 3 or 4], uint8 or float from 0 to 255, RGB.
        on_left_click: called with the image, x and y in pixels.
        on_right_click: called likewise.
        **on_keys: functions called with the image when a key is pressed, by the key's name in matplotlib; the
            window stays open.

    Returns:
        the name of the key that closed the window; empty if the window itself was closed.

    Raises:
        ArgumentError: `image` is not an image.
        ArgumentTypeError: another argument is not callable.
        ImportError: matplotlib is not installed.
    """
    buttons = {1: on_left_click, 3: on_right_click}
    for name, function in {
        "on_left_click": on_left_click,
        "on_right_click": on_right_click,
        **on_keys,
    }.items():
        if function is not None and not callable(function):
            raise ArgumentTypeError(f"{name} is a function; received {function!r}")
    picture, plot = as_picture("interactive_imshow", image), pyplot()
    figure, axes = plot.subplots()
    axes.imshow(picture)
    ended_by = ""

    def click(event: Any) -> None:
        function = buttons.get(event.button)
        if function is not None and event.xdata is not None:
            function(picture, round(event.xdata), round(event.ydata))

    def press(event: Any) -> None:
        nonlocal ended_by
        function = on_keys.get(event.key)
        if function is not None:
            function(picture)
        else:
            ended_by = event.key
            plot.close(figure)

    figure.canvas.mpl_connect("button_press_event", click)
    figure.canvas.mpl_connect("key_press_event", press)
    plot.show(block=True)
    return ended_by

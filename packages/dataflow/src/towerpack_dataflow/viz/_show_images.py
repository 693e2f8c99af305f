"""Shows an image in a window, and writes the images of a flow to files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _argument_checks as arguments
from .._errors import ArgumentTypeError, ComponentError
from ..flow._flow import DataFlow
from ..sources._from_iterable import as_dataflow
from ._libraries import as_picture, pyplot, written

__all__ = ["dump_dataflow_images", "images_of", "interactive_imshow"]

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


def dump_dataflow_images(
    df: DataFlow | Iterable[Any],
    folder: str | os.PathLike[str],
    index: int | str = 0,
    number: int = 1000,
    batched: bool = True,
    scale: float = 1.0,
) -> list[str]:
    """Writes the first images of a flow, each to a separate file.

    Args:
        df: a flow of images, uint8 or float, RGB.
        folder: folder for `0000.png`, `0001.png`, …; created if missing.
        index: position or key of the image component.
        number: largest number of images.
        batched: whether the component is a batch of images.
        scale: factor for the values before they are clipped to 0 to 255.

    Returns:
        the paths of the files.

    Raises:
        ArgumentError: a component is not an image.
        ComponentError: datapoints have no such component.
        ImportError: OpenCV is not installed.
        OSError: a file cannot be written.
    """
    arguments.count("number", number)
    os.makedirs(folder, exist_ok=True)
    paths = []
    for count, image in enumerate(images_of(df, index, number, batched)):
        picture = as_picture("dump_dataflow_images", np.clip(image * np.float64(scale), 0, 255))
        paths.append(os.path.join(os.fspath(folder), f"{count:04}.png"))
        written(paths[-1], picture)
    return paths


def images_of(
    df: DataFlow | Iterable[Any], index: int | str, number: int, batched: bool
) -> Iterator[npt.NDArray[Any]]:
    """Yields the first images of a flow of images, or of batches of them.

    Raises:
        ComponentError: datapoints have no such component.
    """
    components = (np.asarray(_component(datapoint, index)) for datapoint in as_dataflow(df))
    return islice(chain.from_iterable(components) if batched else components, number)


def _component(datapoint: Any, index: int | str) -> Any:
    try:
        return datapoint[index]
    except (LookupError, TypeError) as error:
        raise ComponentError(f"index={index!r}: the datapoints of the flow have no such component") from error

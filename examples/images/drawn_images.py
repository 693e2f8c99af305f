"""Generated images: shapes of ten classes with their edges, and coloured digits."""

import cv2
import numpy as np

from towerpack_dataflow.datasets import Digits


def circle(corners, radius=1.0, turn=0.0):
    """Returns the corners of a regular polygon around (0, 0), one of them at the bottom."""
    angles = turn + 2 * np.pi * np.arange(corners) / corners
    return radius * np.stack([np.sin(angles), np.cos(angles)], 1)


# Outlines of each class; the intersection of two outlines is outside.
CROSS = np.array([(1, 3), (1, 1), (3, 1), (3, -1), (1, -1), (1, -3), (-1, -3), (-1, -1), (-3, -1)])
CROSS = np.concatenate([CROSS, [(-3, 1), (-1, 1), (-1, 3)]]) / 3
BAR = np.array([(-1, 0.2), (1, 0.2), (1, -0.2), (-1, -0.2)])
STAR = circle(10) * np.tile([[1.0], [0.45]], (5, 1))
RIGHT, DOWN = np.array([0.55, 0]), np.array([0, 0.5])
SHAPES = {
    "disc": [circle(32)],
    "ring": [circle(32), circle(32, 0.6)],
    "square": [circle(4, turn=np.pi / 4)],
    "frame": [circle(4, turn=np.pi / 4), circle(4, 0.6, np.pi / 4)],
    "triangle": [circle(3, turn=np.pi)],
    "cross": [CROSS],
    "star": [STAR],
    "bar": [BAR],
    "two bars": [BAR + DOWN, BAR - DOWN],
    "two discs": [circle(32, 0.45) + RIGHT, circle(32, 0.45) - RIGHT],
}
NAMES = list(SHAPES)


def background(shape, rng, colours=3):
    """Returns a picture with smooth transitions between a number of colours in each direction."""
    coarse = rng.integers(60, 200, (colours, colours, 3), np.uint8)
    return cv2.resize(coarse, shape[::-1], interpolation=cv2.INTER_CUBIC)


def draw(image, name, radius, rng, colour=None):
    """Draws a shape at a random position, by default in a random colour; returns its pixels."""
    height, width = image.shape[:2]
    centre = rng.uniform((radius, radius), (width - radius, height - radius))
    turn, inside = rng.uniform(-0.2, 0.2), np.zeros((height, width), np.uint8)
    rotation = [[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]
    outlines = [np.round(outline @ rotation * radius + centre).astype(np.int32) for outline in SHAPES[name]]
    cv2.fillPoly(inside, outlines, 1)
    colour = unlike(image[inside.astype(bool)].mean(0), rng) if colour is None else colour
    image[inside.astype(bool)] = np.clip(colour, 0, 255)
    return inside


def unlike(around, rng):
    """Returns a colour that differs from its surroundings by at least 70 grey levels in each channel."""
    step = rng.uniform(70, 120, 3) * rng.choice([-1, 1], 3)
    return around + np.where((around + step < 0) | (around + step > 255), -step, step)


def shape_image(label, shape, rng):
    """Returns an image of one shape, in any colour, with noise."""
    image = background(shape, rng)
    draw(image, NAMES[label], min(shape) * rng.uniform(0.25, 0.42), rng)
    return noisy(image, rng)


def group_image(label, shape, rng):
    """Returns an image of three shapes of a class, approximately in the colour of the class, with noise."""
    image, hue = background(shape, rng), np.array([[[18 * label, 230, 200]]], np.uint8)
    colour = cv2.cvtColor(hue, cv2.COLOR_HSV2RGB)[0, 0]
    for _ in range(3):
        radius = min(shape) * rng.uniform(0.15, 0.25)
        draw(image, NAMES[label], radius, rng, colour + rng.normal(0, 30, 3))
    return noisy(image, rng)


def edge_image(shape, rng):
    """Returns an image of several overlapping shapes, and a mask of their edges: 0 or 1."""
    image, regions = background(shape, rng), np.zeros(shape, np.uint8)
    for number in range(1, rng.integers(3, 6)):
        inside = draw(image, NAMES[rng.integers(len(NAMES))], min(shape) * rng.uniform(0.15, 0.4), rng)
        regions[inside.astype(bool)] = number
    edges = cv2.morphologyEx(regions, cv2.MORPH_GRADIENT, np.ones((3, 3), np.uint8)) > 0
    return noisy(image, rng), edges.astype(np.uint8)


def digit_images(split, rng):
    """Returns digits of scikit-learn in the style of house numbers, in colour, and their labels.

    Args:
        split: "train" or "test".
        rng: the source of colours and neighbours.
    """
    digits, labels = zip(*Digits(split, shuffle=False))
    images = []
    for digit in digits:
        paper, ink = background((32, 32), rng, 2).astype(np.float32), rng.uniform(0, 255, 3)
        row = np.concatenate([digits[rng.integers(len(digits))], digit, digits[rng.integers(len(digits))]], 1)
        wide = cv2.resize(row, (84, 28))
        left = 26 + rng.integers(-2, 3)
        share = cv2.copyMakeBorder(wide[:, left : left + 32], 2, 2, 0, 0, cv2.BORDER_CONSTANT)[..., None]
        ink = np.where(abs(paper.mean((0, 1)) - ink) < 60, (ink + 128) % 256, ink)
        images.append(noisy(paper * (1 - share) + ink * share, rng))
    return np.stack(images), np.array(labels)


def noisy(image, rng, deviation=8):
    """Returns an image with noise, as uint8."""
    return np.clip(image + rng.normal(0, deviation, image.shape), 0, 255).astype(np.uint8)

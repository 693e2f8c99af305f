"""Criteria for the samples of a generator that the examples must meet, in NumPy."""

from dataclasses import dataclass

import numpy as np
from digits import CLASSES, digit_arrays
from features import DigitClassifier
from scipy.optimize import linear_sum_assignment

from towerpack_callbacks.metrics import density_coverage, frechet_distance, mixture_modes


@dataclass(frozen=True)
class Verdict:
    """The result of the evaluation of a generator.

    Attributes:
        line: the figure, as the script's last line has it.
        figures: the numbers in it and behind it.
        criteria: for each criterion, in words, whether it is met.
    """

    line: str
    figures: dict[str, float]
    criteria: dict[str, bool]

    @property
    def passed(self) -> bool:
        """Whether all criteria are met."""
        return all(self.criteria.values())


def judge_mixture(samples: np.ndarray, centres: np.ndarray, std: float) -> Verdict:
    """Judges points of a plane by the modes of a mixture of Gaussians.

    A sample is of high quality if it is less than three standard deviations from a centre, and a mode is
    covered if one such sample is its (Lin et al. 2018, arXiv:1712.04086).
    """
    found = mixture_modes(samples, centres, std)
    return Verdict(
        f"{found.covered} of {len(centres)} modes, {found.high_quality:.1%} high quality".replace("%", " %"),
        {"modes": found.covered, "high_quality": found.high_quality, "reverse_kl": found.reverse_kl},
        {
            "24 of 25 modes": found.covered >= 0.96 * len(centres),
            "90 % high quality": found.high_quality >= 0.9,
        },
    )


def judge_digits(images: np.ndarray, untrained: np.ndarray, classifier: DigitClassifier) -> Verdict:
    """Evaluates pictures of digits by their distance from held-out ones and the frequency of each class.

    Args:
        images: pictures that the generator makes.
        untrained: as many that it made before it was trained.
        classifier: computes features and labels.
    """
    real = classifier.features(digit_arrays("test")[0])
    before, after = (frechet_distance(real, classifier.features(made)) for made in (untrained, images))
    shares = np.bincount(classifier.labels(images), minlength=CLASSES) / len(images)
    low, high = float(shares.min() * CLASSES), float(shares.max() * CLASSES)
    covered = coverage(images, classifier)
    return Verdict(
        f"Fréchet distance {after:.1f}, {before / after:.0f} times less than at first; "
        f"classes {low:.2f} to {high:.2f} of uniform; {covered:.0%} coverage".replace("%", " %"),
        {
            "frechet_distance": after,
            "frechet_distance_untrained": before,
            "least_class": low,
            "most_class": high,
            "coverage": covered,
        },
        {
            "Fréchet distance 5 times less": before >= 5 * after,
            "each class within twice of uniform": low >= 0.5 and high <= 2,
            "50 % coverage": covered >= 0.5,
        },
    )


def judge_labels(images: np.ndarray, labels: np.ndarray, classifier: DigitClassifier) -> Verdict:
    """Evaluates pictures of digits by the accuracy of their classes and by their diversity."""
    agreement = float(np.mean(classifier.labels(images) == labels))
    covered = coverage(images, classifier)
    return Verdict(
        f"{agreement:.1%} have their label; {covered:.0%} coverage".replace("%", " %"),
        {"agreement": agreement, "coverage": covered},
        {"90 % have their label": agreement >= 0.9, "50 % coverage": covered >= 0.5},
    )


def judge_codes(images: np.ndarray, codes: np.ndarray, classifier: DigitClassifier) -> Verdict:
    """Judges pictures of digits by whether the codes that they are made from are classes.

    Codes have no given classes: the assignment of distinct classes maximizes the agreement.
    """
    counts = np.zeros([CLASSES, CLASSES])
    np.add.at(counts, (codes, classifier.labels(images)), 1)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    agreement = float(counts[rows, columns].sum() / len(images))
    covered = coverage(images, classifier)
    return Verdict(
        f"code and class agree for {agreement:.1%}; {covered:.0%} coverage".replace("%", " %"),
        {"agreement": agreement, "coverage": covered},
        {"code and class agree for 80 %": agreement >= 0.8, "50 % coverage": covered >= 0.5},
    )


def coverage(images: np.ndarray, classifier: DigitClassifier) -> float:
    """Computes the share of held-out digits that have a generated one near.

    It is small where a generator repeats itself, though each of its pictures may be perfect.
    """
    real = classifier.features(digit_arrays("test")[0])
    return density_coverage(real, classifier.features(images)).coverage

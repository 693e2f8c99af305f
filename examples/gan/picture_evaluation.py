"""Criteria for generated pictures without a classifier: they need only the pictures."""

from pathlib import Path

import numpy as np
from evaluation import Verdict

from towerpack_callbacks.checkpoint import load_variables
from towerpack_callbacks.metrics import density_coverage, frechet_distance
from towerpack_trainers import DictRestore, OfflinePredictor, PredictConfig
from towerpack_trainers.gan import GANModelDesc

THUMBNAIL = 4


def predict(
    model: GANModelDesc, checkpoint: Path, inputs: dict[str, np.ndarray], outputs: list[str]
) -> list[np.ndarray]:
    """Returns the outputs of both networks of a checkpoint for some inputs.

    Args:
        model: the networks.
        checkpoint: a log directory, or an `.npz` of variables.
        inputs: an array for each tensor that is fed, by its name.
        outputs: names of the outputs.
    """
    scopes = (f"{model.generator_scope}/", f"{model.discriminator_scope}/")
    values = {name: v for name, v in load_variables(checkpoint).items() if name.startswith(scopes)}
    config = PredictConfig(
        model=model, session_init=DictRestore(values), input_names=list(inputs), output_names=outputs
    )
    with OfflinePredictor(config) as predictor:
        made: list[np.ndarray] = predictor(*inputs.values())
        return made


def thumbnails(pictures: np.ndarray) -> np.ndarray:
    """Returns thumbnails of 4 x 4 pixels as rows: coarse brightness and colour."""
    step = pictures.shape[1] // THUMBNAIL
    blocks = np.reshape(pictures, [len(pictures), THUMBNAIL, step, THUMBNAIL, step, 3])
    means: np.ndarray = blocks.mean((2, 4), dtype=np.float64)
    return means.reshape(len(pictures), -1)


def judge_pictures(made: np.ndarray, untrained: np.ndarray, real: np.ndarray, measure: float) -> Verdict:
    """Evaluates pictures by their thumbnails, and a training by BEGAN's measure.

    Args:
        made: pictures of the trained generator.
        untrained: as many that it made before it was trained.
        real: pictures that it has not seen.
        measure: the factor by which BEGAN's measure of convergence decreased in the training.
    """
    rows, wanted = thumbnails(made), thumbnails(real)
    before, after = frechet_distance(wanted, thumbnails(untrained)), frechet_distance(wanted, rows)
    covered = density_coverage(wanted, rows).coverage
    return Verdict(
        f"measure of convergence {measure:.1f} times less than at first, Fréchet distance "
        f"{before / after:.0f} times; {covered:.0%} coverage".replace("%", " %"),
        {"measure_factor": measure, "frechet_distance": after, "frechet_factor": before / after}
        | {"coverage": covered},
        {
            "measure 3 times less": measure >= 3,
            "Fréchet distance 5 times less": before >= 5 * after,
            "20 % coverage": covered >= 0.2,
        },
    )


def judge_cycle(
    cycle_loss: float, untrained_loss: float, pairs: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
) -> Verdict:
    """Judges translations between two kinds of pictures.

    Networks that leave pictures as they are have no cycle loss, so translations must also be nearer to real
    pictures of the other kind than the pictures that they were made from.

    Args:
        cycle_loss: mean absolute difference between held-out pictures and their reconstructions.
        untrained_loss: the same before the training.
        pairs: for each direction, the pictures, their translations, and real ones of the other kind.
    """
    factors = []
    for pictures, translated, real in pairs:
        of_pictures, of_translated = (
            frechet_distance(thumbnails(real), thumbnails(each)) for each in (pictures, translated)
        )
        factors.append(of_pictures / of_translated)
    fall, nearer = untrained_loss / cycle_loss, min(factors)
    return Verdict(
        f"cycle loss {cycle_loss:.3f}, {fall:.1f} times less than at first; translations {nearer:.0f} times "
        "nearer to the other kind",
        {"cycle_loss": cycle_loss, "cycle_loss_factor": fall, "frechet_factor": nearer},
        {"cycle loss 4 times less": fall >= 4, "translations 5 times nearer": nearer >= 5},
    )


def judge_pairs(made: np.ndarray, untrained: np.ndarray, wanted: np.ndarray) -> Verdict:
    """Evaluates translations with known results by their mean absolute difference.

    Args:
        made: pictures of the trained generator.
        untrained: the result before the training.
        wanted: the pictures that it should have made.
    """
    before, after = (float(np.mean(np.abs(each - wanted))) for each in (untrained, made))
    constant = float(np.mean(np.abs(np.median(wanted, axis=0) - wanted)))
    return Verdict(
        f"L1 {after:.3f}, {before / after:.1f} times less than at first, {constant / after:.1f} times less "
        "than of the best single picture",
        {"l1": after, "l1_factor": before / after, "l1_factor_of_constant": constant / after},
        {
            "L1 4 times less": before >= 4 * after,
            "L1 half of the best single picture's": constant >= 2 * after,
        },
    )

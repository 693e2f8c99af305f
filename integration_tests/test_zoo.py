"""Published weights: `examples/zoo` classifies real pictures with weights trained elsewhere."""

import sys
from pathlib import Path

import numpy as np
import pytest
import skimage.data

sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "zoo"))
import efficientnet_lite

from towerpack_callbacks import CheckpointError
from towerpack_callbacks.checkpoint import load_weights

# Numbers of ImageNet's classes that name the object.
PICTURES = {"chelsea": {281, 282, 285}, "coffee": {967, 504}, "rocket": {657, 812}}


def test_real_pictures_are_classified_with_published_weights():
    images = [efficientnet_lite.central_square(getattr(skimage.data, name)(), 224) for name in PICTURES]
    weights = efficientnet_lite.published("lite0")
    found = efficientnet_lite.predict(np.stack(images), "lite0", weights)
    for (name, classes), probabilities in zip(PICTURES.items(), found, strict=True):
        assert int(np.argmax(probabilities)) in classes, name
        assert abs(probabilities.sum() - 1) < 1e-5


def test_each_weight_is_accounted_for():
    rules = [rule for rule in efficientnet_lite.RULES if rule[0] != "_fc.bias"]
    with pytest.raises(CheckpointError, match="no rule matches 1 of its weights"):
        load_weights(efficientnet_lite.published("lite0"), rules)


@pytest.mark.parametrize("variant", efficientnet_lite.VARIANTS)
def test_channels_and_blocks_of_the_variants(variant):
    blocks = list(efficientnet_lite.blocks(variant))
    counts = {"lite0": 16, "lite1": 18, "lite2": 21, "lite3": 27, "lite4": 33}
    last = {"lite0": 320, "lite1": 320, "lite2": 352, "lite3": 384, "lite4": 448}
    assert (len(blocks), blocks[-1][-1]) == (counts[variant], last[variant])

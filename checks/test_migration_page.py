"""Every public name of Tensorpack's models has a row in the page for those who come from there."""

from __future__ import annotations

import re

import pytest
from source_files import ROOT

PAGE = ROOT / "docs" / "migrating-from-tensorpack.md"

# By module of Tensorpack 0.11; those that are not in its `__all__`, and used nevertheless, are there, too.
NAMES = {
    "models": """
        AvgPooling BNReLU BatchNorm BatchRenorm ConcatWith Conv2D Conv2DTranspose Deconv2D Dropout
        FixedUnPooling FullyConnected GlobalAvgPooling InstanceNorm LayerNorm LinearWrap MaxPooling
        Maxout PReLU VariableHolder batch_flatten convert_to_tflayer_args disable_layer_logging
        get_registered_layer l1_regularizer l2_regularizer layer_register regularize_cost
        regularize_cost_from_collection rename_get_variable rename_tflayer_get_variable
    """,
    "tfutils.argscope": "argscope enable_argscope_for_function enable_argscope_for_module get_arg_scope",
    "tfutils.scope_utils": """
        auto_reuse_variable_scope cached_name_scope under_name_scope under_variable_scope
    """,
    "tfutils.symbolic_functions": "print_stat psnr rms",
    "tfutils.varreplace": "custom_getter_scope freeze_variables remap_variables",
    "tfutils.tower": "TowerContext get_current_tower_context",
}


def explained() -> set[str]:
    """The names in the first column of the page's tables."""
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    codes = [code for row in rows for code in re.findall(r"`([^`]+)`", row.split(" | ")[0])]
    return {name for code in codes for name in re.findall(r"[A-Za-z_]\w*", code)}


@pytest.mark.parametrize("module", NAMES)
def test_every_name_has_a_row(module: str) -> None:
    missing = set(NAMES[module].split()) - explained()
    assert not missing, f"{PAGE.name} has no row for {', '.join(sorted(missing))} of tensorpack.{module}"

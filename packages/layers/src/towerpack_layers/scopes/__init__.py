"""Context managers that change the variables and names created within them."""

from ._function_scopes import (
    auto_reuse_variable_scope,
    cached_name_scope,
    under_name_scope,
    under_variable_scope,
)
from ._variable_getters import (
    custom_getter_scope,
    freeze_variables,
    mixed_precision,
    remap_variables,
    rename_get_variable,
    rename_tflayer_get_variable,
    spectral_norm_scope,
)

__all__ = [
    "auto_reuse_variable_scope",
    "cached_name_scope",
    "custom_getter_scope",
    "freeze_variables",
    "mixed_precision",
    "remap_variables",
    "rename_get_variable",
    "rename_tflayer_get_variable",
    "spectral_norm_scope",
    "under_name_scope",
    "under_variable_scope",
]

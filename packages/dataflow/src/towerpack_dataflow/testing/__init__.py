"""The conformance kit: checks of the promises of this package, for its own and for users' objects."""

from ._check_dataflow import ConformanceError, check_dataflow, same
from ._check_elastic import check_elastic
from ._check_memory import check_memory
from ._check_vector_env import check_vector_env

__all__ = ["ConformanceError", "check_dataflow", "check_elastic", "check_memory", "check_vector_env", "same"]

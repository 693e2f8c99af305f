import pytest

import towerpack_dataflow
from towerpack_dataflow import PayloadError


def test_an_old_name_works_with_a_warning():
    with pytest.warns(DeprecationWarning, match=r"\.ParcelError is deprecated; use PayloadError"):
        assert towerpack_dataflow.ParcelError is PayloadError
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = towerpack_dataflow.Nothing

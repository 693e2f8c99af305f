"""Windows as an op of TensorFlow takes them."""

import pytest

from towerpack_layers import shape2d, shape4d


@pytest.mark.parametrize("size", [3, (3, 3), [3, 3]])
def test_one_size_or_two(size):
    assert shape2d(size) == [3, 3]
    assert shape4d(size) == shape4d(size, "NHWC") == [1, 3, 3, 1]
    assert shape4d(size, "channels_first") == [1, 1, 3, 3]


@pytest.mark.parametrize("size", [0, -1, 1.5, (1, 2, 3), "33", None])
@pytest.mark.parametrize("shape", [shape2d, shape4d])
def test_no_size_is_refused(shape, size):
    with pytest.raises(ValueError, match=f"{shape.__name__}: size must be a positive int or two of them"):
        shape(size)


def test_an_unknown_format_is_refused():
    with pytest.raises(ValueError, match=r"shape4d: .*NHCW"):
        shape4d(3, "NHCW")

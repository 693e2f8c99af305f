import numpy as np
import pytest

from towerpack_dataflow import ArgumentError, BatchData, DataFromList, PrintData
from towerpack_dataflow.testing import check_dataflow


def test_conformance(capsys):
    check_dataflow(PrintData(BatchData(DataFromList([[i] for i in range(9)]), 2), num=2))


def test_output(capsys):
    datapoint = {
        "image": np.arange(6, dtype=np.float32).reshape(2, 3),
        "half": np.float16(0.5),
        "names": ["a", b"b", "c", "d"],
        "deep": [[[[1]]]],
    }
    assert len(list(PrintData([datapoint] * 5, num=2, max_list=4, max_depth=3))) == 5
    block = (
        "dict of 4\n"
        "  image: array float32 (2, 3), from 0.0 to 5.0\n"
        "  half: NumPy scalar float16 (), from 0.5 to 0.5\n"
        "  names: list of 4\n"
        "    0: str of length 1: 'a'\n"
        "    1: bytes of length 1: b'b'\n"
        "    2: str of length 1: 'c'\n"
        "    3: str of length 1: 'd'\n"
        "  deep: list of 1\n"
        "    0: list of 1\n"
        "      0: list of 1\n"
    )
    expected = "".join(f"DataFromList, datapoint {number} of the first 2: {block}" for number in (1, 2))
    assert capsys.readouterr().out == expected


def test_long_lists_empty_arrays_and_other_objects(capsys):
    list(PrintData([[1, 2, 3, 4, 5]], name="five"))
    list(PrintData([[np.zeros(0), np.array(["x"]), 1j]]))
    out = capsys.readouterr().out
    assert "five, datapoint 1 of the first 1: list of 5\n  0: int 1\n" in out
    assert "and 2 more" in out
    assert "0: array float64 (0,)\n" in out
    assert "1: array <U1 (1,)\n" in out
    assert "2: complex 1j" in out


def test_only_the_first_pass_is_printed(capsys):
    flow = PrintData([[1], [2]])
    list(flow)
    capsys.readouterr()
    list(flow)
    assert capsys.readouterr().out == ""


def test_shuffles_stay_the_same(capsys):
    plain, printed = DataFromList(range(50)), PrintData(DataFromList(range(50)))
    plain.seed(1)
    printed.seed(1)
    assert list(plain) == list(printed)


@pytest.mark.parametrize("argument", ["num", "max_depth", "max_list"])
def test_bad_numbers(argument):
    with pytest.raises(ArgumentError, match=f"{argument} is an integer from 1 up; received 0"):
        PrintData([[1]], **{argument: 0})

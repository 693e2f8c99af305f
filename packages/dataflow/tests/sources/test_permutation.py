import numpy as np
import pytest

from towerpack_dataflow.sources import _permutation
from towerpack_dataflow.sources._permutation import Permutation


def test_orders_are_the_same_for_good():
    def parts(size):
        order = Permutation(size, np.random.default_rng(7))
        return (
            order.index_range(0, 3)
            + order.index_range(size // 2, size // 2 + 2)
            + order.index_range(size - 2, size)
        )

    assert {size: parts(size) for size in (10, 2**16, 2**16 + 1, 100_003, 2**18)} == {
        10: [8, 0, 7, 6, 2, 5, 9],
        65536: [37075, 46595, 55481, 58067, 29004, 16809, 19083],
        65537: [52689, 9057, 32999, 32414, 7051, 22849, 5373],
        100003: [74034, 74529, 32999, 48957, 62254, 93443, 79334],
        262144: [30884, 69558, 84858, 194651, 104827, 18712, 201505],
    }


def test_tables_of_hashes_change_no_order(monkeypatch):
    def orders():
        found = [Permutation(size, np.random.default_rng(size)) for size in (2**16 + 1, 2**20, 1_000_003)]
        return [(order.indices(range(7, 3000, 2)).tolist(), order.at(65_000)) for order in found]

    with_tables = orders()
    monkeypatch.setattr(_permutation, "_BITS_OF_HASHES", 0)
    assert orders() == with_tables


@pytest.mark.parametrize("table", [True, False])
def test_every_size_is_a_permutation(table, monkeypatch):
    if not table:
        monkeypatch.setattr(_permutation, "_TABLE_SIZE", -1)
    for size in [*range(1, 70), 1000, 4097]:
        order = Permutation(size, np.random.default_rng(size))
        assert sorted(order.index_range(0, size)) == list(range(size))


def test_ranges_are_parts_of_the_whole():
    order = Permutation(100_003, np.random.default_rng(1))
    whole = order.index_range(0, 100_003)
    assert len(set(whole)) == 100_003
    assert order.index_range(5_000, 5_100) == whole[5_000:5_100]
    assert whole != Permutation(100_003, np.random.default_rng(2)).index_range(0, 100_003)


def test_single_positions_are_parts_of_the_whole():
    for size in (1, 300, 70_000):
        order = Permutation(size, np.random.default_rng(1))
        whole = order.index_range(0, size)
        positions = [*range(0, size, 97), size - 1, 0]
        assert [order.at(position) for position in positions] == [whole[position] for position in positions]


def test_computed_orders_look_random():
    size, orders = 2**17, 40
    firsts, steps = [], []
    for seed in range(orders):
        part = Permutation(size, np.random.default_rng(seed)).index_range(0, 2000)
        firsts.append(part)
        steps.append(np.mean(np.diff(part) > 0))
    values = np.array(firsts, float) / size
    # Uniform in place and over seeds; neighbours are unrelated. Five standard errors each.
    assert abs(values.mean() - 0.5) < 5 * 0.289 / values.size**0.5
    assert np.abs(values.mean(axis=0) - 0.5).max() < 5 * 0.289 / orders**0.5
    counts, _ = np.histogram(values, bins=64, range=(0, 1))
    assert ((counts - values.size / 64) ** 2 / (values.size / 64)).sum() < 63 + 5 * (2 * 63) ** 0.5
    assert abs(np.mean(steps) - 0.5) < 0.01
    assert abs(np.corrcoef(values[:, :-1].ravel(), values[:, 1:].ravel())[0, 1]) < 0.02


@pytest.mark.parametrize("table", [True, False])
def test_indices_are_parts_of_the_whole(table, monkeypatch):
    monkeypatch.setattr(_permutation, "_AHEAD", 50)
    if not table:
        monkeypatch.setattr(_permutation, "_TABLE_SIZE", -1)
    order = Permutation(1000, np.random.default_rng(1))
    whole = order.index_range(0, 1000)
    for step in (1, 1, 3, 7, 1):
        for start in (0, 5, 35, 36, 990, 999, 0):
            for length in (1, 30, 200):
                wanted = range(start, 1000, step)[:length]
                assert order.indices(wanted).tolist() == [whole[position] for position in wanted]


def test_indices_computed_ahead_are_not_taken_for_others(monkeypatch):
    monkeypatch.setattr(_permutation, "_TABLE_SIZE", -1)
    order = Permutation(1000, np.random.default_rng(1))
    whole = order.index_range(0, 1000)
    for wanted in (range(0, 700, 7), range(8), range(0, 700, 7), range(100, 200), range(50, 150)):
        assert order.indices(wanted).tolist() == [whole[position] for position in wanted]

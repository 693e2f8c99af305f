import pytest

import towerpack_trainers
from towerpack_trainers import ConfigError, InputOverhead, SimpleTrainer, TrainConfig
from towerpack_trainers._argument_checks import renamed_arguments


@renamed_arguments(draw="rng_key")
def sample(count, rng_key=0):
    """Samples."""
    return count, rng_key


def test_an_old_name_works_with_a_warning():
    with pytest.warns(DeprecationWarning, match=r"sample: draw= is deprecated; write rng_key=") as found:
        assert sample(1, draw=2) == (1, 2)
    assert found[0].filename == __file__
    assert sample(1, rng_key=2) == sample(1, 2) == (1, 2)
    assert sample.__doc__ == "Samples."


def test_both_names_together_are_rejected():
    with pytest.raises(TypeError, match=r"sample: received draw= and rng_key=.*Pass rng_key= only"):
        sample(1, draw=2, rng_key=3)


def test_old_names_of_exports_fields_and_methods(configure):
    with pytest.warns(
        DeprecationWarning, match=r"towerpack_trainers\.Headspace is deprecated; use InputOverhead"
    ):
        assert towerpack_trainers.Headspace is InputOverhead
    with pytest.warns(DeprecationWarning, match=r"TrainConfig: rehearsal= is deprecated; write dry_run="):
        config = TrainConfig(rehearsal=True)
    with pytest.warns(DeprecationWarning, match=r"TrainConfig\.rehearsal is deprecated; read dry_run"):
        assert config.rehearsal is config.dry_run is True
    called = pytest.warns(
        DeprecationWarning, match=r"headspace\(\) is deprecated; call measure_input_overhead\(\)"
    )
    with called, pytest.raises(ConfigError, match=r"steps"):
        SimpleTrainer(configure()).headspace(0)
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = towerpack_trainers.Nothing

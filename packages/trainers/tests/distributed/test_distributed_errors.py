"""The texts of errors of distributed training."""

from towerpack_trainers.distributed import MissingExtraError


def test_a_missing_extra_names_it():
    error = MissingExtraError.of("mpi", ImportError("No module named 'mpi4py'", name="mpi4py"))
    assert 'pip install "towerpack-trainers[mpi]"' in str(error)
    assert isinstance(error, ImportError)

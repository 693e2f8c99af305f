"""The files that describe a run at its start."""

from towerpack_trainers import SimpleTrainer


def test_a_run_describes_itself_and_its_environment(configure, tmp_path):
    trainer = SimpleTrainer(configure(log_dir=tmp_path / "run", max_epoch=1))
    explained = trainer.explain()
    trainer.train()
    assert (tmp_path / "run" / "explain.txt").read_text() == f"{explained}\n"
    assert "tensorflow " in (tmp_path / "run" / "environment.txt").read_text()


def test_nothing_is_written_without_a_directory(configure, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    SimpleTrainer(configure(log_dir=None, max_epoch=1)).train()
    assert list(tmp_path.iterdir()) == []

"""Missing data sets are reported before anything runs."""

from pathlib import Path

import pytest

from ctrobust.errors import DataError, InputError
from ctrobust.execution.required_data import missing_data, require_data, required_splits
from ctrobust.experiments import experiment
from ctrobust.specs import EvaluationJob, TrainingJob, TrainSpec


@pytest.fixture(autouse=True)
def _no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTROBUST_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("ctrobust.data.locate.SYSTEM_ROOT", tmp_path / "system")


def test_a_training_reads_both_splits_and_an_evaluation_its_own() -> None:
    mnist, digits = TrainSpec(data="mnist"), TrainSpec()
    evaluation = EvaluationJob(training=mnist, data="kmnist", split="train")
    assert required_splits([evaluation, TrainingJob(training=mnist), TrainingJob(training=digits)]) == {
        "kmnist": ["train"],
        "mnist": ["train", "test"],
    }
    assert required_splits([EvaluationJob(training=mnist)]) == {"mnist": ["test"]}


def test_every_missing_data_set_is_named_with_its_files_and_where_they_were_looked_for(tmp_path: Path) -> None:
    jobs = [job for cell in experiment("table1", "laptop").all_cells for job in cell.jobs]
    with pytest.raises(DataError) as caught:
        require_data(jobs)
    message = str(caught.value)
    for name in ("mnist", "fashion-mnist", "cifar10", "cifar100"):
        assert f"{name} was not found" in message
        assert f"ctrobust data fetch {name}" in message
    assert "t10k-labels-idx1-ubyte.gz" in message
    assert str(tmp_path / "data" / "cifar-100-binary" / "train.bin") in message
    assert str(tmp_path / "system") in message


def test_only_the_files_that_are_needed_count(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    for name in ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte"):
        (folder / name).touch()
    mnist = TrainSpec(data="mnist")
    require_data([EvaluationJob(training=mnist)])
    (message,) = missing_data([TrainingJob(training=mnist)])
    assert "Put train-images-idx3-ubyte.gz and train-labels-idx1-ubyte.gz, as published" in message


def test_data_of_the_user_must_exist(tmp_path: Path) -> None:
    jobs = [TrainingJob(training=TrainSpec(data=f"folder:{tmp_path / name}?size=32")) for name in ("here", "gone")]
    (tmp_path / "here").mkdir()
    assert missing_data(jobs) == [
        f"folder:{tmp_path}/gone?size=32: {tmp_path}/gone does not exist or may not be entered"
    ]


def test_an_unknown_name_and_a_wrong_root_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown data set 'minst'; did you mean 'mnist'"):
        missing_data([TrainingJob(training=TrainSpec(data="minst"))])
    with pytest.raises(DataError, match=r"the data root .* does not exist"):
        missing_data([TrainingJob(training=TrainSpec(data="mnist"))], tmp_path / "nowhere")


def test_the_embedded_digits_are_never_missing() -> None:
    jobs = [job for cell in experiment("table7", "smoke").all_cells for job in cell.jobs]
    assert not missing_data(jobs)
    require_data(jobs)

"""What is evaluated, and the directory of a network that was trained elsewhere."""

import contextlib
from pathlib import Path

import pytest

from ctrobust.errors import InputError, RunError
from ctrobust.evaluation import RepeatedMean
from ctrobust.execution import TargetOptions, evaluate_stored, opened_target
from ctrobust.specs import UserModelSpec
from ctrobust.store import RunDirectory, directory_name
from tests import user_networks

LINEAR = Path("tests.user_networks:linear")


@pytest.fixture
def options(tmp_path: Path) -> TargetOptions:
    user_networks.write_class_means(tmp_path / "means.safetensors")
    return TargetOptions(LINEAR, data="digits", weights=tmp_path / "means.safetensors", out=tmp_path / "run")


def test_a_run_directory(run: Path) -> None:
    with opened_target(TargetOptions(run)) as target:
        assert target.run == RunDirectory(run)
        assert target.data.name == "digits"
        assert not isinstance(target.model(), RepeatedMean)


def test_the_directory_describes_the_network_and_is_removed_if_nothing_is_stored(options: TargetOptions) -> None:
    with opened_target(options) as target:
        assert target.run is not None
        spec = target.run.read_any_spec()
        assert isinstance(spec, UserModelSpec)
        assert (spec.factory, spec.data, spec.network) == (str(LINEAR), "digits", target.network.sha256)
        assert directory_name(spec).startswith("tests.user-networks-linear-digits-")
        with pytest.raises(RunError, match="which was not trained here; name the factory"):
            target.run.read_spec()
    assert not target.run.path.exists()


def test_what_is_stored_is_kept_also_after_an_error(options: TargetOptions) -> None:
    with contextlib.suppress(KeyboardInterrupt), opened_target(options) as target:
        list(evaluate_stored(target.network, target.data, [None], limit=5, into=target.run))
        raise KeyboardInterrupt
    assert target.run is not None
    assert [one.attack for one in target.run.evaluations()] == ["none"]


def test_a_directory_with_other_files_is_refused(options: TargetOptions) -> None:
    assert options.out is not None
    options.out.mkdir()
    (options.out / "letter.txt").write_text("dear")
    with pytest.raises(RunError, match="is not empty and not a run directory"), opened_target(options):
        pass
    assert (options.out / "letter.txt").exists()


def test_a_path_of_that_name_is_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nets:wide").mkdir()
    assert not TargetOptions(Path("nets:wide")).is_factory
    assert TargetOptions(Path("nets:deep")).is_factory


def test_options_for_the_other_kind_of_target(run: Path) -> None:
    with pytest.raises(InputError, match="--mean is for a network of your own"), opened_target(
        TargetOptions(run, mean="0.5")
    ):  # fmt: skip
        pass

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ctrobust import data as datasets
from ctrobust.attacks import FGSM, PGD, Attack
from ctrobust.data import Dataset
from ctrobust.errors import InputError, RunError
from ctrobust.evaluation import evaluate
from ctrobust.execution import EvaluationRow, evaluate_stored, evaluation_data, expand
from ctrobust.models import WeightsFile, load, tensor_files
from ctrobust.models.tensor_files import read_tensors, write_tensors
from ctrobust.store import RunDirectory

LIMIT = 60
QUICK, SLOW = FGSM(eps=0.1), PGD(eps=0.1, steps=3, loss="std")


@pytest.fixture(scope="session")
def digits() -> Dataset:
    return datasets.load("digits", "test")


def attacked(run: Path, data: Dataset, attacks: Sequence[Attack | None], **changed: int) -> list[EvaluationRow]:
    return list(evaluate_stored(run, data, attacks, **{"limit": LIMIT, "chunk": 16, **changed}))  # type: ignore[arg-type]


def assert_same(a: EvaluationRow, b: EvaluationRow) -> None:
    """The same outcomes; stored probabilities of attacked images are in half precision."""
    assert a.attack == b.attack
    for name, values in a.evaluation.arrays().items():
        other = b.evaluation.arrays()[name]
        if name == "probabilities":
            values, other = values.astype(np.float16), other.astype(np.float16)
        np.testing.assert_array_equal(values, other, err_msg=name)


def outcome_files(run: Path) -> list[Path]:
    """The arrays of attacks, without those of clean images; each has a record beside it."""
    files = sorted((run / "outcomes").glob("*.npz"))
    visible = {file for file in (run / "outcomes").iterdir() if not file.name.startswith(".")}
    assert {file.with_suffix(".json") for file in files} | set(files) == visible
    return [file for file in files if not file.name.startswith("none-")]


class TestExpand:
    """The attacks that texts and radii together name."""

    @pytest.mark.parametrize(
        ("attacks", "radii", "expected"),
        [
            ([], [], []),
            ([], ["0.1"], []),
            (["fgsm:eps=0.1"], [], ["fgsm:eps=0.1"]),
            (["fgsm"], ["0.1"], ["fgsm:eps=0.1"]),
            (["fgsm", "s-pgd"], ["2/255", "0.1"],
             ["fgsm:eps=2/255", "fgsm:eps=0.1", "pgd:eps=2/255,loss=std", "pgd:eps=0.1,loss=std"]),
            (["pgd:eps=0.3", "pgd:steps=5"], ["0.1"], ["pgd:eps=0.3", "pgd:eps=0.1,steps=5"]),
            (["pgd:steps=5, eps = 0.3", "fgsm"], ["0.1"], ["pgd:eps=0.3,steps=5", "fgsm:eps=0.1"]),
            (["pgd:loss=sce(gamma=5)"], ["0.1"], ["pgd:eps=0.1,loss=sce(gamma=5)"]),
            (["fgsm", "fgsm:eps=0.1", "pgd:eps=0.1,loss=std", "s-pgd"], ["0.1", "1/10"],
             ["fgsm:eps=0.1", "pgd:eps=0.1,loss=std"]),
        ],
    )  # fmt: skip
    def test_each_attack_at_each_radius_once(self, attacks: list[str], radii: list[str], expected: list[str]) -> None:
        assert [str(attack) for attack in expand(attacks, radii)] == expected

    @pytest.mark.parametrize(
        ("attacks", "radii", "message"),
        [
            (["fgsmm"], ["0.1"], "unknown attack 'fgsmm'; did you mean 'fgsm'"),
            (["fgsm"], [], "attack 'fgsm' needs eps: write fgsm:eps=8/255"),
            (["fgsm"], ["0.1", "x"], "'x' is not a number"),
            (["fgsm"], ["8"], "for 8 grey levels write 8/255"),
        ],
    )
    def test_texts_that_do_not_parse_are_rejected(self, attacks: list[str], radii: list[str], message: str) -> None:
        with pytest.raises(InputError, match=message):
            expand(attacks, radii)


class TestData:
    """The data that a network is evaluated on."""

    def test_the_default_is_the_data_it_was_trained_for(self, run: Path) -> None:
        found = evaluation_data(run, None, None)
        assert (found.name, found.split, len(found)) == ("digits", "test", 355)
        assert evaluation_data(run / "model.safetensors", "digits", None, "train").split == "train"

    @pytest.mark.parametrize(("channels", "classes"), [(1, 3), (3, 10)])
    def test_other_channels_or_classes_are_refused(
        self, run: Path, monkeypatch: pytest.MonkeyPatch, channels: int, classes: int
    ) -> None:
        dots = Dataset(
            "dots", "test", torch.zeros(6, channels, 28, 28, dtype=torch.uint8), torch.arange(6) % classes,
            tuple("abcdefghij"[:classes]), (0.0,) * channels, (1.0,) * channels, verified=False,
        )  # fmt: skip
        monkeypatch.setitem(datasets.PATH_LOADERS, "dots", lambda _name, _split: dots)
        with pytest.raises(
            InputError, match=rf"dots has {channels} channels and {classes} classes; the network takes 1 and 10"
        ):
            evaluation_data(run, "dots:", None)

    def test_unknown_names_are_refused(self, run: Path, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="unknown data set 'digts'; did you mean 'digits'"):
            evaluation_data(run, "digts", None)
        with pytest.raises(InputError, match="unknown split 'tset'"):
            evaluation_data(run, None, None, "tset")
        with pytest.raises(RunError, match=r"nothing at .*absent"):
            evaluation_data(tmp_path / "absent", None, None)


class TestStored:
    """Outcomes are stored in the run directory and not computed again."""

    def test_outcomes_equal_those_of_a_direct_evaluation(self, run: Path, digits: Dataset) -> None:
        (found,) = attacked(run, digits, [QUICK])
        expected = EvaluationRow(str(QUICK), evaluate(load(run), digits, QUICK, limit=LIMIT, chunk=16), None, None)
        assert_same(found, expected)

    def test_stored_outcomes_are_not_computed_again(self, run: Path, digits: Dataset) -> None:
        attacks = [None, QUICK, SLOW]
        reported: list[float] = []
        first = list(
            evaluate_stored(
                run, digits, attacks, limit=LIMIT, chunk=16, progress=lambda done, *_: reported.append(done)
            )
        )
        assert [one.attack for one in first] == ["none", "fgsm:eps=0.1", "pgd:eps=0.1,steps=3,loss=std"]
        assert [one.evaluation.attack for one in first] == [one.attack for one in first]
        assert all(one.seconds is not None and one.seconds >= 0 for one in first)
        assert reported[-1] > reported[0] > 0
        files = sorted((run / "outcomes").iterdir())
        assert sorted(one.file or Path() for one in first) == sorted((run / "outcomes").glob("*.npz"))
        times = [file.stat().st_mtime_ns for file in files]

        reported.clear()
        again = list(
            evaluate_stored(
                run, digits, attacks, limit=LIMIT, chunk=16, progress=lambda done, *_: reported.append(done)
            )
        )
        assert [one.seconds for one in again] == [None] * 3
        assert [one.file for one in again] == [one.file for one in first]
        assert reported == []
        assert [file.stat().st_mtime_ns for file in files] == times
        for a, b in zip(first, again, strict=True):
            assert_same(a, b)

    def test_only_missing_outcomes_are_computed(self, run: Path, digits: Dataset) -> None:
        (kept,) = attacked(run, digits, [SLOW])
        mixed = attacked(run, digits, [QUICK, SLOW, None])
        assert [one.seconds is None for one in mixed] == [
            False,
            True,
            True,
        ]  # an attack stores clean outcomes too
        assert_same(mixed[1], kept)
        (alone,) = attacked(run, digits, [QUICK], chunk=16)
        assert alone.seconds is None
        assert_same(alone, mixed[0])

    @pytest.mark.parametrize("changed", [{"limit": LIMIT - 1}, {"chunk": 8}])
    def test_another_limit_or_chunk_is_computed(self, run: Path, digits: Dataset, changed: dict[str, int]) -> None:
        attacked(run, digits, [QUICK])
        (other,) = attacked(run, digits, [QUICK], **changed)
        assert other.seconds is not None
        assert len(other.evaluation) == changed.get("limit", LIMIT)
        assert len(outcome_files(run)) == 2

    @pytest.mark.parametrize("other", [FGSM(eps=0.11), FGSM(eps=0.1, loss="sce"), FGSM(eps=0.1, success="last")])
    def test_another_attack_is_computed(self, run: Path, digits: Dataset, other: FGSM) -> None:
        attacked(run, digits, [QUICK])
        assert attacked(run, digits, [other])[0].seconds is not None
        assert attacked(run, digits, [QUICK])[0].seconds is None

    def test_another_split_is_computed(self, run: Path, digits: Dataset) -> None:
        attacked(run, digits, [QUICK])
        (other,) = attacked(run, datasets.load("digits", "train"), [QUICK])
        assert other.seconds is not None

    def test_other_images_in_the_same_file_are_computed_again(self, run: Path, digits: Dataset, tmp_path: Path) -> None:
        file, images = tmp_path / "images.npz", digits.images.numpy()

        def found(images: NDArray[np.uint8]) -> EvaluationRow:
            np.savez(file, images=images, labels=digits.labels.numpy())
            (one,) = attacked(run, evaluation_data(run, f"npz:{file}", None), [QUICK])
            return one

        first, other, again = found(images), found(images[::-1]), found(images)
        assert first.seconds is not None
        assert other.seconds is not None
        assert not np.array_equal(first.evaluation.clean_probabilities, other.evaluation.clean_probabilities)
        assert again.seconds is None
        assert_same(again, first)

    def test_changed_weights_are_computed_again(self, run: Path, digits: Dataset) -> None:
        (before,) = attacked(run, digits, [QUICK])
        (run / "record.json").unlink()  # a finished run refuses weights that its record does not name
        tensors, note = read_tensors(run / "model.safetensors")
        name = next(name for name in tensors if name == "head.4.bias")
        write_tensors(run / "model.safetensors", {**tensors, name: tensors[name] + torch.eye(10)[3] * 100}, note)
        (after,) = attacked(run, digits, [QUICK])
        assert after.seconds is not None
        assert after.file != before.file
        assert set(after.evaluation.clean_prediction) == {3}
        assert attacked(run, digits, [QUICK])[0].seconds is None

    def test_a_weights_file_outside_a_run_stores_nothing(self, run: Path, digits: Dataset, tmp_path: Path) -> None:
        file = Path(shutil.copy(run / "model.safetensors", tmp_path / "shipped.safetensors"))
        before = sorted(tmp_path.rglob("*"))
        first, second = (attacked(file, digits, [QUICK])[0] for _ in range(2))
        assert first.file is second.file is None
        assert first.seconds is not None
        assert second.seconds is not None
        assert_same(first, second)
        assert sorted(tmp_path.rglob("*")) == before
        assert_same(first, attacked(run, digits, [QUICK])[0])

    def test_the_weights_file_of_a_run_stores_into_the_run(self, run: Path, digits: Dataset) -> None:
        (first,) = attacked(run / "model.safetensors", digits, [QUICK])
        assert first.file is not None
        assert first.file.parent == run / "outcomes"
        assert attacked(run, digits, [QUICK])[0].seconds is None

    def test_interrupted_between_attacks_the_first_is_kept(self, run: Path, digits: Dataset) -> None:
        def progress(_: float, __: float, what: str) -> None:
            if what == str(SLOW):  # the clean pass and the first attack are done
                raise KeyboardInterrupt

        outs = evaluate_stored(run, digits, [QUICK, SLOW], limit=LIMIT, chunk=16, progress=progress)
        first = next(outs)
        with pytest.raises(KeyboardInterrupt):
            next(outs)
        assert [file.name.split("-")[0] for file in outcome_files(run)] == ["fgsm"]
        quick, slow = attacked(run, digits, [QUICK, SLOW])
        assert quick.seconds is None
        assert slow.seconds is not None
        assert_same(quick, first)
        uninterrupted = evaluate(load(run), digits, SLOW, limit=LIMIT, chunk=16)
        assert_same(slow, EvaluationRow(str(SLOW), uninterrupted, None, None))

    def test_two_processes_do_not_compute_the_same_and_leftovers_are_removed(self, run: Path, digits: Dataset) -> None:
        (first,) = attacked(run, digits, [QUICK])
        assert first.file is not None
        first.file.unlink()
        mine = run / "outcomes" / f".{first.file.stem}.resume.ctrobust-{os.getpid()}-abcd1234.tmp"
        others = run / "outcomes" / f".pgd-eps=0.1-0123.resume.ctrobust-{os.getpid()}-abcd1234.tmp"
        mine.touch()
        others.touch()
        with RunDirectory(run).locked():
            pass
        assert mine.exists()  # a training process leaves the files of evaluations alone
        with RunDirectory(run).writing(first.file), pytest.raises(RunError, match=r"another process is making .*fgsm"):
            attacked(run, digits, [QUICK])
        (again,) = attacked(run, digits, [QUICK])
        assert_same(again, first)
        others.unlink()
        assert outcome_files(run) == [first.file]

    def test_a_damaged_file_is_named(self, run: Path, digits: Dataset) -> None:
        (first,) = attacked(run, digits, [QUICK])
        assert first.file is not None
        first.file.write_bytes(b"not an archive")
        with pytest.raises(RunError, match=r"fgsm-eps=0\.1-.*\.npz is damaged: .*; remove it"):
            attacked(run, digits, [QUICK])
        first.file.unlink()
        assert_same(attacked(run, digits, [QUICK])[0], first)

    def test_nothing_trained_is_refused(self, run: Path, digits: Dataset, tmp_path: Path) -> None:
        with pytest.raises(RunError, match=r"nothing at .*absent"):
            attacked(tmp_path / "absent", digits, [QUICK])
        (run / "model.safetensors").unlink()
        with pytest.raises(RunError, match=r"run is not finished: ctrobust train --resume --out "):
            attacked(run, digits, [QUICK])

    def test_the_weights_are_read_once(self, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        reads: list[Path] = []

        def counted(path: Path) -> bytes:
            reads.append(path)
            return tensor_files.read_bytes(path)

        monkeypatch.setattr("ctrobust.models.weights.read_bytes", counted)
        weights = WeightsFile.read(run)
        list(evaluate_stored(weights, evaluation_data(weights, None, None), [QUICK, None], limit=20))
        assert [path.name for path in reads].count("model.safetensors") == 1

    def test_the_record_tells_whether_a_fused_copy_was_used(self, run: Path, digits: Dataset) -> None:
        long = PGD(eps=0.05, steps=12)
        (fused,) = attacked(run, digits, [long])
        assert fused.facts.fused is True
        assert fused.facts.fused_logit_difference is not None
        assert 0 <= fused.facts.fused_logit_difference < 1e-3
        (short,) = attacked(run, digits, [QUICK])
        assert short.facts.fused is False
        assert short.facts.fused_logit_difference is None
        refused = next(evaluate_stored(run, digits, [long], limit=LIMIT, chunk=16, fuse=False))
        assert refused.facts.fused is False  # stored outcomes of the fused copy do not count
        assert refused.seconds is not None

    def test_class_probabilities_can_be_left_out(self, run: Path, digits: Dataset) -> None:
        (row,) = evaluate_stored(run, digits, [QUICK], limit=LIMIT, keep_probabilities=False)
        assert row.evaluation.probabilities is None
        assert row.evaluation.robust_accuracy == attacked(run, digits, [QUICK])[0].evaluation.robust_accuracy

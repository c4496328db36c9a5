"""`ctrobust train`."""

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch

from ctrobust import training
from ctrobust.errors import DataError, RunError
from ctrobust.recipes import RECIPES
from ctrobust.specs import NaturalSpec, TradesSpec
from ctrobust.store import RunDirectory
from tests.cli.command import Done, Inside, Terminal, plain
from tests.data.conftest import idx_header


def test_a_run_directory(trained: tuple[Path, Done]) -> None:
    run, done = trained
    name = f"runs/{run.name}"
    assert re.fullmatch(r"digits-mnistnet-[0-9a-f]{16}", run.name)
    assert {path.name for path in run.iterdir()} - {".lock"} == {
        "spec.json", "metrics.jsonl", "checkpoint", "model.safetensors", "record.json",
    }  # fmt: skip
    assert done.out.startswith(f"{name}: digits, 200 training images, 1 epoch")
    # seven steps leave the network at chance
    assert re.search(
        r"test accuracy \d+\.\d% \[\d+\.\d, \d+\.\d\] of 355; the number of wrong categories below 0\.1111 ",
        done.out,
    )
    assert "\nwarning: " in done.out
    assert f"\nnext:\n  ctrobust evaluate {name} --attack " in done.out
    assert re.match(rf"train {name}: epoch 1, loss 2\.\d+, lr ", done.err)
    assert "\x1b" not in done.out + done.err


def test_resumed_when_finished_it_prints_the_record_as_json(inside: Inside, run: Path) -> None:
    code, out, err = inside("train --resume --out run --json")
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert record.pop("run") == "run"
    stored = json.loads((run / "record.json").read_text())
    assert len(stored.pop("sha256")) == 64
    assert record == stored
    assert record["data"]["classes"] == list("0123456789")
    assert record["data"].items() >= {"name": "digits", "train": 200, "test": 355, "verified": True}.items()
    assert record["steps"] == 7
    assert len(record["seconds_per_epoch"]) == 1
    assert 0 <= record["results"]["accuracy"] <= 1


def test_options_that_agree_with_the_run_are_allowed_with_resume(inside: Inside, run: Path) -> None:
    before = (run / "spec.json").read_bytes()
    done = inside("train --resume --out run --devices 1 --limit 200")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("run: digits, 200 training images, 1 epoch")
    assert (run / "spec.json").read_bytes() == before


def test_a_finished_run_needs_no_data_and_damaged_weights_are_written_again(inside: Inside, run: Path) -> None:
    weights = (run / "model.safetensors").read_bytes()
    (run / "model.safetensors").write_bytes(weights[:-100])
    done = inside("evaluate run")
    assert done.code == 5
    assert "is not a whole safetensors file" in done.err
    assert inside("train --resume --out run").code == 0
    assert (run / "model.safetensors").read_bytes() == weights
    with mock.patch("ctrobust.data.load", side_effect=DataError("no data")):
        assert inside("train --resume --out run").code == 0
        (run / "record.json").unlink()
        assert inside("train --resume --out run").code == 4


@pytest.mark.parametrize("command", ["train --resume --out run", "evaluate run", "show run"])
def test_a_spec_that_was_edited_after_the_run_is_noticed(inside: Inside, run: Path, command: str) -> None:
    text = (run / "spec.json").read_text()
    (run / "spec.json").write_text(text.replace('"limit": 200', '"limit": 300'))
    code, out, err = inside(command)
    assert (code, out) == (5, "")
    assert err.startswith("error: run/spec.json was changed after it was written: its fields have the hash ")


@pytest.mark.parametrize("options", ["", "--resume"])
def test_a_directory_with_other_files_is_refused_and_left_as_it_is(
    inside: Inside, tmp_path: Path, options: str
) -> None:
    folder = tmp_path / "mine"
    (folder / "checkpoint").mkdir(parents=True)
    for name in (
        "model.safetensors",
        "record.json",
        "metrics.jsonl",
        ".mine.12345678.tmp",
        "checkpoint/.a.12345678.tmp",
    ):
        (folder / name).write_text("mine")
    before = {path: path.is_file() and path.read_text() for path in folder.rglob("*")}
    code, out, err = inside(f"train --limit 8 --epochs 1 --width 4 --out mine {options}")
    assert (code, out) == (5, "")
    assert err == (
        "error: mine is not empty and not a run directory: it has no spec.json but .mine.12345678.tmp, checkpoint, "
        "metrics.jsonl and 2 more; choose another --out\n"
    )
    assert {path: path.is_file() and path.read_text() for path in folder.rglob("*")} == before


def test_a_second_run_that_is_refused_leaves_nothing(inside: Inside, run: Path) -> None:
    before = {path: path.is_file() and path.read_bytes() for path in run.rglob("*")}
    for options in ("--limit 200 --epochs 1 --batch-size 32", "--limit 100", "--limit 100 --resume"):
        assert inside(f"train {options} --out run").code == 5
    with RunDirectory(run).locked():
        assert inside("train --limit 100 --out run").code == 5
    assert {path: path.is_file() and path.read_bytes() for path in run.rglob("*")} == before


def test_resume_starts_a_run_where_there_is_none(inside: Inside, tmp_path: Path) -> None:
    done = inside("train --resume --out new --limit 8 --epochs 1 --width 4")
    assert done.code == 0, done.err
    assert RunDirectory(tmp_path / "new").read_spec().limit == 8


def test_a_run_that_fails_before_its_first_checkpoint_can_be_replaced(inside: Inside, tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (40, 28, 28), dtype=np.uint8)
    np.savez(tmp_path / "two.npz", images=images, labels=np.arange(40) % 2)
    line = "train --data npz:two.npz --recipe fast --epochs 1 --batch-size 10 --width 4 --out r"
    code, out, err = inside(f"{line} --gamma 2")
    assert (code, out) == (2, "")
    assert err.startswith("error: this loss needs at least 3 classes; got 2")
    done = inside(line)
    assert done.code == 0, done.err
    assert done.out.startswith("r: npz:two.npz")


@pytest.mark.filterwarnings("default:this run started")
def test_a_run_that_continues_in_another_environment_warns(inside: Inside, tmp_path: Path) -> None:
    line = "train --limit 40 --epochs 2 --batch-size 8 --width 4 --out r --checkpoint-seconds 0"
    threads = torch.get_num_threads()
    try:
        with mock.patch.object(training.loop, "make_record", side_effect=RunError("no room")):
            assert inside(f"{line} --threads 1").code == 5
        done = inside(f"{line} --threads 2 --resume")
    finally:
        torch.set_num_threads(threads)
    assert done.code == 0
    expected = (
        "this run started with threads 1, now 2: it continues, but its bits will differ from an uninterrupted run"
    )
    assert done.err == f"warning: {expected}\n"
    record = json.loads((tmp_path / "r" / "record.json").read_text())
    assert record["environment"]["threads"] == 2
    assert [one["threads"] for one in record["earlier_environments"]] == [1]


def test_options_override_the_file(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(
        'method = "mdl"\nepochs = 7\nbatch_size = 16\nlimit = 32\n[model]\nwidth = 4\n[recipe]\neta = 90\n'
    )
    done = inside("train --config spec.toml --epochs 1 --samples 2 --out r --threads 1")
    assert done.code == 0, done.err
    spec = RunDirectory(tmp_path / "r").read_spec()
    assert (spec.epochs, spec.batch_size, spec.limit, spec.model.width) == (1, 16, 32, 4)
    assert isinstance(spec.recipe, NaturalSpec)
    assert (spec.recipe.samples, spec.recipe.rho, spec.recipe.eta) == (2, 1.0, 90.0)


def test_an_adversarial_run_by_its_options(inside: Inside, tmp_path: Path) -> None:
    done = inside(
        "train --recipe trades --gamma 3 --gamma-in attack --beta 1 --std-at clean --eps 25.5/255 --steps 2 "
        "--step-size 0.05 --ema 0.5 --validation 8 --stop-on-collapse --limit 40 --epochs 1 --width 8 --out r"
    )
    assert done.code == 0, done.err
    spec = RunDirectory(tmp_path / "r").read_spec()
    assert spec.recipe == TradesSpec(
        name="trades", gamma=3.0, gamma_in="attack", beta=1.0, std_at="clean", eps=0.1, steps=2, step_size=0.05
    )  # fmt: skip
    assert (spec.ema, spec.validation, spec.stop_on_collapse, spec.model.noise) == (0.5, 8, True, "none")
    assert re.search(r", training batch under one step \d+\.\d% and PGD-5 \d+\.\d%, held-out images ", done.err)
    assert "best epoch on 8 held-out images: 1, " in done.out
    assert (tmp_path / "r" / "checkpoint" / "best.safetensors").exists()
    done = inside("train --resume --out r --json")
    assert json.loads(done.out)["validation"]["count"] == 8


def test_any_field_can_be_set_by_its_dotted_name(inside: Inside, tmp_path: Path) -> None:
    done = inside(
        "train --recipe trades --set recipe.beta=1 --set recipe.eps=25.5/255 --set recipe.steps=1 --set limit=8 "
        "--set epochs=1 --set model.width=4 --set schedule.milestones=[0.3,0.6] --set augment=none --beta 1 --out r"
    )
    assert done.code == 0, done.err
    spec = RunDirectory(tmp_path / "r").read_spec()
    assert spec.recipe == TradesSpec(name="trades", beta=1.0, eps=0.1, steps=1)
    assert (spec.limit, spec.epochs, spec.model.width, spec.schedule.milestones) == (8, 1, 4, (0.3, 0.6))


@pytest.mark.usefixtures("run")
def test_the_summary_ends_with_commands_that_run(inside: Inside, tmp_path: Path) -> None:
    done = inside("train --resume --out run")
    command, report = (line.split() for line in done.out.splitlines()[-2:])
    assert command[:3] == ["ctrobust", "evaluate", "run"]
    done = inside(" ".join(command[1:]), "--limit", "4")
    assert done.code == 0, done.err
    assert done.out.startswith("run on digits (test), 4 images")
    assert done.out.splitlines()[-1].split() == ["report:", *report]
    done = inside(" ".join(report[1:]))
    assert done.code == 0, done.err
    assert "APGD" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_an_interrupted_run_names_the_command_that_resumes_it(
    terminal: Callable[..., Terminal], inside: Inside, tmp_path: Path
) -> None:
    shown = terminal(
        "train --limit 40 --epochs 2000 --width 4 --out r --threads 1 --checkpoint-seconds 5", COLUMNS="80"
    )
    shown.until(lambda: "ETA" in shown.text)
    assert shown.interrupt() == 130
    lines = plain(shown.text).split("\n")
    lines = [line.rstrip() for line in lines if line.strip()]
    command = "ctrobust train --resume --out r --threads 1 --checkpoint-seconds 5.0"
    assert lines[-2:] == ["resume with:", f"  {command}"]
    assert "train r ━" in plain(shown.text)
    spec = RunDirectory(tmp_path / "r").read_spec()
    (tmp_path / "r" / "spec.json").unlink()
    done = inside(" ".join(command.split()[1:]))
    assert done.code == 5
    assert spec.epochs == 2000


def test_a_run_that_diverged_continues_with_another_rate(
    inside: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_batch = training.TrainingState.train_batch

    def exploding(self: training.TrainingState, index: torch.Tensor) -> torch.Tensor:
        loss = train_batch(self, index)
        return loss * float("nan") if self.progress.epoch == 1 and self.peak_rate == 0.05 else loss

    monkeypatch.setattr(training.TrainingState, "train_batch", exploding)
    code, out, err = inside("train --limit 40 --epochs 3 --batch-size 8 --width 4 --lr 0.05 --out r")
    assert (code, out) == (5, "")
    message, command = err.splitlines()[-2:]
    assert message.startswith("error: training diverged at step 6 in epoch 2, with a learning rate of ")
    assert command == "  ctrobust train --resume --out r --lr 0.005"
    assert inside("train --resume --out r --lr 0.005 --seed 3").code == 5  # another run
    done = inside(" ".join(command.split()[1:]))
    assert done.code == 0, done.err
    assert "warning: The largest learning rate was changed to 0.005 after epoch 1." in done.out
    assert RunDirectory(tmp_path / "r").read_spec().lr_changes == ((1, 0.005),)
    assert inside("train --resume --out r").code == 0


def test_the_recipes_are_listed(inside: Inside) -> None:
    code, out, _ = inside("list recipes")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(RECIPES)
    assert "Fast-AT, with gamma > 0 Fast-AT with CTR: " in out


def test_the_error_of_missing_data_names_the_files_and_folders(
    home: Path, tmp_path: Path, inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTROBUST_DATA", str(tmp_path / "mine"))
    code, out, err = inside("train --data fashion-mnist")
    assert (code, out) == (4, "")
    assert "Put train-images-idx3-ubyte.gz and train-labels-idx1-ubyte.gz" in err
    for place in (tmp_path / "mine", home / ".cache" / "ctrobust", tmp_path / "system"):
        assert f"  {place / 'fashion-mnist' / 'train-images-idx3-ubyte'}[.gz]: No such file" in err
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_not_the_published_ones_train_as_unverified(inside: Inside, tmp_path: Path) -> None:
    folder = tmp_path / "own" / "fashion-mnist"
    folder.mkdir(parents=True)
    for prefix, count in (("train", 40), ("t10k", 20)):
        values = np.random.default_rng(0).integers(0, 256, (count, 28, 28), dtype=np.uint8)
        for kind, array in (("images-idx3", values), ("labels-idx1", np.arange(count, dtype=np.uint8) % 10)):
            content = gzip.compress(idx_header(array.shape) + array.tobytes())
            (folder / f"{prefix}-{kind}-ubyte.gz").write_bytes(content)
    done = inside("train --data fashion-mnist --data-root own --epochs 1 --batch-size 8 --width 4 --out r")
    assert done.code == 0, done.err
    assert done.out.startswith("r: fashion-mnist (unverified), 40 training images, ")
    record = json.loads((tmp_path / "r" / "record.json").read_text())
    assert record["data"].items() >= {"name": "fashion-mnist", "train": 40, "test": 20, "verified": False}.items()

    done = inside("evaluate r --data-root own --attack fgsm:eps=0.1")
    assert done.code == 0, done.err
    assert "r on fashion-mnist (test, unverified), 20 images" in done.out
    done = inside("evaluate r --data-root own --attack fgsm:eps=0.1 --json")
    assert json.loads(done.out)["data"] == {
        "name": "fashion-mnist", "split": "test", "verified": False, "count": 20,
    }  # fmt: skip

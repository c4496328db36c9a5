"""The command as a person or a script runs it.

Commands that start, stop or print to a terminal are processes of their own. Those that say what is wrong, or print
JSON, call the same entry point in this process, which has loaded torch already.
"""

import contextlib
import gzip
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from ctrobust._version import __version__
from ctrobust.cli import main
from ctrobust.data import locate
from ctrobust.data.idx import idx_header
from ctrobust.store import RunDirectory, read_arrays

COMMAND = str(Path(sys.executable).with_name("ctrobust"))
ROOT = Path(__file__).parents[1]
COLOURS = re.compile(r"\x1b\[[0-9;]*(?:3[0-9]|9[0-7])[0-9;]*m")


class Done(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


Inside = Callable[..., Done]


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home without data sets."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="session")
def environment(home: Path) -> dict[str, str]:
    """The environment of a new user: nothing in it asks for colours or names data."""
    unset = {"CTROBUST_DATA", "FORCE_COLOR", "NO_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "COLUMNS", "TTY_COMPATIBLE"}
    kept = {name: value for name, value in os.environ.items() if name not in unset}
    if "COVERAGE_PROCESS_START" in kept:  # commands run elsewhere
        kept["COVERAGE_PROCESS_START"] = str(ROOT / "pyproject.toml")
        kept.setdefault("COVERAGE_FILE", str(ROOT / ".coverage"))
    place = {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}
    return {**kept, **place, "OMP_NUM_THREADS": "1", "TERM": "xterm-256color"}


def ctrobust(line: str, cwd: Path, env: dict[str, str]) -> Done:
    """Run a command to its end."""
    done = subprocess.run([COMMAND, *line.split()], cwd=cwd, env=env, capture_output=True, text=True, timeout=240)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def inside(
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Inside:
    """Run the command's entry point in this process, in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    for name in ("CTROBUST_DATA", "FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, environment[name])
    monkeypatch.setattr(locate, "SYSTEM_ROOT", tmp_path / "system")

    def run(line: str, *more: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["ctrobust", *line.split(), *more])
        with pytest.raises(SystemExit) as exit_:
            main()
        out, err = capfd.readouterr()
        assert isinstance(exit_.value.code, int)
        return Done(exit_.value.code, out, err)

    return run


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> tuple[Path, Done]:
    """A small run at the place that it chooses itself, and what its training printed."""
    folder = tmp_path_factory.mktemp("trained")
    done = ctrobust("train --data digits --limit 200 --epochs 1 --batch-size 32", folder, environment)
    assert done.code == 0, done.err
    (run,) = (folder / "runs").iterdir()
    return run, done


@pytest.fixture
def run(trained: tuple[Path, Done], tmp_path: Path) -> Path:
    """A copy of the small run."""
    return Path(shutil.copytree(trained[0], tmp_path / "run"))


class Terminal:
    """A command that believes to run in a terminal of 120 columns."""

    def __init__(self, line: str, cwd: Path, env: dict[str, str]) -> None:
        self.text = ""
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [COMMAND, *line.split()], cwd=cwd, env={**env, "COLUMNS": "120"}, stdin=slave, stdout=slave, stderr=slave
        )
        os.close(slave)

    def _read(self) -> bool:
        """Take what was printed; False when the command has closed the terminal."""
        if select.select([self.master], [], [], 0.1)[0]:
            with contextlib.suppress(OSError):  # Linux's end of file
                printed = os.read(self.master, 1 << 16)
                self.text += printed.decode(errors="replace")
                return bool(printed)
            return False
        return True

    def until(self, condition: Callable[[], bool]) -> None:
        """Read on until something has happened."""
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline, self.text
            assert self._read(), self.text

    def interrupt(self) -> int:
        """Ctrl-C, and the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def end(self) -> int:
        """The exit code."""
        while self._read():
            pass
        return self.process.wait(timeout=60)


@pytest.fixture
def terminal(tmp_path: Path, environment: dict[str, str]) -> Iterator[Callable[..., Terminal]]:
    started: list[Terminal] = []

    def start(line: str, **changed: str) -> Terminal:
        started.append(Terminal(line, tmp_path, {**environment, **changed}))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()
        os.close(one.master)


def test_version(tmp_path: Path, environment: dict[str, str]) -> None:
    assert ctrobust("--version", tmp_path, environment) == (0, f"ctrobust {__version__}\n", "")


def test_help_names_commands_and_exit_codes(tmp_path: Path, environment: dict[str, str]) -> None:
    code, out, err = ctrobust("--help", tmp_path, environment)
    assert (code, err) == (0, "")
    for word in ("demo", "train", "evaluate", "--debug", "--version", "Exit codes: 0 done; 1 internal error; 2 "):
        assert word in out
    assert "\x1b" not in out


@pytest.mark.parametrize("command", ["demo", "train", "evaluate"])
def test_each_commands_help_has_an_example(inside: Inside, command: str) -> None:
    for option in ("--help", "-h"):
        code, out, err = inside(f"{command} {option}")
        assert (code, err) == (0, "")
        assert f"Example: ctrobust {command} --" in out or f"Example: ctrobust {command} runs/" in out


@pytest.mark.parametrize(
    ("args", "code", "messages"),
    [
        ("trian", 2, ["No such command 'trian'", "Did you mean 'train'"]),
        ("train --epocs 3", 2, ["No such option: --epocs", "--epochs"]),
        ("train --epochs three", 2, ["--epochs", "valid integer"]),
        ("evaluate", 2, ["Missing argument", "run"]),
        ("train --config absent.toml", 3, ["error: no spec file absent.toml"]),
    ],
)
def test_a_typo_is_told_at_once(
    tmp_path: Path, environment: dict[str, str], args: str, code: int, messages: list[str]
) -> None:
    done = ctrobust(args, tmp_path, environment)
    assert (done.code, done.out) == (code, "")
    for message in messages:
        assert message.lower() in done.err.lower()
    assert "Traceback" not in done.err
    assert "\x1b" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_the_traceback(tmp_path: Path, environment: dict[str, str]) -> None:
    code, out, err = ctrobust("--debug train --config absent.toml", tmp_path, environment)
    assert (code, out) == (3, "")
    assert err.startswith("Traceback (most recent call last):")
    assert err.endswith("error: no spec file absent.toml\n")


@pytest.mark.parametrize(
    ("args", "code", "messages"),
    [
        ("evaluate run --attack fgsmm:eps=0.1", 2, ["unknown attack 'fgsmm'; did you mean 'fgsm'?", "s-pgd"]),
        ("evaluate run --attack pgd:eps=0.1,stps=3", 2, ["has no field 'stps'; did you mean 'steps'?"]),
        ("evaluate run --attack pgd:eps=0.1,loss=sec", 2, ["unknown loss 'sec'", "sce", "margin"]),
        ("evaluate run --attack pgd:eps=0.1,loss=sce(gama=2)", 2, ["loss 'sce' takes gamma; got 'gama'"]),
        ("evaluate run --attack fgsm", 2, ["attack 'fgsm' needs eps: write fgsm:eps=8/255"]),
        ("evaluate run --attack fgsm --eps 8", 2, ["got 8.0; for 8 grey levels write 8/255"]),
        ("evaluate run --attack fgsm --eps o.1", 2, ["'o.1' is not a number; write 0.03 or 8/255"]),
        ("evaluate run --split tset", 2, ["unknown split 'tset' of digits. Allowed: train, test"]),
        ("evaluate run --data digts", 2, ["unknown data set 'digts', did you mean 'digits'?"]),
        ("evaluate absent", 5, ["nothing at absent: give a run directory or a weights file"]),
        ("evaluate folder", 5, ["folder is no run directory: it has no spec.json"]),
        ("evaluate unfinished", 5, ["unfinished is not finished: ctrobust train --resume --out"]),
        ("evaluate bad.toml", 5, ["bad.toml is not a whole safetensors file"]),
        ("evaluate run --data fashion-mnist", 4, ["fashion-mnist was not found", "t10k-images-idx3-ubyte.gz"]),
        ("train --data digts", 2, ["unknown data set 'digts', did you mean 'digits'?"]),
        ("train --data mnist --data-root absent", 4, ["the data root absent does not exist"]),
        (
            "train --method dropot",
            3,
            ["method = 'dropot' is unknown; allowed: dropout, focal, dropblock, multi-sample-dropout"],
        ),
        ("train --model vgg", 3, ["model.name = 'vgg'", "mnistnet"]),
        ("train --schedule cosine", 3, ["schedule.name = 'cosine'", "cyclic", "multistep"]),
        ("train --epochs 0", 3, ["epochs = 0", "greater than or equal to 1"]),
        ("train --lr nan", 3, ["lr = nan", "finite"]),
        ("train --eta 101", 3, ["recipe.eta = 101", "less than or equal to 100"]),
        ("train --method mdl --noise none", 3, ["samples = 4 needs model.noise"]),
        ("train --config bad.toml", 3, ["unknown key eopchs; allowed: data, limit", "unknown key model.wdth; allowed"]),
        ("train --config no.toml", 3, ["no.toml is not TOML", "line 1"]),
        ("train --config folder", 3, ["cannot read the spec file folder", "directory"]),
        ("train --limit 200 --epochs 1 --batch-size 32 --out run", 5, ["run holds this run already: add --resume"]),
        ("train --limit 100 --out run --resume", 5, ["run holds another run"]),
        ("train --resume --out folder", 5, ["folder is no run directory: it has no spec.json"]),
        ("train --out bad.toml --limit 8 --epochs 1", 5, ["cannot use bad.toml"]),
    ],
)
@pytest.mark.usefixtures("run")
def test_what_is_wrong_is_said(inside: Inside, tmp_path: Path, args: str, code: int, messages: list[str]) -> None:
    (tmp_path / "bad.toml").write_text("eopchs = 3\n[model]\nwdth = 32\n")
    (tmp_path / "no.toml").write_text("epochs = = 3\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "unfinished").mkdir()
    shutil.copy(tmp_path / "run" / "spec.json", tmp_path / "unfinished")
    done = inside(args)
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith("error: ")
    for message in messages:
        assert message in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("run")
def test_radii_need_an_attack(inside: Inside) -> None:
    done = inside("evaluate run --eps 0.1")
    assert done.code in (2, 3)
    assert "--attack" in done.err


def test_debug_of_what_is_wrong_later(inside: Inside) -> None:
    done = inside("--debug train --method dropot")
    assert done.code == 3
    assert "Traceback (most recent call last)" in done.err
    assert done.err.splitlines()[-1].startswith("error: method = 'dropot' is unknown")


class TestTrain:
    """The small run, and others like it."""

    def test_a_run_directory(self, trained: tuple[Path, Done]) -> None:
        run, done = trained
        name = f"runs/{run.name}"
        assert re.fullmatch(r"digits-mnistnet-[0-9a-f]{16}", run.name)
        assert {path.name for path in run.iterdir()} - {".lock"} == {
            "spec.json", "metrics.jsonl", "checkpoint", "model.safetensors", "record.json",
        }  # fmt: skip
        assert done.out.startswith(f"{name}: digits, 200 training images, 1 epoch")
        assert re.search(
            r"test accuracy \d+\.\d% \[\d+\.\d, \d+\.\d\] of 355; wrong categories below 0\.1111: ", done.out
        )
        assert re.match(rf"train {name}: epoch 1 loss 2\.\d+ lr ", done.err)
        assert "\x1b" not in done.out + done.err

    def test_resumed_when_finished_it_prints_the_record_as_json(self, inside: Inside, run: Path) -> None:
        code, out, err = inside("train --resume --out run --json")
        assert (code, err) == (0, "")
        record = json.loads(out)
        assert record.pop("run") == "run"
        assert record == json.loads((run / "record.json").read_text())
        assert record["data"] == {"name": "digits", "train": 200, "test": 355, "verified": True}
        assert record["steps"] == 7
        assert len(record["seconds_per_epoch"]) == 1
        assert 0 <= record["results"]["accuracy"] <= 1

    def test_options_win_over_the_file(self, inside: Inside, tmp_path: Path) -> None:
        (tmp_path / "spec.toml").write_text(
            'method = "mdl"\nepochs = 7\nbatch_size = 16\nlimit = 32\n[model]\nwidth = 4\n[recipe]\neta = 90\n'
        )
        done = inside("train --config spec.toml --epochs 1 --samples 2 --out r --threads 1")
        assert done.code == 0, done.err
        spec = RunDirectory(tmp_path / "r").read_spec()
        assert (spec.epochs, spec.batch_size, spec.limit, spec.model.width) == (1, 16, 32, 4)
        assert (spec.recipe.samples, spec.recipe.rho, spec.recipe.eta) == (2, 1.0, 90.0)


class TestFashionMNIST:
    """Data that is not embedded."""

    def test_missing_it_says_what_to_put_where(
        self, home: Path, tmp_path: Path, inside: Inside, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CTROBUST_DATA", str(tmp_path / "mine"))
        code, out, err = inside("train --data fashion-mnist")
        assert (code, out) == (4, "")
        assert "Put train-images-idx3-ubyte.gz and train-labels-idx1-ubyte.gz" in err
        for place in (tmp_path / "mine", home / ".cache" / "ctrobust", tmp_path / "system"):
            assert f"  {place / 'fashion-mnist' / 'train-images-idx3-ubyte'}[.gz]: No such file" in err
        assert list(tmp_path.iterdir()) == []

    def test_own_files_train_and_are_called_unverified(self, inside: Inside, tmp_path: Path) -> None:
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
        assert record["data"] == {"name": "fashion-mnist", "train": 40, "test": 20, "verified": False}

        done = inside("evaluate r --data-root own --attack fgsm:eps=0.1")
        assert done.code == 0, done.err
        assert "r on fashion-mnist (test, unverified), 20 images" in done.out
        done = inside("evaluate r --data-root own --attack fgsm:eps=0.1 --json")
        assert json.loads(done.out)["data"] == {
            "name": "fashion-mnist", "split": "test", "verified": False, "count": 20,
        }  # fmt: skip


class TestEvaluate:
    """Attacks on the small run."""

    @pytest.mark.usefixtures("run")
    def test_several_attacks_and_radii_as_json(self, inside: Inside, tmp_path: Path) -> None:
        args = "evaluate run --attack fgsm --attack s-pgd:steps=3 --attack pgd:eps=0.3,steps=2 --eps 8/255 --eps 0.1"
        code, out, err = inside(f"{args} --limit 40 --json --threads 1")
        assert code == 0, err
        document = json.loads(out)  # and so there is nothing else
        assert document["run"] == "run"
        assert document["data"] == {"name": "digits", "split": "test", "verified": True, "count": 40}
        assert document["threshold"]["wrong_total"] == 40 * 9
        radii = {
            "fgsm:eps=8/255": 8 / 255, "fgsm:eps=0.1": 0.1, "pgd:eps=8/255,steps=3,loss=std": 8 / 255,
            "pgd:eps=0.1,steps=3,loss=std": 0.1, "pgd:eps=0.3,steps=2": 0.3,
        }  # fmt: skip
        assert [one["attack"] for one in document["attacks"]] == list(radii)
        assert document["accuracy_interval"][0] <= document["accuracy"] <= document["accuracy_interval"][1]
        for one in document["attacks"]:
            assert one["count"] == 40
            assert one["interval"][0] <= one["robust_accuracy"] <= one["interval"][1]
            assert one["robust_accuracy"] <= document["accuracy"]
            assert one["attack_success_rate"] == 1 - one["robust_accuracy"]
            assert one["largest_distance"] == pytest.approx(radii[one["attack"]], abs=1e-6)
            assert one["seconds"] > 0
            arrays = read_arrays(tmp_path / one["outcomes"])
            assert arrays["probabilities"].shape == (40, 10)
            assert int(arrays["forwards"].sum()) == one["forwards"]

        again = json.loads(inside(f"{args} --limit 40 --json").out)
        assert [one.pop("seconds") for one in again["attacks"]] == [None] * 5
        for one in document["attacks"]:
            one.pop("seconds")
        assert again == document

    @pytest.mark.usefixtures("run")
    def test_a_table(self, inside: Inside) -> None:
        args = "evaluate run --attack pgd:steps=2 --eps 0.1 --eps 0.2 --limit 40 --chunk 16"
        code, out, err = inside(args)
        assert code == 0
        assert err == "evaluate run: 120 of 120 examples\n"
        assert "\x1b" not in out
        assert out.startswith("run on digits (test), 40 images\naccuracy ")
        assert [line.split()[0] for line in out.splitlines() if "eps=" in line] == [
            "pgd:eps=0.1,steps=2", "pgd:eps=0.2,steps=2",
        ]  # fmt: skip
        assert "confidence threshold 1/9: " in out
        assert inside(args).out.count("stored") == 2

    def test_a_weights_file_by_itself(self, inside: Inside, run: Path, tmp_path: Path) -> None:
        shutil.copy(run / "model.safetensors", tmp_path / "gewichte ü [1].safetensors")
        code, out, err = inside("evaluate --limit 20", "gewichte ü [1].safetensors")
        assert code == 0, err
        assert out.startswith("gewichte ü [1].safetensors on digits (test), 20 images\n")
        assert not (run / "outcomes").exists()

    def test_a_reader_that_leaves(self, run: Path, environment: dict[str, str]) -> None:
        process = subprocess.Popen(
            [COMMAND, "evaluate", str(run), "--limit", "20"],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()  # as `head -1` does when it has its line
        with process.stderr as errors:
            complaint = errors.read()
        assert process.wait(timeout=60) != 0
        assert complaint in ("", f"evaluate {run}: 20 of 20 examples\n")

    def test_piped_into_head(self, tmp_path: Path, environment: dict[str, str]) -> None:
        done = subprocess.run(
            f"'{COMMAND}' evaluate --help | head -1",
            shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0
        assert done.stderr == ""
        assert done.stdout.count("\n") == 1

    def test_a_bar_and_ctrl_c(self, run: Path, inside: Inside, terminal: Callable[..., Terminal]) -> None:
        """An attack of radius 0 fools nobody, so that its million steps are all made, or not."""
        shown = terminal("evaluate run --attack fgsm:eps=0.1 --attack pgd:eps=0,steps=1000000 --chunk 100")
        outcomes = run / "outcomes"
        shown.until(lambda: any(outcomes.glob("fgsm*.npz")) and " 710/1065 " in _plain(shown.text))
        assert shown.interrupt() == 130
        plain = _plain(shown.text)
        assert re.search(r"evaluate run .*━.* 710/1065 .*0:\d\d:\d\d ETA \d:\d\d:\d\d", plain)
        assert COLOURS.search(shown.text)
        assert "interrupted: stopped; finished attacks are stored and will not be done again" in plain
        assert "Traceback" not in plain
        assert shown.text.rindex("\x1b[?25h") > shown.text.rindex("\x1b[?25l")  # the cursor is shown again

        assert [path.name.split("-")[0] for path in outcomes.iterdir()] == ["fgsm"]
        document = json.loads(inside("evaluate run --attack fgsm:eps=0.1 --chunk 100 --json").out)
        assert document["attacks"][0]["seconds"] is None


@pytest.mark.parametrize(("changed", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_colours_only_where_they_are_wanted(
    terminal: Callable[..., Terminal], changed: dict[str, str], coloured: bool
) -> None:
    shown = terminal("train --config absent.toml", **changed)
    assert shown.end() == 3
    assert "error:" in shown.text
    assert "no spec file absent.toml" in shown.text
    assert bool(COLOURS.search(shown.text)) is coloured


def test_demo(tmp_path: Path, environment: dict[str, str], terminal: Callable[..., Terminal]) -> None:
    """From nothing: stopped by Ctrl-C in its second epoch, begun again, and brought to its end."""
    metrics = tmp_path / "out" / "dropout" / "metrics.jsonl"
    shown = terminal("demo --out out")
    shown.until(lambda: metrics.exists() and metrics.read_text().count("\n") >= 1)
    assert shown.interrupt() == 130
    plain = _plain(shown.text)
    assert re.search(r"train dropout .*━.* \d+/910 epoch \d loss \d\.\d{4} 0:\d\d:\d\d ETA \d:\d\d:\d\d", plain)
    assert re.search(r"interrupted: stopped at step \d+; the state is saved in out/dropout", plain)
    assert "Traceback" not in plain
    assert not (tmp_path / "out" / "dropout" / "record.json").exists()
    finished = metrics.read_text().count("\n")

    code, out, err = ctrobust("demo --out out", tmp_path, environment)
    assert code == 0, err
    assert "\x1b" not in out + err
    assert re.findall(r"train dropout: epoch (\d+)", err) == [str(epoch) for epoch in range(finished + 1, 11)]
    assert len(re.findall(r"train mdl: epoch", err)) == 10
    assert "digits, 355 test images, attacks within 0.1; 95% intervals" in out
    for method in ("dropout", "mdl"):
        (row,) = [line for line in out.splitlines() if line.split()[:1] == [method]]
        accuracy, fgsm, pgd, s_pgd = (float(value) for value in re.findall(r"(\d+\.\d)% \[", row))
        assert accuracy >= 95
        assert 0 < fgsm < accuracy
        assert max(pgd, s_pgd) < fgsm
        run = tmp_path / "out" / method
        assert {path.name for path in run.iterdir()} >= {
            "spec.json", "metrics.jsonl", "model.safetensors", "record.json", "outcomes",
        }  # fmt: skip
        lines: list[dict[str, Any]] = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        assert [line["epoch"] for line in lines] == list(range(1, 11))
        assert len(list((run / "outcomes").glob("*.npz"))) == 3
        record = json.loads((run / "record.json").read_text())
        assert f"{100 * record['results']['accuracy']:.1f}" == f"{accuracy:.1f}"
    assert "run directories: out/dropout, out/mdl" in out


def _plain(text: str) -> str:
    """Without escape sequences, each drawing of a bar on its own line."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "\n")

"""The run directory."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from filelock import Timeout

from ctrobust.errors import RunError
from ctrobust.outcomes import Evaluation
from ctrobust.specs import EvaluationSpec, spec_hash, train_spec
from ctrobust.store import OutcomeSummary, RunDirectory, RunRecord
from ctrobust.store.records import RunData

HOLD = """
import sys, pathlib
from ctrobust.store import RunDirectory
with RunDirectory(pathlib.Path(sys.argv[1])).locked():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "run")


@contextmanager
def holder(run: RunDirectory) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the run until its standard input ends."""
    command = [sys.executable, "-c", HOLD, str(run.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_a_second_process_is_refused_until_the_first_is_killed(run: RunDirectory) -> None:
    with holder(run) as process:
        with pytest.raises(RunError, match=f"{re.escape(str(run.path))} is in use by another process"), run.locked():
            pytest.fail("two processes hold the run")
        process.kill()
        assert process.wait(timeout=30) == -9
        entered = False
        with run.locked():
            entered = True
        assert entered


def test_the_lock_is_freed_at_the_end_and_by_an_error(run: RunDirectory) -> None:
    with run.locked(), pytest.raises(RunError, match="in use"), RunDirectory(run.path).locked():
        pytest.fail("held twice")
    with pytest.raises(KeyError), run.locked():
        raise KeyError
    with run.locked():
        assert run.path.is_dir()


def dead_process() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as process:
        process.wait(timeout=60)
    return process.pid


def test_leftovers_of_a_dead_process_are_removed_on_entering(run: RunDirectory) -> None:
    leftover = run.checkpoint_file.with_name(f".last.safetensors.ctrobust-{dead_process()}-abcd_123.tmp")
    leftover.parent.mkdir(parents=True)
    leftover.write_bytes(b"half a checkpoint")
    run.checkpoint_file.write_bytes(b"a whole one")
    with run.locked():
        assert not leftover.exists()
        assert run.checkpoint_file.read_bytes() == b"a whole one"


def test_the_lock_is_held_while_leftovers_are_removed(run: RunDirectory) -> None:
    leftover = run.path / f".spec.json.ctrobust-{dead_process()}-abcd_123.tmp"
    with run.locked():
        leftover.write_bytes(b"being written")
        with pytest.raises(RunError, match="in use"), RunDirectory(run.path).locked():
            pytest.fail("held twice")
        assert leftover.exists()


def test_a_file_is_no_run_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunError, match=r"cannot use .*file: File exists"), RunDirectory(tmp_path / "file").locked():
        pytest.fail("a file was entered")


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), TimeoutError("no answer"), Timeout("other")])
def test_errors_inside_the_lock_pass_through_unchanged(run: RunDirectory, error: OSError) -> None:
    with pytest.raises(type(error)) as raised, run.locked():
        raise error
    assert raised.value is error
    with run.locked():
        assert run.path.is_dir()


def test_a_directory_that_cannot_be_locked_is_refused(run: RunDirectory) -> None:
    (run.path / ".lock").mkdir(parents=True)
    with pytest.raises(RunError, match=r"cannot use .*run: "), run.locked():
        pytest.fail("a folder was locked")


def test_the_spec_is_kept(run: RunDirectory) -> None:
    spec = train_spec({"method": "mdl", "seed": 4})
    run.write_spec(spec)
    assert run.read_spec() == spec
    assert run.spec_file.read_text().endswith("}\n")


def test_a_directory_without_a_spec_is_no_run(run: RunDirectory) -> None:
    with pytest.raises(RunError, match=r"is not a run directory: it has no spec\.json"):
        run.read_spec()
    assert not run.path.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"kind":"TrainSpec","sch', "not a spec"),
        (b"", "not a spec"),
        (b"[]", "it holds no JSON object"),
        (b"[" * 100_000, "not a spec"),
        (b"\xff\xfe", "can't decode"),
        (b'{"kind":"TrainSpec","schema":9}', "schema 9"),
        (b'{"kind":["TrainSpec"],"schema":1}', "kind"),
        (b'{"kind":"TrainSpec","schema":1,"lr":-1.0}', "lr = -1.0"),
    ],
)
def test_a_damaged_spec_is_refused_with_its_place(run: RunDirectory, content: bytes, message: str) -> None:
    run.path.mkdir()
    run.spec_file.write_bytes(content)
    with pytest.raises(RunError, match=message) as error:
        run.read_spec()
    assert str(error.value).startswith(f"{run.spec_file}: ")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('"seed": 4', '"seed": 5', "its fields have the hash [0-9a-f]{16}, it says [0-9a-f]{16}"),
        ('"hash": "', '"hash": "0', "its fields have the hash [0-9a-f]{16}, it says 0[0-9a-f]{16}"),
        ('"momentum": 0.9', '"momentum": 0.5', r"momentum is shown as 0\.5, and is 0\.9"),
        ('"drop": 0.5', '"drop": 0.1', r"model\.drop is shown as 0\.1, and is 0\.5"),
    ],
)
def test_an_edited_spec_is_noticed(run: RunDirectory, before: str, after: str, message: str) -> None:
    run.write_spec(train_spec({"method": "mdl", "seed": 4}))
    text = run.spec_file.read_text()
    assert before in text
    run.spec_file.write_text(text.replace(before, after, 1))
    with pytest.raises(RunError, match=rf"spec\.json was changed after it was written: {message}; restore the file"):
        run.read_spec()


def test_a_spec_file_of_another_version_may_show_other_fields(run: RunDirectory) -> None:
    spec = train_spec({"seed": 4})
    run.write_spec(spec)
    content = json.loads(run.spec_file.read_text())
    del content["resolved"]["momentum"]
    content["resolved"]["colour"] = 3
    run.spec_file.write_text(json.dumps(content))
    assert run.read_spec() == spec


def test_a_spec_that_replaced_that_of_the_run_is_noticed(run: RunDirectory) -> None:
    spec = train_spec({"seed": 4})
    run.write_spec(spec)
    run.write_record(record().model_copy(update={"spec": spec_hash(spec)}))
    assert run.read_record().spec == spec_hash(spec)
    other = train_spec({"seed": 5})
    run.write_spec(other)
    message = (
        f"was changed after the run finished: its hash is {spec_hash(other)}, that of the run is {spec_hash(spec)}"
    )
    with pytest.raises(RunError, match=message):
        run.read_record()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["model.safetensors"], "model.safetensors; choose"),
        (["a", "b", ".c", "d", "e"], ".c, a, b and 2 more; choose"),
        ([".mine.12345678.tmp"], ".mine.12345678.tmp; choose"),
    ],
)
def test_a_directory_with_other_files_is_not_free(run: RunDirectory, names: list[str], message: str) -> None:
    run.path.mkdir()
    for name in names:
        (run.path / name).touch()
    with pytest.raises(
        RunError, match=re.escape(f"is not empty and not a run directory: it has no spec.json but {message}")
    ):
        run.check_free()


@pytest.mark.parametrize("name", [None, ".lock", "tensorboard", ".spec.json.ctrobust-12-abcd1234.tmp"])
def test_an_empty_directory_is_free(run: RunDirectory, name: str | None) -> None:
    run.path.mkdir()
    if name:
        (run.path / name).touch()
    run.check_free()
    assert [path.name for path in run.path.iterdir()] == ([name] if name else [])


def record() -> RunRecord:
    probabilities = np.array([[0.6, 0.3, 0.1], [0.2, 0.7, 0.1]], dtype=np.float32)
    zeros, labels = np.zeros(2, dtype=np.int64), np.array([0, 2])
    predicted = probabilities.argmax(1)
    out = Evaluation(
        labels, probabilities, probabilities, predicted, predicted, zeros.astype(np.float32), zeros, zeros,
        zeros.astype(bool),
    )  # fmt: skip
    return RunRecord(
        spec="0" * 16, weights_sha256="1" * 64,
        data=RunData(name="dots", train=4, test=2, verified=False, classes=("a", "b", "c")),
        results=OutcomeSummary.model_validate(out.summary()), steps=3, seconds_per_epoch=(1.5,),
        environment={"commit": None},
    )  # fmt: skip


def test_the_record_is_typed_and_comes_back(run: RunDirectory) -> None:
    run.write_record(record())
    assert run.read_record() == record()
    assert run.read_record().results.accuracy == 0.5
    assert json.loads(run.record_file.read_text())["version"] == 2


@pytest.mark.parametrize("name", ["sweep_counts", "count_above", "accuracy_above"])
def test_a_record_whose_lists_do_not_fit_each_other_is_refused(run: RunDirectory, name: str) -> None:
    run.write_record(record())
    content = json.loads(run.record_file.read_text())
    del content["sha256"]
    content["results"]["threshold"][name].pop()
    run.record_file.write_text(json.dumps(content))
    with pytest.raises(RunError, match=r"record\.json is damaged .*one number for each threshold and level; remove it"):
        run.read_record()


@pytest.mark.parametrize("changed", [{"version": 3}, {"steps": "many"}, {"unknown": 1}, {"results": {}}])
def test_a_record_of_another_version_or_form_is_refused(run: RunDirectory, changed: dict[str, object]) -> None:
    run.write_record(record())
    run.record_file.write_text(json.dumps({**json.loads(run.record_file.read_text()), **changed}))
    with pytest.raises(RunError, match=rf"record\.json is damaged or of another version: {next(iter(changed))}"):
        run.read_record()


def test_a_changed_value_of_a_record_is_noticed(run: RunDirectory) -> None:
    run.write_record(record())
    text = run.record_file.read_text()
    assert run.read_record() == record()
    for before, after in (
        ('"accuracy": 0.5', '"accuracy": 0.7'),
        ('"sha256": "', '"sha256": "0'),
        ('"sha256"', '"sha257"'),
    ):
        assert before in text
        run.record_file.write_text(text.replace(before, after, 1))
        with pytest.raises(RunError, match=r"record\.json is damaged"):
            run.read_record()


def test_a_record_of_an_earlier_version_has_no_checksum(run: RunDirectory) -> None:
    run.path.mkdir()
    run.record_file.write_text(record().model_dump_json(indent=2))
    assert run.read_record() == record()


def test_a_run_without_a_record_is_not_finished(run: RunDirectory) -> None:
    with pytest.raises(RunError, match=r"is not finished: ctrobust train --resume --out "):
        run.read_record()


@pytest.mark.parametrize("content", [b"", b'{"results": ', b"\xff", b"{}", b"[]", b"null"])
def test_a_damaged_record_is_refused(run: RunDirectory, content: bytes) -> None:
    run.path.mkdir()
    run.record_file.write_bytes(content)
    with pytest.raises(RunError, match=r"record\.json is damaged"):
        run.read_record()


def lines(count: int) -> list[dict[str, float]]:
    return [{"epoch": epoch, "loss": 1 / epoch} for epoch in range(1, count + 1)]


def with_metrics(run: RunDirectory, count: int) -> None:
    run.path.mkdir()
    for line in lines(count):
        run.add_metrics(line)


def test_metrics_are_appended(run: RunDirectory) -> None:
    assert run.read_metrics() == []
    with_metrics(run, 3)
    assert run.read_metrics() == lines(3)
    assert len(run.metrics_file.read_text().splitlines()) == 3


@pytest.mark.parametrize("cut", range(1, 20))
def test_a_last_line_cut_off_is_left_out_and_made_anew(run: RunDirectory, cut: int) -> None:
    with_metrics(run, 3)
    content = run.metrics_file.read_bytes()
    run.metrics_file.write_bytes(content[:-cut])
    assert run.read_metrics() == lines(2 if cut > 1 else 3)  # the first byte cut off is the line's end
    run.truncate_metrics(2)
    run.add_metrics(lines(3)[-1])
    assert run.metrics_file.read_bytes() == content


@pytest.mark.parametrize("epoch", [0, 1, 2, 3])
def test_metrics_after_the_checkpoint_are_forgotten(run: RunDirectory, epoch: int) -> None:
    with_metrics(run, 3)
    run.truncate_metrics(epoch)
    assert run.read_metrics() == lines(min(epoch, 3))


@pytest.mark.parametrize(
    "line",
    [
        b"?", b"", b"[]", b"null", b"3", b"{}", b'{"epoch": "2"}', b'{"epoch": true}', b'{"epoch": 1}', b"\xff\xfe",
        b"[" * 100_000, b'{"epoch": ' + b"9" * 5000 + b"}",
    ],
    ids=lambda line: line[:12],
)  # fmt: skip
def test_a_damaged_line_costs_no_other_line_and_the_file_is_kept(run: RunDirectory, line: bytes) -> None:
    with_metrics(run, 4)
    first, _, *others = run.metrics_file.read_bytes().splitlines()
    content = b"\n".join([first, line, *others, b""])
    run.metrics_file.write_bytes(content)
    kept = [lines(4)[0], lines(4)[2], lines(4)[3]]
    assert run.read_metrics() == kept
    with pytest.warns(UserWarning, match="metrics") as warned:
        run.truncate_metrics(3)
    assert [str(one.message).removeprefix(f"{run.metrics_file} has ") for one in warned] == [
        "1 damaged line; it is kept as metrics.jsonl.damaged-1", "no line for epoch 2, and none is made",
    ]  # fmt: skip
    assert run.read_metrics() == kept[:2]
    assert run.metrics_file.with_name("metrics.jsonl.damaged-1").read_bytes() == content


def test_missing_metrics_are_warned_of(run: RunDirectory) -> None:
    with_metrics(run, 1)
    with pytest.warns(UserWarning, match=r"metrics\.jsonl has no line for epoch 2, 3, 4, 5, 6 and more, and none"):
        run.truncate_metrics(9)
    assert run.read_metrics() == lines(1)


def test_metrics_that_are_a_folder_are_refused(run: RunDirectory) -> None:
    run.metrics_file.mkdir(parents=True)
    with pytest.raises(RunError, match=r"cannot read .*metrics\.jsonl: Is a directory"):
        run.truncate_metrics(1)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_in_a_run_directory_are_not_waited_for(run: RunDirectory) -> None:
    run.path.mkdir()
    for file in (run.spec_file, run.metrics_file, run.record_file):
        os.mkfifo(file)
    for read in (run.read_spec, run.read_metrics, run.read_record):
        with pytest.raises(RunError, match="it is not a regular file"):
            read()


def test_metrics_that_cannot_be_written_are_told(run: RunDirectory) -> None:
    run.metrics_file.mkdir(parents=True)
    with pytest.raises(RunError, match=r"cannot write .*metrics\.jsonl: Is a directory"):
        run.add_metrics({"epoch": 1})


def test_outcomes_have_a_name_to_read_and_a_hash_to_find(run: RunDirectory) -> None:
    spec = EvaluationSpec(data="digits", attack="pgd:eps=8/255,loss=sce(gamma=5)", weights="0" * 64)
    other = spec.model_copy(update={"limit": 10})
    name = run.outcomes_file(spec).name
    assert name == f"pgd-eps=8-255-loss=sce-gamma=5-{spec_hash(spec)}.npz"
    assert run.outcomes_file(spec).parent == run.path / "outcomes"
    assert run.outcomes_file(other) != run.outcomes_file(spec)


def test_a_place_for_outcomes_is_tried_before_the_work(run: RunDirectory) -> None:
    run.path.mkdir()
    run.check_writable()
    assert (run.path / "outcomes").is_dir()
    (run.path / "outcomes").rmdir()
    (run.path / "outcomes").write_text("in the way")
    with pytest.raises(RunError, match=r"cannot write outcomes to .*outcomes: File exists"):
        run.check_writable()


def test_a_long_attack_has_a_file_name_that_fits(run: RunDirectory) -> None:
    spec = EvaluationSpec(data="digits", attack="pgd:" + "../x" * 500, weights="0" * 64)
    path = run.outcomes_file(spec)
    assert len(path.name) < 120
    assert path.parent == run.path / "outcomes"


def test_the_parts_lie_where_the_design_says() -> None:
    run = RunDirectory(Path("runs/a"))
    files = (run.spec_file, run.metrics_file, run.checkpoint_file, run.model_file, run.record_file)
    assert [str(file.relative_to(run.path)) for file in files] == [
        "spec.json", "metrics.jsonl", "checkpoint/last.safetensors", "model.safetensors", "record.json",
    ]  # fmt: skip


def test_its_place_may_be_text(tmp_path: Path) -> None:
    assert RunDirectory(str(tmp_path)) == RunDirectory(tmp_path)  # type: ignore[arg-type]
    assert RunDirectory(str(tmp_path)).spec_file == tmp_path / "spec.json"  # type: ignore[arg-type]

"""TensorBoard event files hold the metrics of metrics.jsonl."""

from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ctrobust.specs import train_spec
from ctrobust.store import RunDirectory
from ctrobust.training import train, with_tensorboard
from ctrobust.training.training_callback import NoCallback


def test_event_files_hold_the_scalars_of_each_epoch(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    callback = with_tensorboard(NoCallback(), tmp_path / "events")
    assert not (tmp_path / "events").exists()  # the run may still be refused
    train(train_spec({"limit": 64, "epochs": 2, "model": {"width": 8}}), run, callback=callback)
    events = EventAccumulator(str(tmp_path / "events"))
    events.Reload()
    found = [(event.step, event.value) for event in events.Scalars("loss")]
    expected = [(line["step"], line["loss"]) for line in run.read_metrics()]
    assert [step for step, _ in found] == [step for step, _ in expected] == [4, 8]
    assert all(abs(a - b) < 1e-5 for (_, a), (_, b) in zip(found, expected, strict=True))

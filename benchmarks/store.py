"""How long a store of 10,000 runs takes to list, with the time of the processor, which a busy machine does not inflate.

python -m benchmarks.store | tee benchmarks/output/store.txt
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ctrobust.specs import TrainingJob, TrainSpec, describe, spec_hash
from ctrobust.store import JobIndex, RunDirectory, Store

RESULTS = Path(__file__).parents[1] / "results"
RUNS = 10_000
WANTED = 2.0


def fill(root: Path) -> None:
    """Copy the record of one committed run to runs of other seeds."""
    source = next(run for run in Store(RESULTS).runs() if run.record_file.exists())
    record = source.read_record()
    for seed in range(RUNS):
        spec = TrainSpec(seed=seed)
        run = Store(root).directory(spec)
        for folder in (run.outcomes_folder, run.checkpoint_file.parent):
            folder.mkdir(parents=True)
        run.spec_file.write_text(describe(spec))
        run.record_file.write_text(record.model_copy(update={"spec": spec_hash(spec)}).model_dump_json(indent=2))


def timed(name: str, work: Callable[[], object]) -> float:
    wall, processor = time.perf_counter(), time.process_time()
    work()
    seconds = time.process_time() - processor
    print(f"{name}: {seconds:.2f} s of the processor, {time.perf_counter() - wall:.2f} s by the clock")
    return seconds


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        fill(root)
        print(f"{RUNS:,} runs")
        store = Store(root)
        listed: list[RunDirectory] = []
        total = timed("list the run directories", lambda: listed.extend(store.runs()))
        total += timed("read all records", lambda: [run.read_record() for run in listed])
        print(f"records listed in {total:.2f} s of the processor; wanted below {WANTED} s")
        job = TrainingJob(training=TrainSpec(seed=RUNS // 2))
        timed("find a job by its hash", lambda: JobIndex(store).is_done(job))
        timed("find a job again", lambda: JobIndex(store).is_done(job))
        assert len(listed) == RUNS


if __name__ == "__main__":
    main()

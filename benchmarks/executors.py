"""Two workers of one thread against one worker of one thread, on the same jobs.

    python -m benchmarks.executors | tee benchmarks/output/executors.txt

Both run in alternation; the ratio is of the times of one pair. The times include the start of the workers.
"""

import os
import resource
import statistics
import tempfile
import time
from pathlib import Path

from ctrobust.execution import ExecutorSettings, run_locally
from ctrobust.specs import Job, TrainingJob, train_spec
from ctrobust.store import Store

ROUNDS, JOBS = 3, 16
WANTED = 1.7
IDLE_SHARE = 1.7
"""How many CPUs two workers get on an idle machine, at least; with fewer the ratio is that of the machine's load."""


def jobs_of() -> list[Job]:
    """Equal trainings of mnistnet on digits that differ in their seed."""
    return [
        TrainingJob(training=train_spec({"data": "digits", "epochs": 6, "model": {"width": 16}, "seed": seed}))
        for seed in range(JOBS)
    ]


def measure(workers: int) -> tuple[float, float]:
    """The seconds of everything (start of the workers, jobs, end of the workers), and the CPUs that the workers got."""
    with tempfile.TemporaryDirectory() as folder:
        started, before = time.perf_counter(), processor_seconds()
        report = run_locally(jobs_of(), Store(Path(folder)), options=ExecutorSettings(workers=workers))
        assert len(report.done) == JOBS, report.failed
        seconds = time.perf_counter() - started
        return seconds, (processor_seconds() - before) / seconds


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    print(f"{JOBS} trainings on {os.cpu_count()} CPUs; load average before: {os.getloadavg()[0]:.1f}")
    ratios, shares = [], []
    for turn in range(ROUNDS):
        found = {workers: measure(workers) for workers in ((1, 2) if turn % 2 else (2, 1))}
        (one, one_share), (two, two_share) = found[1], found[2]
        ratios.append(one / two)
        shares.append(two_share)
        print(
            f"1 worker {one:.1f} s on {one_share:.2f} CPUs, 2 workers {two:.1f} s on {two_share:.2f} CPUs, "
            f"ratio {ratios[-1]:.2f}",
            flush=True,
        )
    print(f"load average after: {os.getloadavg()[0]:.1f}")
    ratio, share = statistics.median(ratios), statistics.median(shares)
    print(f"median ratio {ratio:.2f}; wanted at least {WANTED}: {'reached' if ratio >= WANTED else 'not reached'}")
    if share < IDLE_SHARE:
        print(f"The machine was busy: 2 workers got {share:.2f} CPUs. Measure again on an idle machine.")


if __name__ == "__main__":
    main()

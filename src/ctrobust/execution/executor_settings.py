"""Where and with how much of a machine jobs run; no option changes a result except the number of threads."""

import os
from dataclasses import dataclass

from ctrobust.errors import InputError


@dataclass(frozen=True)
class ExecutorSettings:
    """The settings of an executor.

    Attributes:
        workers: how many jobs run at a time; None is one per CPU, or as many as the cluster has CPUs and GPUs for.
        threads: the threads of each job.
        nice: the niceness of the worker processes.
        address: of a Ray cluster; None starts one on this machine.
        cpus_per_job: what a job reserves of a Ray cluster; None is one per thread.
        gpus_per_job: likewise; a fraction shares a GPU.
    """

    workers: int | None = None
    threads: int = 1
    nice: int = 0
    address: str | None = None
    cpus_per_job: float | None = None
    gpus_per_job: float = 0.0

    def local_workers(self) -> int:
        """The number of workers on this machine."""
        return self.workers or max(1, (os.cpu_count() or 1) // self.threads)

    def refuse_cluster_settings(self) -> None:
        """Raise if a setting is given that processes on this machine cannot have."""
        given = [
            name
            for name, value in (
                ("address", self.address), ("cpus-per-job", self.cpus_per_job), ("gpus-per-job", self.gpus_per_job)
            )
            if value
        ]  # fmt: skip
        if given:
            raise InputError(f"--{' and --'.join(given)} is for --executor ray; this is --executor local")

"""What a command does before its long numerical work."""

import os

from ctrobust.cli.console import spinner


def load_torch(threads: int | None) -> None:
    """Import torch with this process's settings for threads and memory."""
    # threads that wait for each other give way sooner: on a busy machine a tenth of the time, on an idle one the same
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    with spinner("loading"):
        import torch

        from ctrobust.training import keep_freed_memory

    keep_freed_memory()
    if threads is not None:
        torch.set_num_threads(threads)

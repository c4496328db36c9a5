"""A connection to a Ray cluster: an existing one, or one on this machine for as long as the command runs."""

import contextlib
import io
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from ctrobust.errors import InputError, WorkerStartError

CONNECT_SECONDS = 30
LOCAL_OBJECT_STORE = 80 << 20
"""Bytes; Ray takes no less, and on one machine it transports only jobs, or batches of a few MB."""

LOCAL = "local"
"""The address of a cluster that is started on this machine."""


def import_ray() -> Any:
    """Import Ray without its usage statistics, or explain how to install it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # its warning about a change to come
    try:
        import ray  # after the variables, which it reads
    except ImportError as error:
        raise InputError(f"--executor ray needs Ray ({error}): pip install 'ctrobust[ray]'") from None
    return ray


def cluster_address(given: str | None) -> str:
    """The given address, or that of the environment, or else LOCAL."""
    return given or os.environ.get("RAY_ADDRESS") or LOCAL


@contextlib.contextmanager
def ray_session(address: str, cpus: int) -> Iterator[Any]:
    """Connect to the cluster at an address, or start one with a number of CPUs at LOCAL, and yield the module.

    There is no dashboard, and nothing that Ray prints reaches the user's output.
    """
    ray = import_ray()
    if ray.is_initialized():
        raise InputError("this process is connected to a Ray cluster already; call ray.shutdown() first")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    resources: dict[str, Any] = {}
    if address == LOCAL:
        resources = {"num_cpus": cpus, "object_store_memory": LOCAL_OBJECT_STORE, "include_dashboard": False}
    else:
        _check_reachable(address)
    with contextlib.redirect_stdout(io.StringIO()):  # where Ray reports that a worker died, which is handled here
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **resources)
        except (OSError, RuntimeError, ValueError, ImportError, ray.exceptions.RayError) as error:
            raise WorkerStartError(f"cannot connect to the Ray cluster at {address}: {error}") from None
        finally:
            _restore(handlers)
        try:
            yield ray
        finally:
            ray.shutdown()
            _restore(handlers)


def _restore(handlers: dict[signal.Signals, Any]) -> None:
    """Set the signal handlers that Ray has replaced; only a main thread has them."""
    with contextlib.suppress(ValueError):
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _check_reachable(address: str) -> None:
    """Raise within seconds if no Ray cluster answers: Ray itself would try for many minutes."""
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise InputError(f"--address is HOST:PORT, ray://HOST:PORT or auto; got {address}")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise WorkerStartError(f"cannot connect to the Ray cluster at {address}: {error}") from None
    if address.startswith("ray://"):
        return
    command = [sys.executable, "-m", "ray.scripts.scripts", "status", "--address", address]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=CONNECT_SECONDS)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise WorkerStartError(f"what listens at {address} does not answer as a Ray cluster does") from None
    # a cluster that asks for a token is a cluster: ray.init finds the token, or explains where it belongs
    if done.returncode and "AuthenticationError" not in done.stderr:
        last = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise WorkerStartError(f"cannot connect to the Ray cluster at {address}: {last}")


def count_places(ray: Any, cpus: float, gpus: float = 0.0) -> int:
    """How many workers of this size the cluster's machines have room for; InputError if there is room for none."""
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    places = sum(
        min(
            int(one.get("CPU", 0) / cpus) if cpus else sys.maxsize,
            int(one.get("GPU", 0) / gpus) if gpus else sys.maxsize,
        )
        for one in machines
    )
    if not places:
        has = "; ".join(f"{one.get('CPU', 0):g} CPUs and {one.get('GPU', 0):g} GPUs" for one in machines)
        raise InputError(f"a worker needs {cpus:g} CPUs and {gpus:g} GPUs; the cluster's machines have {has}")
    return places

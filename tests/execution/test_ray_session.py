"""Connections to a Ray cluster."""

import signal
import socket
from collections.abc import Iterator

import pytest

from ctrobust.errors import InputError, WorkerStartError
from ctrobust.execution import ray_session as sessions
from ctrobust.execution.ray_session import LOCAL, cluster_address, ray_session


def connect(address: str) -> None:
    """Connect, and check that the handler of Ctrl-C is as before, however that ends."""
    before = signal.getsignal(signal.SIGINT)
    try:
        with ray_session(address, 1):
            pass
    finally:
        assert signal.getsignal(signal.SIGINT) is before


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.fixture
def silent_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        yield silent.getsockname()[1]


def test_an_address_is_the_given_one_or_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert cluster_address(None) == LOCAL
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert cluster_address(None) == "10.0.0.1:6379"
    assert cluster_address("auto") == "auto"


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:", "127.0.0.1:port"])
def test_a_wrong_address_is_explained(address: str) -> None:
    with pytest.raises(InputError, match=f"--address is HOST:PORT, ray://HOST:PORT or auto; got {address}"):
        connect(address)


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nothing_listens_is_refused_at_once(scheme: str, free_port: int) -> None:
    address = f"{scheme}127.0.0.1:{free_port}"
    with pytest.raises(WorkerStartError, match=f"cannot connect to the Ray cluster at {address}: .*refused"):
        connect(address)


@pytest.mark.slow
def test_an_address_of_another_service_is_refused(monkeypatch: pytest.MonkeyPatch, silent_port: int) -> None:
    monkeypatch.setattr(sessions, "CONNECT_SECONDS", 8)
    with pytest.raises(WorkerStartError, match=f"(cluster )?at 127.0.0.1:{silent_port}"):
        connect(f"127.0.0.1:{silent_port}")

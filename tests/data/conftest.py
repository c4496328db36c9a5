"""Tests see no data set of the machine they run on, and write their own; downloads come from a server on loopback."""

import gzip
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctrobust.data import locate
from ctrobust.data.cifar import Cifar
from ctrobust.data.idx import idx_header
from ctrobust.errors import DataError

Write = Callable[..., None]
Answer = Callable[[BaseHTTPRequestHandler], None]


def rewrite(path: Path, content: bytes | bytearray) -> None:
    """Writes over a file in place: emptying it first makes some file systems wait for the disk, thousands of times."""
    with path.open("r+b" if path.exists() else "wb") as file:
        file.write(content)
        file.truncate()


def traced_peak(run: Callable[[], object]) -> int:
    """The most memory that Python and numpy held at once, whether the data were read or refused."""
    tracemalloc.start()
    try:
        run()
    except DataError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """The four places of the look-up, none of them made yet; `$CTROBUST_DATA` is not set."""
    cache = tmp_path / "cache"
    monkeypatch.delenv("CTROBUST_DATA", raising=False)
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: str(cache / name))
    monkeypatch.setattr(locate, "SYSTEM_ROOT", tmp_path / "system")
    return {
        "root": tmp_path / "root",
        "environment": tmp_path / "environment",
        "cache": cache / "ctrobust",
        "system": tmp_path / "system",
    }


@pytest.fixture
def write_split() -> Write:
    """Writes a small split in MNIST's format; image i is filled with i."""

    def write(folder: Path, prefix: str = "train", count: int = 20, *, labels: object = None, gz: bool = True) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        images = np.broadcast_to(np.arange(count, dtype=np.uint8)[:, None, None], (count, 28, 28))
        chosen = np.arange(count, dtype=np.uint8) % 10 if labels is None else np.asarray(labels, dtype=np.uint8)
        for kind, array in (("images-idx3", images), ("labels-idx1", chosen)):
            content = idx_header(array.shape) + array.tobytes()
            name = f"{prefix}-{kind}-ubyte"
            (folder / (f"{name}.gz" if gz else name)).write_bytes(gzip.compress(content) if gz else content)

    return write


@pytest.fixture
def write_cifar() -> Write:
    """Writes small CIFAR files of both splits; image i of a file has the value i everywhere, and the label i."""

    def write(root: Path, published: Cifar, count: int = 4) -> None:
        folder = root / published.folder
        folder.mkdir(parents=True, exist_ok=True)
        for names in published.files.values():
            for name in names:
                records = (bytes([i] * len(published.limits)) + bytes([i]) * 3072 for i in range(count))
                (folder / name).write_bytes(b"".join(records))
        (folder / published.names_file).write_text("\n".join(published.classes) + "\n\n")

    return write


class Server:
    """Answers on loopback; `routes` says how, `sent` counts what endless answers wrote."""

    def __init__(self) -> None:
        self.routes: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.sent = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                answer = server.routes.get(self.path)
                with suppress(ConnectionError):
                    if answer is None:
                        self.send_error(404)
                    else:
                        answer(self)

            def log_message(self, *_args: Any) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, *_args: Any) -> None:
                pass

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}{path}"

    def serve(self, path: str, content: bytes, length: int | None = -1) -> None:
        """Answers with some content; announces its length, another one, or for None none."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            if length is not None:
                handler.send_header("Content-Length", str(len(content) if length < 0 else length))
            handler.end_headers()
            handler.wfile.write(content)

        self.routes[path] = answer

    def redirect(self, path: str, location: str) -> None:
        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(302)
            handler.send_header("Location", location)
            handler.end_headers()

        self.routes[path] = answer

    def endless(self, path: str, block: bytes, pause: float = 0.0) -> None:
        """Answers until the client has enough; after ten seconds the test has failed anyway."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.end_headers()
            end = time.monotonic() + 10
            while time.monotonic() < end:
                handler.wfile.write(block)
                handler.wfile.flush()
                self.sent += len(block)
                time.sleep(pause)

        self.routes[path] = answer

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    running = Server()
    yield running
    running.close()

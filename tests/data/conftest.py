"""Fixtures that hide the machine's data sets, write small ones, and serve downloads on loopback."""

import gzip
import struct
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
from ctrobust.data.published import Published
from ctrobust.errors import DataError

Write = Callable[..., None]
Answer = Callable[[BaseHTTPRequestHandler], None]


def idx_header(shape: tuple[int, ...]) -> bytes:
    """Return the header of an IDX file that holds a uint8 array of this shape."""
    return struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape)


def rewrite(path: Path, content: bytes | bytearray) -> None:
    """Overwrite a file in place, because some file systems wait for the disk when a file is emptied first."""
    with path.open("r+b" if path.exists() else "wb") as file:
        file.write(content)
        file.truncate()


def traced_peak(run: Callable[[], object]) -> int:
    """Return the peak memory of Python and NumPy, whether the data were read or refused."""
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
    """Replace the four searched folders by ones that do not exist yet; `$CTROBUST_DATA` is not set."""
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
    """Write a small split in MNIST's format; image i is filled with i."""

    def write(folder: Path, prefix: str = "train", count: int = 20, *, labels: object = None, gz: bool = True) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        images = np.broadcast_to(np.arange(count, dtype=np.uint8)[:, None, None], (count, 28, 28))
        chosen = np.arange(count, dtype=np.uint8) % 10 if labels is None else np.asarray(labels, dtype=np.uint8)
        for kind, array in (("images-idx3", images), ("labels-idx1", chosen)):
            content = idx_header(array.shape) + array.tobytes()
            name = f"{prefix}-{kind}-ubyte"
            (folder / (f"{name}.gz" if gz else name)).write_bytes(gzip.compress(content) if gz else content)

    return write


def names_file(published: Published) -> str:
    return next(name for name in published.members if name.endswith(".txt"))


@pytest.fixture
def write_cifar() -> Write:
    """Write small CIFAR files of both splits; image i of a file has the value i everywhere, and the label i."""

    def write(root: Path, published: Published, count: int = 4) -> None:
        label_bytes = 2 if published.name == "cifar100" else 1
        folder = root / published.folder
        folder.mkdir(parents=True, exist_ok=True)
        for names in published.files.values():
            for name in names:
                records = (bytes([i] * label_bytes) + bytes([i]) * 3072 for i in range(count))
                (folder / name).write_bytes(b"".join(records))
        (folder / names_file(published)).write_text("\n".join(published.classes) + "\n\n")

    return write


class Server:
    """A server on loopback; `routes` holds the answers by path, `sent` counts the bytes of endless answers."""

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
        """Answer with some content, announcing its length, another length, or for None none."""

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
        """Answer until the client hangs up, or for ten seconds."""

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

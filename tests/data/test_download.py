import hashlib
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from ctrobust.data import download as module
from ctrobust.data.download import download
from ctrobust.data.sources import Remote
from ctrobust.errors import DataError
from tests.data.conftest import Server

CONTENT = bytes(range(256)) * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def remote(*urls: str, size: int = len(CONTENT), sha256: str = SHA256) -> Remote:
    return Remote("data.bin", urls, size, sha256)


def refused(what: Remote, target: Path) -> str:
    """The message, once it is certain that nothing was left behind or changed."""
    before = {path: path.read_bytes() for path in target.parent.iterdir()}
    with pytest.raises(DataError) as caught:
        download(what, target)
    assert {path: path.read_bytes() for path in target.parent.iterdir()} == before
    message = str(caught.value)
    assert f"Put it by hand at {target} ({what.size:,} bytes, SHA-256 {what.sha256})" in message
    return message


@pytest.mark.parametrize("length", [-1, None], ids=["announced", "not announced"])
def test_complete(server: Server, tmp_path: Path, length: int | None) -> None:
    server.serve("/a", CONTENT, length)
    seen: list[tuple[int, int | None]] = []
    download(remote(server.url("/a")), tmp_path / "a", lambda done, total: seen.append((done, total)))
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert seen == sorted(seen)
    assert seen[-1] == (len(CONTENT), len(CONTENT))


def test_what_was_there_is_replaced_only_by_the_right_file(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    server.serve("/a", b"wrong" + CONTENT[5:])
    refused(remote(server.url("/a")), tmp_path / "a")
    server.serve("/a", CONTENT)
    download(remote(server.url("/a")), tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_permissions_are_those_of_any_new_file(server: Server, tmp_path: Path) -> None:
    server.serve("/a", CONTENT)
    download(remote(server.url("/a")), tmp_path / "a")
    (tmp_path / "other").touch()
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize("length", [len(CONTENT), None], ids=["announced", "not announced"])
def test_cut_off(server: Server, tmp_path: Path, length: int | None) -> None:
    server.serve("/a", CONTENT[:100_000], length)
    message = refused(remote(server.url("/a")), tmp_path / "a")
    assert f"{server.url('/a')}: cut off after 100000 bytes, expected 256000" in message


def test_cut_off_inside_a_chunk(server: Server, tmp_path: Path) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"ffff\r\n" + CONTENT[:100])
        handler.close_connection = True

    server.routes["/a"] = answer
    assert "IncompleteRead" in refused(remote(server.url("/a")), tmp_path / "a")


def test_chunks(server: Server, tmp_path: Path) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for first in range(0, len(CONTENT), 50_000):
            part = CONTENT[first : first + 50_000]
            handler.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        handler.wfile.write(b"0\r\n\r\n")
        handler.close_connection = True

    server.routes["/a"] = answer
    download(remote(server.url("/a")), tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_wrong_checksum(server: Server, tmp_path: Path) -> None:
    wrong = CONTENT[:-1] + b"\0"
    server.serve("/a", wrong)
    message = refused(remote(server.url("/a")), tmp_path / "a")
    assert f"the SHA-256 is {hashlib.sha256(wrong).hexdigest()}, expected {SHA256}" in message


def test_404(server: Server, tmp_path: Path) -> None:
    message = refused(remote(server.url("/missing")), tmp_path / "a")
    assert message.startswith(f"data.bin could not be downloaded:\n  {server.url('/missing')}: the server answers 404")


def test_another_announced_size_is_refused_at_once(server: Server, tmp_path: Path) -> None:
    server.serve("/a", CONTENT + b"more")
    assert "256004 bytes are announced, expected 256000" in refused(remote(server.url("/a")), tmp_path / "a")


def test_endless(server: Server, tmp_path: Path) -> None:
    server.endless("/a", bytes(65_536))
    started = time.monotonic()
    assert "more than the expected 256000 bytes came" in refused(remote(server.url("/a")), tmp_path / "a")
    assert time.monotonic() - started < 5
    server.close()
    assert server.sent < 32 << 20  # what fits into the sockets' buffers


def test_silence(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.2)
    server.endless("/a", b"x", pause=2.0)
    assert "nothing came for 0.2 seconds" in refused(remote(server.url("/a")), tmp_path / "a")


def test_a_trickle(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.3)
    server.endless("/a", b"x", pause=0.02)
    message = refused(remote(server.url("/a")), tmp_path / "a")
    assert "bytes came in 0 seconds" in message


def test_nobody_listens(server: Server, tmp_path: Path) -> None:
    url = server.url("/a")
    server.close()
    assert "refused" in refused(remote(url), tmp_path / "a")


def test_what_is_no_http(server: Server, tmp_path: Path) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"\0\1\2\n\n")

    server.routes["/a"] = answer
    assert server.url("/a") in refused(remote(server.url("/a")), tmp_path / "a")


def test_the_second_address_is_tried(server: Server, tmp_path: Path) -> None:
    server.serve("/b", CONTENT)
    download(remote(server.url("/a"), server.url("/b")), tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == CONTENT
    message = refused(remote(server.url("/c"), server.url("/d")), tmp_path / "e")
    assert message.count("the server answers 404") == 2


def test_redirections_stay_within_http(server: Server, tmp_path: Path) -> None:
    server.serve("/b", CONTENT)
    server.redirect("/a", server.url("/b"))
    download(remote(server.url("/a")), tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == CONTENT
    (tmp_path / "secret").write_bytes(CONTENT)
    server.redirect("/c", (tmp_path / "secret").as_uri())
    assert "is not allowed" in refused(remote(server.url("/c")), tmp_path / "d")
    server.redirect("/e", "ftp://127.0.0.1/x")
    assert "ftp" in refused(remote(server.url("/e")), tmp_path / "d")
    server.redirect("/f", server.url("/f"))
    assert "302" in refused(remote(server.url("/f")), tmp_path / "d")
    for url in ((tmp_path / "secret").as_uri(), "data:,x", "no address"):
        assert url in refused(remote(url), tmp_path / "d")


def test_an_interruption_leaves_nothing(server: Server, tmp_path: Path) -> None:
    server.serve("/a", CONTENT)

    def interrupt(_done: int, _total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(remote(server.url("/a")), tmp_path / "a", interrupt)
    assert not list(tmp_path.iterdir())


def test_a_disk_that_cannot_be_written_is_not_the_server_s_fault(server: Server, tmp_path: Path) -> None:
    server.serve("/a", CONTENT)
    with pytest.raises(FileNotFoundError):
        download(remote(server.url("/a")), tmp_path / "no folder" / "a")
    assert not server.asked

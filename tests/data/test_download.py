import hashlib
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from ctrobust.data.download import download
from ctrobust.data.published import Download
from ctrobust.errors import DataError
from tests.data.conftest import Server

CONTENT = bytes(range(256)) * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def remote(*urls: str, size: int = len(CONTENT), sha256: str = SHA256) -> Download:
    return Download("data.bin", urls, size, sha256)


def refused(file: Download, target: Path) -> str:
    """Return the error message of a download that leaves and changes nothing."""
    before = {path: path.read_bytes() for path in target.parent.iterdir()}
    with pytest.raises(DataError) as caught:
        download(file, target)
    assert {path: path.read_bytes() for path in target.parent.iterdir()} == before
    message = str(caught.value)
    assert f"Put it by hand at {target} ({file.size:,} bytes, SHA-256 {file.sha256})" in message
    return message


@pytest.mark.parametrize("length", [-1, None], ids=["announced", "not announced"])
def test_a_complete_download(server: Server, tmp_path: Path, length: int | None) -> None:
    server.serve("/a", CONTENT, length)
    seen: list[tuple[int, int | None]] = []
    download(remote(server.url("/a")), tmp_path / "a", lambda done, total: seen.append((done, total)))
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert seen == sorted(seen)
    assert seen[-1] == (len(CONTENT), len(CONTENT))


def test_an_existing_file_is_replaced_only_by_the_right_one(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    server.serve("/a", b"wrong" + CONTENT[5:])
    refused(remote(server.url("/a")), tmp_path / "a")
    server.serve("/a", CONTENT)
    download(remote(server.url("/a")), tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == CONTENT


def test_permissions_are_the_usual_ones(server: Server, tmp_path: Path) -> None:
    server.serve("/a", CONTENT)
    download(remote(server.url("/a")), tmp_path / "a")
    (tmp_path / "other").touch()
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize("length", [len(CONTENT), None], ids=["announced", "not announced"])
def test_a_download_that_is_cut_off(server: Server, tmp_path: Path, length: int | None) -> None:
    server.serve("/a", CONTENT[:100_000], length)
    message = refused(remote(server.url("/a")), tmp_path / "a")
    expected = (
        "cut off after 100000 bytes, expected 256000" if length is None else "100000 bytes read, 156000 more expected"
    )
    assert server.url("/a") in message
    assert expected in message


def test_a_download_that_is_cut_off_inside_a_chunk(server: Server, tmp_path: Path) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"ffff\r\n" + CONTENT[:100])
        handler.close_connection = True

    server.routes["/a"] = answer
    assert "IncompleteRead" in refused(remote(server.url("/a")), tmp_path / "a")


def test_a_chunked_download(server: Server, tmp_path: Path) -> None:
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


def test_a_wrong_checksum(server: Server, tmp_path: Path) -> None:
    wrong = CONTENT[:-1] + b"\0"
    server.serve("/a", wrong)
    message = refused(remote(server.url("/a")), tmp_path / "a")
    assert f"expected {SHA256} but got {hashlib.sha256(wrong).hexdigest()}" in message


def test_a_missing_file_on_the_server(server: Server, tmp_path: Path) -> None:
    message = refused(remote(server.url("/missing")), tmp_path / "a")
    assert message.startswith(f"data.bin could not be downloaded:\n  {server.url('/missing')}: 404 ")


def test_another_announced_size_is_refused_at_once(server: Server, tmp_path: Path) -> None:
    server.serve("/a", CONTENT + b"more")
    assert "256004 bytes are announced, expected 256000" in refused(remote(server.url("/a")), tmp_path / "a")


def test_an_endless_download_is_refused_at_the_published_size(server: Server, tmp_path: Path) -> None:
    server.endless("/a", bytes(65_536))
    started = time.monotonic()
    assert "more than the expected 256000 bytes were sent" in refused(remote(server.url("/a")), tmp_path / "a")
    assert time.monotonic() - started < 5
    server.close()
    assert server.sent < 32 << 20  # what fits into the sockets' buffers


def test_a_server_that_stops_sending(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctrobust.data.download.TIMEOUT", 0.2)
    server.endless("/a", b"x", pause=2.0)
    assert "timed out" in refused(remote(server.url("/a")), tmp_path / "a")


def test_a_server_that_sends_too_slowly(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctrobust.data.download.PATIENCE", 0.3)
    server.endless("/a", b"x", pause=0.02)
    message = refused(remote(server.url("/a")), tmp_path / "a")
    assert "bytes were sent in 0 seconds" in message


def test_a_refused_connection(server: Server, tmp_path: Path) -> None:
    url = server.url("/a")
    server.close()
    assert "refused" in refused(remote(url), tmp_path / "a")


def test_an_answer_that_is_not_http(server: Server, tmp_path: Path) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"\0\1\2\n\n")

    server.routes["/a"] = answer
    assert server.url("/a") in refused(remote(server.url("/a")), tmp_path / "a")


def test_the_second_mirror_is_tried(server: Server, tmp_path: Path) -> None:
    server.serve("/b", CONTENT)
    download(remote(server.url("/a"), server.url("/b")), tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == CONTENT
    message = refused(remote(server.url("/c"), server.url("/d")), tmp_path / "e")
    assert message.count(": 404 ") == 2


def test_redirections_stay_within_http(server: Server, tmp_path: Path) -> None:
    server.serve("/b", CONTENT)
    server.redirect("/a", server.url("/b"))
    download(remote(server.url("/a")), tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == CONTENT
    (tmp_path / "secret").write_bytes(CONTENT)
    server.redirect("/c", (tmp_path / "secret").as_uri())
    assert "No connection adapters" in refused(remote(server.url("/c")), tmp_path / "d")
    server.redirect("/e", "ftp://127.0.0.1/x")
    assert "ftp" in refused(remote(server.url("/e")), tmp_path / "d")
    server.redirect("/f", server.url("/f"))
    assert "30 redirects" in refused(remote(server.url("/f")), tmp_path / "d")
    for url in ((tmp_path / "secret").as_uri(), "data:,x", "no address"):
        assert url in refused(remote(url), tmp_path / "d")


def test_an_interrupted_download_leaves_nothing(server: Server, tmp_path: Path) -> None:
    server.serve("/a", CONTENT)

    def interrupt(_done: int, _total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(remote(server.url("/a")), tmp_path / "a", interrupt)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_an_os_error(server: Server, tmp_path: Path) -> None:
    server.serve("/a", CONTENT)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        download(remote(server.url("/a")), tmp_path / "file" / "a")
    assert not server.asked

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ctrobust.data.idx import read_idx
from ctrobust.errors import DataError
from tests.data.conftest import idx_header, rewrite, traced_peak

VALID = idx_header((2, 3)) + bytes(range(6))
ZIPPED = gzip.compress(VALID, mtime=0)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("idx")


@given(hnp.arrays(np.uint8, hnp.array_shapes(min_dims=1, max_dims=4, max_side=5)), st.booleans())
@settings(max_examples=50, deadline=None)
def test_written_arrays_are_read(scratch: Path, array: np.ndarray, zipped: bool) -> None:
    content = idx_header(array.shape) + array.tobytes()
    path = scratch / ("round.gz" if zipped else "round")
    path.write_bytes(gzip.compress(content) if zipped else content)
    read = read_idx(str(path), at_most=array.shape)
    assert read.dtype == np.uint8
    assert read.shape == array.shape
    assert np.array_equal(read, array)


MALFORMED = {
    "empty": (b"", "a", "is empty"),
    "empty gz": (b"", "a.gz", "is empty"),
    "gzip of nothing": (gzip.compress(b""), "a.gz", "is empty"),
    "three bytes": (VALID[:3], "a", "is not an IDX file: it starts with bytes 00 00 08, expected 00 00 08 and"),
    "wrong magic": (b"\x01" + VALID[1:], "a", "it starts with bytes 01 00 08 02, expected 00 00 08"),
    "text": (b"<html>not found</html>", "a.gz", "gzip data is damaged.*Not a gzipped file .*<h"),
    "plain IDX named gz": (VALID, "a.gz", "gzip data is damaged.*Not a gzipped file"),
    "gzip not named gz": (ZIPPED, "a", "it starts with bytes 1f 8b 08 00.*its name must end in .gz"),
    "float32": (b"\0\0\x0d\x01" + VALID[4:], "a", "type code 0x0d, expected 0x08"),
    "no dimensions": (b"\0\0\x08\x00" + VALID[4:], "a", "0 dimensions, expected 1 to 4"),
    "255 dimensions": (b"\0\0\x08\xff" + VALID[4:], "a", "255 dimensions, expected 1 to 4"),
    "sizes cut short": (VALID[:9], "a", "is cut short: 5 bytes of sizes, expected 8"),
    "no images": (idx_header((0, 28, 28)), "a", "declares 0 x 28 x 28 values, expected at least one"),
    "values cut short": (VALID[:-1], "a", "is cut short: 5 bytes of values, expected 2 x 3 = 6"),
    "values cut short, zipped": (gzip.compress(VALID[:-2]), "a.gz", "is cut short: 4 bytes of values"),
    "trailing byte": (VALID + b"\0", "a", "is too long: bytes follow the 2 x 3 = 6 values"),
    "trailing byte, zipped": (gzip.compress(VALID + b"\0"), "a.gz", "is too long: bytes follow the 2 x 3 = 6"),
    "trailing garbage after gzip": (ZIPPED + b"garbage", "a.gz", "gzip data is damaged, .* followed by other bytes"),
    "gzip cut short": (ZIPPED[:-9], "a.gz", "gzip data is damaged, cut short"),
    "gzip header cut short": (ZIPPED[:5], "a.gz", "gzip data is damaged, cut short"),
    "gzip CRC": (ZIPPED[:-8] + b"\0\0\0\0" + ZIPPED[-4:], "a.gz", "gzip data is damaged.*CRC"),
    "gzip length": (ZIPPED[:-4] + b"\xff\0\0\0", "a.gz", "gzip data is damaged.*length"),
    "gzip block": (ZIPPED[:10] + b"\xff\xff" + ZIPPED[12:], "a.gz", "gzip data is damaged.*Error -3"),
    "2 GB in 100 bytes": (idx_header((2_000_000_000,)) + bytes(92), "a", "92 bytes of values, expected 2000000000 ="),
    "2^128 bytes": (idx_header((2**32 - 1,) * 4) + bytes(80), "a", "is cut short: 80 bytes of values"),
}


@pytest.mark.parametrize(("content", "name", "message"), MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_files_are_refused_by_name(tmp_path: Path, content: bytes, name: str, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_idx(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    for path, message in ((tmp_path, "is a folder"), (tmp_path / "none", "does not exist"), ("a\0b", "does not exist")):
        with pytest.raises(DataError, match=message):
            read_idx(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_refused_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="is not a regular file"):
        read_idx(tmp_path / "pipe")


def test_a_file_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(VALID)
    if os.name == "posix" and os.geteuid() != 0:
        (tmp_path / "a").chmod(0)
    else:  # root may read everything

        def refuse(self: Path, mode: str) -> None:
            raise PermissionError(13, "Permission denied", f"{self} {mode}")

        monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match="a cannot be read: Permission denied"):
        read_idx(tmp_path / "a")


@pytest.mark.parametrize(
    ("at_most", "message"),
    [((1, 3), "declares 2 x 3 values, expected at most 1 x 3"), ((6,), "at most 6"), ((2, 3, 1), "at most 2 x 3 x 1")],
)
def test_larger_sizes_than_expected_are_refused(tmp_path: Path, at_most: tuple[int, ...], message: str) -> None:
    (tmp_path / "a").write_bytes(VALID)
    assert read_idx(tmp_path / "a", at_most=(2, 4)).shape == (2, 3)
    with pytest.raises(DataError, match=message):
        read_idx(tmp_path / "a", at_most=at_most)


def test_memory_follows_the_contents_and_not_the_header(tmp_path: Path) -> None:
    size = 8 << 20
    honest, boasting, bomb = tmp_path / "honest.gz", tmp_path / "boasting.gz", tmp_path / "bomb.gz"
    honest.write_bytes(gzip.compress(idx_header((size,)) + bytes(size)))
    boasting.write_bytes(gzip.compress(idx_header((2**31,)) + bytes(100)))
    bomb.write_bytes(gzip.compress(idx_header((100,)) + bytes(4 * size)))
    read_idx(honest)  # imports and caches
    assert traced_peak(lambda: read_idx(honest)) < 2.2 * size
    assert traced_peak(lambda: read_idx(boasting)) < 2 << 20
    assert traced_peak(lambda: read_idx(bomb)) < 2 << 20


HEADERS = [
    VALID[:12],
    idx_header((3,)),
    idx_header((2**31, 2)),
    idx_header((1, 1, 2, 2)),
    b"\0\0\x08",
    b"\0\0\x0d\x01",
    b"",
]


@given(
    st.sampled_from(HEADERS),
    st.binary(max_size=40),
    st.sampled_from(["plain", "zipped", "zipped and damaged"]),
    st.integers(0, 80),
    st.integers(0, 255),
)
@settings(max_examples=500, deadline=None, database=None)
def test_random_bytes_are_read_or_refused(
    scratch: Path, header: bytes, body: bytes, form: str, place: int, value: int
) -> None:
    content = header + body
    stored = bytearray(content if form == "plain" else gzip.compress(content, compresslevel=1, mtime=0))
    if form == "zipped and damaged":
        stored[place % len(stored)] = value
    path = scratch / ("garbage" if form == "plain" else "garbage.gz")
    rewrite(path, stored)
    try:
        array = read_idx(path)
    except DataError:
        return
    assert array.dtype == np.uint8
    assert idx_header(array.shape) + array.tobytes() == content  # a gzip header has bytes that may change freely

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrobust.data.npz import load_npz
from ctrobust.errors import DataError
from tests.data.conftest import rewrite, traced_peak


def npy(header: str, values: bytes = b"", version: int = 1, length: int | None = None) -> bytes:
    size = len(header) if length is None else length
    return (
        b"\x93NUMPY"
        + bytes([version, 0])
        + struct.pack("<H" if version == 1 else "<I", size)
        + header.encode()
        + values
    )


def zipped(entries: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return file.getvalue()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("npz")


HEADER = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2, 2), }"
LABELS = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }", b"\0\1")
ONE = {"labels.npy": LABELS, "images.npy": npy(HEADER, bytes(8))}
MALFORMED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is not an .npz file or is damaged"),
    "text": (b"<html>not found</html>", "is not an .npz file or is damaged"),
    "plain array": (ONE["images.npy"], "is not an .npz file or is damaged"),
    "no values": (zipped(ONE | {"images.npy": npy(HEADER)}), r"images is uint8 \(2, 2, 2\), 8 bytes, but .* holds 0"),
    "cut short": (zipped(ONE | {"images.npy": npy(HEADER, bytes(7))}), "images is .* 8 bytes, but the file holds 7"),
    "trailing": (zipped(ONE | {"images.npy": npy(HEADER, bytes(9))}), "images is .* 8 bytes, but the file holds 9"),
    "zip cut short": (zipped(ONE)[:-30], "is not an .npz file or is damaged"),
    "zip begun": (zipped(ONE)[:100], "is not an .npz file or is damaged"),
    "2 GB": (
        zipped(ONE | {"images.npy": npy(HEADER.replace("(2, 2, 2)", "(2, 2**30)"), bytes(99))}),
        "images is not a readable array",
    ),
    "2 GB in 100 bytes": (
        zipped(ONE | {"images.npy": npy(HEADER.replace("(2, 2, 2)", "(2000000000,)"), bytes(99))}),
        r"images is uint8 \(2000000000\), 2000000000 bytes, but the file holds 99",
    ),
    "magic": (zipped(ONE | {"images.npy": b"NUMPY" + bytes(80)}), "images is not a readable array .*magic"),
    "magic cut": (zipped(ONE | {"images.npy": b"\x93NUM"}), "images is not a readable array .*magic"),
    "version": (zipped(ONE | {"images.npy": npy(HEADER, bytes(8), version=4)}), "is damaged .*version"),
    "long header": (zipped(ONE | {"images.npy": npy("", length=20_000)}), "images is not a readable array"),
    "header cut": (
        zipped(ONE | {"images.npy": npy("{'descr'", length=90)}),
        "images is not a readable array .*expected 90 bytes got 8",
    ),
    "no dictionary": (zipped(ONE | {"images.npy": npy("{'descr'")}), "images is not a readable array"),
    "code": (zipped(ONE | {"images.npy": npy("__import__('os').getcwd()")}), "images is not a readable array"),
    "deep": (zipped(ONE | {"images.npy": npy("(" * 9000)}), "images is not a readable array"),
    "minus": (zipped(ONE | {"images.npy": npy("-" * 9000 + "1")}), "images is not a readable array"),
    "a list": (zipped(ONE | {"images.npy": npy("[1, 2]")}), "images is not a readable array"),
    "no shape": (zipped(ONE | {"images.npy": npy("{'descr': '|u1'}")}), "images is not a readable array"),
    "negative size": (zipped(ONE | {"images.npy": npy(HEADER.replace("2)", "-2)"))}), r"images is uint8 \(2, 2, -2\)"),
    "bool size": (zipped(ONE | {"images.npy": npy(HEADER.replace("2)", "True)"))}), r"images is"),
    "many sizes": (zipped(ONE | {"images.npy": npy(HEADER.replace("2)", "2," * 30 + "2)"))}), "images is"),
    "order": (
        zipped(ONE | {"images.npy": npy(HEADER.replace("False", "0"))}),
        "images is not a readable array .*fortran_order",
    ),
    "odd type": (
        zipped(ONE | {"images.npy": npy(HEADER.replace("|u1", "|u3"))}),
        "images is not a readable array .*u3",
    ),
    "object": (
        zipped(ONE | {"images.npy": npy(HEADER.replace("|u1", "|O"), b"\x80\x04.")}),
        "Python objects are never read",
    ),
    "another file": (zipped(ONE | {"readme.txt": b"hello"}), "an entry 'readme.txt' of another kind, expected arrays"),
    "method": (zipped(ONE, zipfile.ZIP_BZIP2), "labels.npy is encrypted or compressed in another way"),
}


@pytest.mark.parametrize(("content", "message"), MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        load_npz(f"npz:{path}", "train")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_header_versions_and_key_orders(tmp_path: Path, version: int) -> None:
    header = "{'shape':(2,2,2),'fortran_order':False,'descr':'|u1'}\n"
    (tmp_path / "a.npz").write_bytes(zipped(ONE | {"images.npy": npy(header, bytes(range(8)), version)}))
    assert load_npz(f"npz:{tmp_path / 'a.npz'}", "train").images.shape == (2, 1, 2, 2)


def test_an_entry_twice_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("labels.npy", LABELS)
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("labels.npy", LABELS)
    with pytest.raises(DataError, match=r"an entry 'labels.npy' twice, expected arrays NAME.npy, each once"):
        load_npz(f"npz:{tmp_path / 'a.npz'}", "train")


def test_an_encrypted_entry_is_refused(tmp_path: Path) -> None:
    content = bytearray(zipped(ONE))
    content[content.index(b"PK\1\2") + 8] |= 1
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"labels.npy is encrypted"):
        load_npz(f"npz:{tmp_path / 'a.npz'}", "train")


def test_a_damaged_byte_fails_the_checksum(tmp_path: Path) -> None:
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        content = bytearray(zipped(ONE, method))
        content[content.index(b"PK\1\2") - 8] ^= 0x55  # of the images, the last entry
        (tmp_path / "a.npz").write_bytes(content)
        with pytest.raises(DataError, match=r"a.npz"):
            load_npz(f"npz:{tmp_path / 'a.npz'}", "train")


def test_the_declared_bytes_are_limited(tmp_path: Path) -> None:
    name = f"npz:{tmp_path / 'a.npz'}"
    np.savez_compressed(tmp_path / "a.npz", images=np.zeros((100, 100, 100), np.uint8), labels=np.zeros(100, int))
    assert len(load_npz(name, "train")) == 100
    with pytest.raises(DataError, match=r"the arrays take 1,001,\d\d\d bytes, expected at most 1,000,000"):
        load_npz(name, "train", limit=1_000_000)


def test_failing_memory_and_disks_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.npz").write_bytes(zipped(ONE))
    for error, message in (
        (MemoryError(), r"a.npz: the arrays do not fit into memory"),
        (OSError(5, "Input/output error"), r"a.npz cannot be read: Input/output error"),
    ):

        def fail(*_args: object, error: BaseException = error, **_options: object) -> None:
            raise error

        monkeypatch.setattr(np.lib.format, "read_array", fail)
        with pytest.raises(DataError, match=message):
            load_npz(f"npz:{tmp_path / 'a.npz'}", "train")


def test_memory_follows_the_contents_and_not_the_declared_size(tmp_path: Path) -> None:
    declared = 2_000_000_000
    header = HEADER.replace("(2, 2, 2)", f"(2, {declared // 2}, 1)")
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        content = bytearray(zipped(ONE | {"images.npy": npy(header, bytes(100))}, method))
        entry = content.rindex(b"PK\1\2")
        total = declared + len(header) + 10
        struct.pack_into("<I", content, entry + 24, total)
        if method == zipfile.ZIP_STORED:
            struct.pack_into("<I", content, entry + 20, total)
        (tmp_path / "a.npz").write_bytes(content)
        with pytest.raises(DataError, match=r"a.npz"):
            load_npz(f"npz:{tmp_path / 'a.npz'}", "train")
        assert traced_peak(lambda: load_npz(f"npz:{tmp_path / 'a.npz'}", "train")) < 4 << 20


def test_a_zip_directory_of_megabytes_is_refused(tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(20_000):
            archive.writestr(f"array{number}.npy", b"")
    (tmp_path / "a.npz").write_bytes(file.getvalue())
    with pytest.raises(DataError, match=r"the zip directory takes more than 1,048,576 bytes"):
        load_npz(f"npz:{tmp_path / 'a.npz'}", "train")
    assert traced_peak(lambda: load_npz(f"npz:{tmp_path / 'a.npz'}", "train")) < 4 << 20


NAMES = npy("{'descr': '<U1', 'fortran_order': False, 'shape': (2,), }", "ab".encode("utf-32-le"))
VALID = [
    zipped(ONE),
    zipped(ONE, zipfile.ZIP_DEFLATED),
    zipped(ONE | {"classes.npy": NAMES}),
    zipped({f"{key}_{part}.npy": ONE[f"{key}.npy"] for key in ("images", "labels") for part in ("train", "test")}),
]
HEADERS = [
    HEADER,
    HEADER.replace("|u1", "<U2"),
    HEADER.replace("2,", "9,"),
    HEADER[:20],
    "(" * 50,
    "{}",
    "'\\d'",
    "-" * 80,
]


@given(
    st.one_of(
        st.sampled_from(VALID),
        st.builds(
            lambda header, body, version: zipped(ONE | {"images.npy": npy(header, body, version)}),
            st.sampled_from(HEADERS),
            st.binary(max_size=20),
            st.integers(0, 4),
        ),
        st.binary(max_size=100),
    ),
    st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=4),
    st.integers(0, 40),
    st.binary(max_size=10),
    st.sampled_from(["train", "test"]),
)
@settings(max_examples=500, deadline=None, database=None)
def test_random_bytes_are_read_or_refused(
    scratch: Path, content: bytes, damage: list[tuple[int, int]], cut: int, tail: bytes, split: str
) -> None:
    stored = bytearray(content if cut > 5 else content[: len(content) - cut]) + tail
    for place, value in damage:
        if stored:
            stored[place % len(stored)] = value
    path = scratch / "garbage.npz"
    rewrite(path, stored)
    try:
        data = load_npz(f"npz:{path}", split)
    except DataError as error:
        named = str(path) in str(error)
    else:
        assert data.images.shape[0] == len(data.labels) <= 2
        assert data.images.dtype == torch.uint8
        return
    assert named

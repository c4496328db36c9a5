import io
import os
import struct
import time
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from ctrobust.data import pictures
from ctrobust.data.pictures import Facts, Failure, decode, each, inspect
from tests.data.conftest import rewrite

LOSSLESS = {"PNG": {}, "WEBP": {"lossless": True}}
COLORS = np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pictures")


@pytest.mark.parametrize("kind", LOSSLESS)
def test_lossless_pixels_are_unchanged(tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "a")
    Image.fromarray(COLORS).save(path, kind, **LOSSLESS[kind])
    assert inspect(path) == Facts(6, 9, grayscale=False)
    assert np.array_equal(decode(path, 6, 9, 3), COLORS.transpose(2, 0, 1))


def test_jpeg(tmp_path: Path) -> None:
    path = str(tmp_path / "a.jpg")
    smooth = np.linspace(0, 255, 64 * 64 * 3).reshape(64, 64, 3).astype(np.uint8)
    Image.fromarray(smooth).save(path, quality=95)
    assert inspect(path) == Facts(64, 64, grayscale=False)
    assert np.abs(decode(path, 64, 64, 3).astype(int) - smooth.transpose(2, 0, 1)).max() <= 8


@pytest.mark.parametrize(
    ("mode", "grayscale"),
    [("1", True), ("L", True), ("LA", True), ("I;16", True), ("P", False), ("RGB", False), ("RGBA", False)],
)
def test_grayscale_and_color_are_distinguished(tmp_path: Path, mode: str, grayscale: bool) -> None:
    path = str(tmp_path / "a.png")
    Image.new(mode, (3, 2)).save(path)
    assert inspect(path) == Facts(2, 3, grayscale)
    assert decode(path, 2, 3, 3).shape == (3, 2, 3)
    assert decode(path, 2, 3, 1).shape == (1, 2, 3)


def test_sixteen_bits_keep_the_high_byte(tmp_path: Path) -> None:
    path = str(tmp_path / "a.png")
    Image.fromarray(np.array([[0, 255, 256, 40_000, 65_535]], np.uint16)).save(path)
    assert decode(path, 1, 5, 1).tolist() == [[[0, 0, 1, 156, 255]]]


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_pixels_become_white(tmp_path: Path, mode: str) -> None:
    path = str(tmp_path / "a.png")
    image = Image.new("RGBA", (2, 1), (0, 0, 0, 0))
    image.putpixel((1, 0), (80, 80, 80, 255))
    if mode == "P":
        image.convert("RGB").quantize(2).save(path, transparency=image.convert("RGB").quantize(2).getpixel((0, 0)))
    else:
        image.convert(mode).save(path)
    assert decode(path, 1, 2, 3)[:, 0].tolist() == [[255, 80]] * 3


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_applied(tmp_path: Path, orientation: int) -> None:
    path = str(tmp_path / "a.png")
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(COLORS).save(path, exif=exif)
    turned = {
        1: COLORS,
        2: COLORS[:, ::-1],
        3: COLORS[::-1, ::-1],
        4: COLORS[::-1],
        5: COLORS.transpose(1, 0, 2),
        6: np.rot90(COLORS, -1),
        7: COLORS[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(COLORS),
    }[orientation]
    height, width = turned.shape[:2]
    assert inspect(path) == Facts(height, width, grayscale=False)
    assert np.array_equal(decode(path, height, width, 3), turned.transpose(2, 0, 1))


def test_pictures_are_cropped_around_the_center(tmp_path: Path) -> None:
    path = str(tmp_path / "a.png")
    stripes = np.zeros((20, 60, 3), np.uint8)
    stripes[:, 20:40] = 200
    Image.fromarray(stripes).save(path)
    fitted = decode(path, 10, 10, 3)
    assert (fitted[:, :, 2:-2] == 200).all()
    assert fitted.min() > 150  # the filter reaches over the edge
    assert decode(path, 40, 40, 1).shape == (1, 40, 40)


def test_a_large_jpeg_is_reduced_while_it_is_decoded(tmp_path: Path) -> None:
    path = str(tmp_path / "a.jpg")
    gradient = np.broadcast_to(np.linspace(0, 255, 800)[None, :, None], (800, 800, 3)).astype(np.uint8)
    Image.fromarray(gradient).save(path, quality=95)
    means = gradient.reshape(32, 25, 32, 25, 3).mean((1, 3)).transpose(2, 0, 1)
    assert np.abs(decode(path, 32, 32, 3) - means).max() < 4


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA", "P", "1", "I;16"])
@pytest.mark.parametrize("orientation", [1, 6])
def test_a_large_picture_is_reduced_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, orientation: int
) -> None:
    path, exif = str(tmp_path / "a.png"), Image.Exif()
    exif[0x0112] = orientation
    rows, columns = np.mgrid[:230, :170]
    if mode == "I;16":
        image = Image.fromarray((rows * 250).astype(np.uint16))
    else:
        channels = [rows, columns, 255 - rows, np.where(columns < 85, 255, 128)]
        image = Image.fromarray(np.stack(channels, -1).astype(np.uint8), "RGBA").convert(mode)
    image.save(path, exif=exif)
    usual = decode(path, 16, 16, 3).astype(int)
    monkeypatch.setattr(pictures, "LARGE", 1000)
    monkeypatch.setattr(pictures, "_BAND", 1000)
    reduced = decode(path, 16, 16, 3)
    assert reduced.shape == usual.shape
    # Dithering puts black beside white, and edges of the reduced picture are averages of a part of a block.
    assert np.abs(reduced - usual).mean() < (8 if mode == "1" else 2)


def test_large_pictures_are_decoded_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running: list[int] = []
    most = 0
    reduce = pictures._reduced

    def counted(image: Image.Image, *arguments: Any) -> Image.Image:
        nonlocal most
        running.append(1)
        most = max(most, len(running))
        time.sleep(0.01)
        found = reduce(image, *arguments)
        running.pop()
        return found

    monkeypatch.setattr(pictures, "LARGE", 10)
    monkeypatch.setattr(pictures, "_reduced", counted)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    paths = [str(tmp_path / f"{number}.png") for number in range(8)]
    for path in paths:
        Image.fromarray(COLORS).save(path)
    assert not any(isinstance(one, Failure) for one in each(partial(decode, height=2, width=2, channels=3), paths))
    assert most == 1


def test_an_animation_gives_its_first_frame(tmp_path: Path) -> None:
    path = str(tmp_path / "a.webp")
    frames = [Image.new("RGB", (4, 4), color) for color in ("red", "blue")]
    frames[0].save(path, save_all=True, append_images=frames[1:], lossless=True)
    assert decode(path, 4, 4, 3)[:, 0, 0].tolist() == [255, 0, 0]


def test_failures_are_returned_in_order(tmp_path: Path) -> None:
    good, cut, text, bomb = (str(tmp_path / name) for name in ("good.png", "cut.png", "text.png", "bomb.png"))
    Image.fromarray(COLORS).save(good)
    Path(cut).write_bytes(Path(good).read_bytes()[:-60])
    Path(text).write_text("not a picture")
    write_png_header(Path(bomb), 10_000, 10_000)
    results = list(each(partial(decode, height=6, width=9, channels=3), [good, cut, text, bomb, good, str(tmp_path)]))
    assert isinstance(results[0], np.ndarray)
    assert isinstance(results[4], np.ndarray)
    reasons = [result.reason for result in results if isinstance(result, Failure)]
    assert "truncated" in reasons[0]
    assert "cannot identify image file" in reasons[1]
    assert str(tmp_path) not in reasons[1]
    assert reasons[2] == "10000 x 10000 pixels, expected at most 89,478,485 in all"
    assert reasons[3] == "is missing or not a regular file"


def test_a_decompression_bomb_is_a_failure(tmp_path: Path) -> None:
    write_png_header(tmp_path / "a.png", 30_000, 30_000)
    (result,) = each(inspect, [str(tmp_path / "a.png")])
    assert isinstance(result, Failure)
    assert "decompression bomb" in result.reason


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.png")
    assert list(each(inspect, [str(tmp_path / "a.png")])) == [Failure("is missing or not a regular file")]


def test_other_formats_are_refused(tmp_path: Path) -> None:
    Image.fromarray(COLORS).save(tmp_path / "a.png", "BMP")
    (result,) = each(inspect, [str(tmp_path / "a.png")])
    assert isinstance(result, Failure)


def test_many_pictures_are_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "_BLOCK", 3)
    paths = []
    for number in range(8):
        paths.append(str(tmp_path / f"{number}.png"))
        Image.new("L", (number + 1, 1)).save(paths[-1])
    assert [fact.width for fact in each(inspect, paths) if isinstance(fact, Facts)] == list(range(1, 9))


def write_png_header(path: Path, width: int, height: int) -> None:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    )


def saved(kind: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(COLORS).save(file, kind)
    return file.getvalue()


SAVED = [saved(kind) for kind in pictures.FORMATS]


@given(
    st.sampled_from(SAVED), st.lists(st.tuples(st.integers(0, 999), st.integers(0, 255)), max_size=5), st.integers(0, 9)
)
@settings(max_examples=300, deadline=None, database=None)
def test_random_bytes_are_a_picture_or_a_failure(
    scratch: Path, content: bytes, damage: list[tuple[int, int]], cut: int
) -> None:
    stored = bytearray(content[: len(content) - cut])
    for place, value in damage:
        stored[place % len(stored)] = value
    path = scratch / "garbage.png"
    rewrite(path, stored)
    (result,) = each(partial(decode, height=4, width=4, channels=3), [str(path)])
    assert isinstance(result, Failure) or result.shape == (3, 4, 4)

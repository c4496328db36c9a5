"""A contact sheet: clean images, magnified perturbations, attacked images, and what the model makes of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from ctrobust.outcomes import AttackedImages

SIDE, BAR_WIDTH, BAR_HEIGHT, GAP = 128, 150, 15, 10
TOP_CLASSES = 4
INK, MUTED, BROKEN, PAPER = "#1b1b1b", "#5f5f5f", "#b34700", "#ffffff"
RIGHT, WRONG, LINE = "#9ecae8", "#f6c08a", "#8a8a8a"
"""Blue is the label and orange any other class, which colour-blind readers can tell apart."""


def contact_sheet(images: AttackedImages, columns: int = 2) -> Image.Image:
    """Draw one card per example, `columns` beside each other.

    A card has the clean image, the perturbation magnified to the full range, and the attacked image; below each image
    are the most probable classes with their probabilities, and a line at the confidence threshold 1/(C-1).
    """
    font, small = ImageFont.load_default(13), ImageFont.load_default(11)
    card_width = 3 * BAR_WIDTH + 4 * GAP
    card_height = 34 + SIDE + TOP_CLASSES * (BAR_HEIGHT + 4) + 2 * GAP
    rows = -(-len(images) // columns)
    sheet = Image.new("RGB", (columns * card_width + GAP, rows * card_height + 52), PAPER)
    draw = ImageDraw.Draw(sheet)
    scale = _magnification(images)
    draw.text((GAP, GAP), _printable(images.attack), INK, font)
    threshold = f"1/{images.probabilities.shape[1] - 1}"
    legend = f"blue: the label; orange: other classes; dashed line: confidence threshold {threshold}"
    draw.text((GAP, GAP + 18), f"perturbation magnified {scale:.0f} times; {legend}", MUTED, small)
    for number in range(len(images)):
        left = GAP + (number % columns) * card_width
        _card(sheet, draw, images, number, left, 48 + number // columns * card_height, scale, (font, small))
    return sheet


def _card(
    sheet: Image.Image,
    draw: ImageDraw.ImageDraw,
    images: AttackedImages,
    number: int,
    left: int,
    top: int,
    scale: float,
    fonts: tuple[Any, Any],
) -> None:
    label = int(images.labels[number])
    state = "broken" if images.broken[number] else "robust"
    title = f"example {images.positions[number]}: {_printable(images.classes[label])}, {state}"
    draw.text((left, top), title, BROKEN if state == "broken" else INK, fonts[0])
    change = np.clip(0.5 + scale / 2 * (images.attacked[number] - images.clean[number]), 0, 1)
    pictures = (images.clean[number], change, images.attacked[number])
    for place, (name, pixels) in enumerate(zip(("clean", "perturbation", "attacked"), pictures, strict=True)):
        x = left + place * (BAR_WIDTH + GAP)
        sheet.paste(as_picture(pixels).resize((SIDE, SIDE), Image.Resampling.NEAREST), (x, top + 34))
        draw.text((x, top + 18), name, MUTED, fonts[1])
    for place, probabilities in ((0, images.clean_probabilities[number]), (2, images.probabilities[number])):
        x, y = left + place * (BAR_WIDTH + GAP), top + 38 + SIDE
        _bars(draw, probabilities, label, images.classes, x, y, fonts[1])


def _bars(
    draw: ImageDraw.ImageDraw,
    probabilities: NDArray[np.floating[Any]],
    label: int,
    classes: Sequence[str],
    left: int,
    top: int,
    font: Any,
) -> None:
    """The most probable classes as bars of their probability, and the confidence threshold across them."""
    shown = np.argsort(-probabilities, kind="stable")[:TOP_CLASSES]
    for place, number in enumerate(shown.tolist()):
        y = top + place * (BAR_HEIGHT + 4)
        length = max(1, round(float(probabilities[number]) * BAR_WIDTH))
        draw.rectangle((left, y, left + length, y + BAR_HEIGHT), RIGHT if number == label else WRONG)
    at = left + round(BAR_WIDTH / (len(probabilities) - 1))
    for y in range(top - 2, top + len(shown) * (BAR_HEIGHT + 4), 5):
        draw.line((at, y, at, y + 2), LINE)
    for place, number in enumerate(shown.tolist()):
        text = f"{100 * float(probabilities[number]):.1f}% {_printable(classes[number])}"
        draw.text((left + 3, top + place * (BAR_HEIGHT + 4)), text[:24], INK, font)


def _magnification(images: AttackedImages) -> float:
    """By how much the largest change of a pixel can be magnified."""
    largest = float(np.abs(images.attacked - images.clean).max())
    return 1 / largest if largest > 0 else 1.0


def as_picture(pixels: NDArray[np.floating[Any]]) -> Image.Image:
    """An image (C, H, W) in [0, 1] as 8-bit RGB; one channel is grey, and of more than three the first are shown."""
    channels = pixels[:3] if len(pixels) >= 3 else np.repeat(pixels[:1], 3, axis=0)
    return Image.fromarray(np.rint(255 * channels.transpose(1, 2, 0)).astype(np.uint8), "RGB")


def _printable(text: str) -> str:
    """A text with control characters escaped."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)

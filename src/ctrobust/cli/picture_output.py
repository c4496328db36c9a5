"""`ctrobust evaluate --pictures` and `--save-images`: attacked images that people can look at and others can load."""

import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ctrobust.cli.console import print_line, print_paragraph
from ctrobust.errors import InputError
from ctrobust.store import write_atomic

if TYPE_CHECKING:
    from ctrobust.execution import EvaluationRow, SavedImages
    from ctrobust.outcomes import AttackedImages


def check_picture_options(attacks: int, pictures: int | None, folder: Path | None) -> None:
    """Refuse options that need attacks, before anything runs."""
    if pictures is not None and not attacks:
        raise InputError("--pictures needs an attack: name one with --attack")
    if folder is not None and attacks != 1:
        raise InputError(f"--save-images is for one attack; got {attacks}")


def write_contact_sheet(row: "EvaluationRow", images: "AttackedImages") -> None:
    """Write the contact sheet of an attack and print where it is."""
    print_line(f"pictures: {save_contact_sheet(row, images)}")


def save_contact_sheet(row: "EvaluationRow", images: "AttackedImages") -> Path:
    """Write the contact sheet of an attack into its run, or into the working directory if there is no run."""
    from ctrobust.reporting.contact_sheet import contact_sheet

    buffer = io.BytesIO()
    contact_sheet(images).save(buffer, "PNG")
    if row.file is not None:
        file = row.file.parents[1] / "artifacts" / f"pictures-{row.file.stem}.png"
    else:
        file = Path(f"pictures-{re.sub('[^a-z0-9.=-]+', '-', row.attack.lower())}.png")
    write_atomic(file, buffer.getvalue())
    return file


def print_saved_images(saved: "SavedImages") -> None:
    """Print how many attacked images were saved, and how many rounding has repaired."""
    lost = f"; {len(saved.lost)} are classified correctly after rounding to 8 bits and were not saved"
    print_paragraph(f"{saved.saved:,} attacked images in {saved.folder}{lost if saved.lost else ''}")

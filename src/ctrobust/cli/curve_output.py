"""`ctrobust evaluate --eps 1/255..16/255`: accuracy against the radius of attacks."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctrobust.cli.console import print_line, print_paragraph
from ctrobust.cli.tables import percent, print_results
from ctrobust.errors import InputError
from ctrobust.outcomes.curve import worst_curve
from ctrobust.outcomes.intervals import wilson
from ctrobust.specs import is_range, parse_range
from ctrobust.specs.attack_text import format_number

if TYPE_CHECKING:
    from ctrobust.data import Dataset
    from ctrobust.execution import CurveRow
    from ctrobust.outcomes import RobustnessCurve

ALL = "all attacks"
SHOWN_QUANTILES = {0.1: "10%", 0.5: "half", 0.9: "90%"}


def curve_radii(eps: Sequence[str]) -> list[float] | None:
    """The radii of a curve if a range was given, else None."""
    if not any(map(is_range, eps)):
        return None
    if len(eps) > 1:
        raise InputError(f"a curve has one range of radii; got --eps {', --eps '.join(eps)}")
    return parse_range(eps[0])


def print_curves(run: Path, data: "Dataset", rows: "Sequence[CurveRow]") -> None:
    """Print one line a radius with a column for each attack, and the radii that break the images."""
    curves = {_short_name(row.curve): row.curve for row in rows}
    if len(curves) > 1:
        curves[ALL] = worst_curve(list(curves.values()))
    first = rows[0].curve
    print_line(f"{run} on {data.name} ({data.split}{'' if data.verified else ', unverified'}), {len(first):,} images")
    clean = wilson(round(first.accuracy * len(first)), len(first))
    print_line(f"accuracy {percent(first.accuracy, clean)}")
    lines = [
        [format_number(radius), *(percent(one.robust_accuracies[k], one.intervals[k]) for one in curves.values())]
        for k, radius in enumerate(first.radii.tolist())
    ]
    print_results(["eps", *curves], lines)
    for name, curve in curves.items():
        print_paragraph(f"smallest radius that breaks an image, {name}: {_quantiles(curve)}", "  ")
    print_paragraph(
        "An image that is broken at one radius is broken at every larger one. Quantiles are over the images that are "
        "classified correctly without an attack.",
    )
    for row in rows:
        if row.file is not None:
            print_line(f"{'found' if row.seconds is None else 'stored'} in {row.file}")


def _short_name(curve: "RobustnessCurve") -> str:
    """The attack without its radius, which is another in each line."""
    name, _, fields = curve.attack.partition(":")
    kept = [field for field in fields.split(",") if field and not field.startswith("eps=")]
    return f"{name}:{','.join(kept)}" if kept else name


def _quantiles(curve: "RobustnessCurve") -> str:
    grey = format_number(curve.radii[0]).endswith("/255")  # as the range was written

    def text(radius: float) -> str:
        return f"{255 * radius:.3g}/255" if grey else f"{radius:.3g}"

    texts = []
    for quantile, share in SHOWN_QUANTILES.items():
        low, high = curve.minimal_radius(quantile)
        if high == float("inf"):
            texts.append(f"fewer than {share} are broken")
            break
        texts.append(f"{share} by {text(high)}" + (f" (more than {text(low)})" if low > 0 else ""))
    return ", ".join(texts)


def curves_json(run: Path, data: "Dataset", rows: "Sequence[CurveRow]") -> str:
    """All figures as JSON."""
    curves = [row.curve for row in rows]
    document: dict[str, Any] = {
        "run": str(run),
        "data": {"name": data.name, "split": data.split, "verified": data.verified, "count": len(curves[0])},
        "curves": [
            {
                "attack": row.curve.attack,
                **row.curve.summary(),
                "seconds": row.seconds,
                "file": None if row.file is None else str(row.file),
            }
            for row in rows
        ],
    }
    if len(curves) > 1:
        document["worst_case"] = worst_curve(curves).summary()
    return json.dumps(document, indent=2)

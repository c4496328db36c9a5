"""The report: one HTML file with tables, charts and their data, which asks the network for nothing."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ctrobust._version import __version__
from ctrobust.errors import InputError, RunError
from ctrobust.reporting.page_records import RecordBook
from ctrobust.reporting.page_sections import SectionView, section_view, series_styles
from ctrobust.reporting.page_views import FigureView
from ctrobust.reporting.record_tables import evaluations_table, paper_table
from ctrobust.reporting.report_models import Model, group_models
from ctrobust.reporting.report_runs import read_runs
from ctrobust.reporting.report_sections import make_sections
from ctrobust.store import write_atomic

TEMPLATES = Path(__file__).parent / "templates"

GENERATOR = "ctrobust report"
"""The content of the page's <meta name="generator">, by which an older report is known."""


@dataclass(frozen=True)
class Page:
    """A finished page.

    Attributes:
        html: the whole file.
        runs, evaluations: how many it shows.
        problems: one sentence for each file that could not be read.
    """

    html: str
    runs: int
    evaluations: int
    problems: Sequence[str]


def make_page(paths: Sequence[Path], title: str | None = None) -> Page:
    """Make the report of run directories, or of directories that contain them; the same files give the same page."""
    reading = read_runs(paths)
    models = group_models(reading.runs)
    numbers = {model: number for number, model in enumerate(models)}
    records = RecordBook(models)
    sections = [
        section_view(section, f"data-{number}", records, reading, numbers)
        for number, section in enumerate(make_sections(models))
    ]
    context = {
        "title": title or f"Robustness of {len(models)} models",
        "version": __version__,
        "generator": GENERATOR,
        "sections": sections,
        "models": models,
        "runs": reading.runs,
        "evaluations_count": len(records.evaluations),
        "evaluations": evaluations_table(models, records, numbers.__getitem__) if records.evaluations else None,
        "paper": paper_table(models, records, numbers.__getitem__),
        "problems": reading.problems,
        "styles": series_styles(len(models)),
    }
    html = _render(context, _payload(sections, records, models, numbers))
    return Page(html, len(reading.runs), len(records.evaluations), reading.problems)


def _payload(
    sections: Sequence[SectionView], records: RecordBook, models: Sequence[Model], numbers: Mapping[Model, int]
) -> dict[str, Any]:
    """What the script reads: specifications of the charts, their data, and the records."""
    from ctrobust.reporting.page_charts import chart_specification, page_configuration

    figures: list[FigureView] = [figure for section in sections for figure in section.all_figures]
    styles = series_styles(len(models))
    return {
        "specifications": {kind: chart_specification(kind) for kind in dict.fromkeys(one.kind for one in figures)},
        "configuration": page_configuration(),
        "figures": {one.name: {"kind": one.kind, **one.data} for one in figures},
        "series": {model.name: styles[numbers[model]].fields for model in models},
        **records.content(),
    }


@lru_cache(maxsize=1)
def _chart_library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script, from the installed package."""
    import vl_convert

    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def _render(context: dict[str, Any], payload: dict[str, Any]) -> str:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    scripts = [_script(_chart_library()), _script((TEMPLATES / "page.js").read_text(encoding="utf-8"))]
    early = _script((TEMPLATES / "theme.js").read_text(encoding="utf-8"))
    allowed = " ".join(f"'sha256-{_digest(one)}'" for one in (early, *scripts))
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {allowed} 'unsafe-eval'"
    return environment.get_template("page.html.j2").render(
        **context,
        policy=policy,
        style=(TEMPLATES / "page.css").read_text(encoding="utf-8"),
        early_script=early,
        scripts=scripts,
        payload=_json(payload),
    )


def _script(text: str) -> str:
    """A script that may be put into a page: no part of it ends the element."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _json(content: Any) -> str:
    """JSON that may be put into a page: no character of it opens or closes an element."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def write_page(page: Page, out: Path) -> None:
    """Write the page atomically."""
    write_atomic(out, page.html.encode())


def check_target(out: Path, *, force: bool = False) -> None:
    """Refuse to replace a file that is not a report, unless `force`."""
    if out.is_dir():
        raise InputError(f"{out} is a directory; -o names the file to write, such as {out / 'report.html'}")
    if out.exists() and not force and not _is_report(out):
        raise InputError(f"{out} exists and is not a report of ctrobust; --force replaces it")


def _is_report(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return f'<meta name="generator" content="{GENERATOR}'.encode() in file.read(4096)
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}") from None

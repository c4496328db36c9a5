"""The page: one file, complete, escaped, the same for the same runs."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctrobust.errors import InputError
from ctrobust.reporting.page import Page, check_target, make_page, write_page
from ctrobust.store import write_arrays
from tests.reporting.made_runs import add_evaluations, make_run
from tests.reporting.test_masking_views import write_verdict_file

RESULTS = Path(__file__).parents[2] / "results"
NASTY = "<script>alert(1)</script>"
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000 1f15c4890000000d49444154789c636060606000000005"
    "0001a5f645400000000049454e44ae426082".replace(" ", "")
)


class Document(HTMLParser):
    """Elements with their attributes, ids, and the text of each script."""

    VOID = ("meta", "link", "input", "img", "br", "path")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data

    def having(self, attribute: str) -> list[str]:
        return [value for _, found in self.elements if (value := found.get(attribute)) is not None]

    @property
    def payload(self) -> dict[str, Any]:
        place = [index for index, (tag, _) in enumerate(self.elements) if tag == "script"]
        number = next(i for i, index in enumerate(place) if self.elements[index][1].get("id") == "payload")
        found: dict[str, Any] = json.loads(self.scripts[number])
        return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs")
    make_page_runs(path)
    return path


def make_page_runs(path: Path) -> None:
    """Three models, one with two seeds, several radii, a verdict, an embedding, a picture, and names that attack."""
    classes = (NASTY, "b&b", '"quoted"', "four")
    sweep = [("fgsm:eps=4/255", 0.8), ("fgsm:eps=8/255", 0.7), ("pgd:eps=8/255", 0.5), ("pgd:eps=8/255,loss=std", 0.45)]
    for seed in (0, 1):
        make_run(path / f"fast{seed}", {"seed": seed}, attacks=sweep, classes=classes, draw_seed=seed, collapsed=True)
    first = make_run(path / "<img src=x onerror=alert(2)>", {"lr": 0.5}, attacks=sweep, classes=classes, draw_seed=5)
    write_verdict_file(first.path, "masked", eps=8 / 255)
    artifacts = first.path / "artifacts"
    artifacts.mkdir()
    stem = next(file.stem for file in first.outcomes_folder.glob("pgd*std*.npz"))
    (artifacts / f"pictures-{stem}.png").write_bytes(PIXEL)
    random = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        "points": random.normal(size=(40, 2)), "labels": random.integers(4, size=40),
        "logits": random.normal(size=(40, 4)).astype(np.float32),
    }  # fmt: skip
    write_arrays(artifacts / "tsne-0123.npz", arrays)
    add_evaluations(first, "digits", [("autoattack:eps=8/255", 0.3)], count=60, classes=classes, draw_seed=5)
    make_run(path / "unfinished", {"lr": 0.9}, finished=False)


@pytest.fixture(scope="module")
def page(runs: Path) -> Page:
    return make_page([runs], title=f"Runs of {NASTY}")


@pytest.fixture(scope="module")
def document(page: Page) -> Document:
    return Document(page.html)


def test_elements_are_closed_ids_unique_and_links_lead_somewhere(document: Document) -> None:
    assert document.open == []
    ids = document.having("id")
    assert len(ids) == len(set(ids))
    targets = [link.removeprefix("#") for link in document.having("href") if link.startswith("#")]
    referred = [name for value in document.having("aria-labelledby") for name in value.split()]
    assert len(targets) > 5
    assert set(targets + referred + document.having("data-table")) <= set(ids)


def test_nothing_is_fetched(page: Page, document: Document) -> None:
    links = [value for name in ("src", "href", "action", "poster") for value in document.having(name)]
    assert all(link.startswith(("#", "data:")) for link in links)
    assert not re.search(r"url\(|@import", page.html.split("<style>")[1].split("</style>")[0])


def test_scripts_are_allowed_by_their_hash_and_no_other_is(document: Document) -> None:
    (policy,) = [found["content"] for tag, found in document.elements if found.get("http-equiv")]
    assert policy is not None
    kinds = [found.get("type") for tag, found in document.elements if tag == "script"]
    run = [text for text, kind in zip(document.scripts, kinds, strict=True) if kind is None]
    digests = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in run}
    assert len(run) == 3
    assert sum(len(text) > 200_000 for text in run) == 1  # one copy of the chart library
    assert digests == set(re.findall("'sha256-([^']+)'", policy))
    assert "default-src 'none'" in policy
    assert "script-src 'unsafe-inline'" not in policy
    assert not [name for _, found in document.elements for name in found if name.startswith("on")]


def test_names_are_escaped_everywhere(page: Page, document: Document) -> None:
    assert "<script>alert" not in page.html
    assert "<img src=x" not in page.html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.html
    assert "b&amp;b" in page.html
    assert len(document.scripts) == 4
    confusion = [one for one in document.payload["figures"].values() if one["kind"] == "confusion"]
    assert confusion[0]["rows"]["values"][0][:2] == [NASTY, NASTY]


def test_every_figure_has_a_specification_data_and_a_table(document: Document) -> None:
    payload = document.payload
    figures = document.having("data-figure")
    assert set(figures) == set(payload["figures"])
    kinds = {one["kind"] for one in payload["figures"].values()}
    assert kinds == set(payload["specifications"]) == {
        "tradeoff", "profile", "levels", "loss", "training", "confidence", "wrong", "sweep", "above", "rank",
        "confusion", "fragile", "tsne",
    }  # fmt: skip
    assert all(one["rows"]["values"] for one in payload["figures"].values())
    assert {f"{name}-table" for name in figures} <= set(document.having("id"))


def test_charts_name_fields_that_their_rows_have(document: Document) -> None:
    payload = document.payload
    style = {"colour", "dash", "shape"}
    for figure in payload["figures"].values():
        text = json.dumps(payload["specifications"][figure["kind"]])
        named = set(re.findall(r'"field": "([^"]+)"', text)) | set(re.findall(r"datum\.(\w+)", text))
        assert named <= {*figure["rows"]["fields"], *figure["marks"]["fields"], *style, "seed", "model"}, figure["kind"]


def test_every_number_leads_to_a_record_with_spec_seed_environment_and_command(document: Document) -> None:
    payload = document.payload
    keys = [key for value in document.having("data-records") for key in value.split()]
    assert set(keys) <= {*payload["runs"], *payload["evaluations"]}
    assert {key for key in keys if key.startswith("e")} == set(payload["evaluations"])
    for one in payload["evaluations"].values():
        assert one["command"].startswith("ctrobust evaluate ")
        assert ["commit", "0123456789ab"] in payload["environments"][one["environment"]]
        assert payload["runs"][one["run"]]["command"].startswith("ctrobust train ")
    seeds = [dict(one["facts"])["seed"] for one in payload["runs"].values()]
    assert sorted(seeds) == ["0", "0", "0", "1"]
    assert all(["recipe.name", "natural"] in one["spec"] for one in payload["runs"].values())


def test_the_worst_case_the_verdict_and_the_picture_are_there(page: Page, document: Document) -> None:
    assert "worst case" in page.html
    assert '<span class="badge bad">masked</span>' in page.html
    assert "Noise breaks 9 of 64 &lt;images&gt;." in page.html
    (picture,) = [found for tag, found in document.elements if tag == "img"]
    assert str(picture["src"]).startswith("data:image/png;base64,")
    assert (picture["width"], picture["height"]) == ("1", "1")
    assert "Attacked images: S-PGD within L∞ 8/255" in page.html
    assert "unfinished is not finished: 2 of 2 epochs." in page.html


def test_radii_of_a_curve_are_drawn_and_are_no_columns(document: Document, page: Page) -> None:
    assert "Attacks at several radii are drawn below." in page.html
    head = page.html.partition('<table id="data-0-results"')[2].partition("</thead>")[0]
    assert "within L∞ 8/255, 120 images" in head
    assert "4/255" not in head
    (curve,) = [one for one in document.payload["figures"].values() if one["kind"] == "levels"]
    radii = [row[curve["rows"]["fields"].index("eps")] for row in curve["rows"]["values"]]
    assert sorted(set(radii)) == [0, 4, 8]


def test_the_same_runs_make_the_same_page(runs: Path, page: Page) -> None:
    assert make_page([runs], title=f"Runs of {NASTY}").html == page.html


def test_results_that_are_committed_fit_and_stand_beside_the_paper() -> None:
    found = make_page([RESULTS])
    assert found.problems == []
    assert len(found.html.encode()) < 8e6
    assert "MDL, MNISTNet Cyclic FM" in found.html
    assert "67.4, 73.5, 67.9" in found.html
    assert "cifar-fast-g2, seed 0, overfitted catastrophically in 4 of 10 epochs" in found.html


def test_no_torch_is_loaded(runs: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from ctrobust.reporting.page import make_page; "
        f"make_page([Path({str(runs)!r})]); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["False"]


def test_damaged_files_are_named_and_the_page_is_made(runs: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(runs / "fast0", copy)
    next((copy / "outcomes").glob("pgd*.npz")).write_bytes(b"x")
    (copy / "artifacts").mkdir()
    (copy / "artifacts" / "tsne-0.npz").write_bytes(b"x")
    (copy / "artifacts" / "pictures.png").write_bytes(b"x")
    found = make_page([copy])
    assert len(found.problems) == 3
    assert 'id="problems"' in found.html


def test_an_older_report_is_replaced_and_another_file_is_not(page: Page, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    check_target(out)
    write_page(page, out)
    check_target(out)
    out.write_text("<html>mine</html>")
    with pytest.raises(InputError, match="exists and is not a report of ctrobust; --force replaces it"):
        check_target(out)
    check_target(out, force=True)
    with pytest.raises(InputError, match="is a directory; -o names the file to write"):
        check_target(tmp_path)


@pytest.mark.slow
def test_a_thousand_records_in_ten_seconds(tmp_path: Path) -> None:
    """Processor seconds: the machine may do other things at the same time."""
    attacks = [(f"{kind}:eps={eps}/255", 1 - eps / 10) for kind in ("fgsm", "pgd", "apgd") for eps in (2, 4, 8)]
    classes = [str(number) for number in range(10)]
    for number in range(100):
        fields = {"lr": 0.01 + number / 1000}
        make_run(tmp_path / f"run{number}", fields, attacks=attacks, count=1000, classes=classes, draw_seed=number)
    began = time.process_time()
    found = make_page([tmp_path])
    assert time.process_time() - began < 10
    assert (found.runs, found.evaluations) == (100, 1000)
    assert len(found.html) < 8e6
    assert "The charts show 24 of 100 models" in found.html

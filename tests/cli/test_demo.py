"""`ctrobust demo`."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Terminal, ctrobust, plain

pytestmark = pytest.mark.slow


@pytest.mark.timeout(900)
def test_demo(tmp_path: Path, environment: dict[str, str], terminal: Callable[..., Terminal]) -> None:
    """Interrupt the demo by Ctrl-C in its second epoch, run it again, and let it finish."""
    metrics = tmp_path / "out" / "dropout" / "metrics.jsonl"
    shown = terminal("demo --out out")
    shown.until(lambda: metrics.exists() and metrics.read_text().count("\n") >= 1)
    assert shown.interrupt() == 130
    seen = plain(shown.text)
    assert re.search(r"train dropout .*━.* \d+% epoch \d loss \d\.\d{4} 0:\d\d:\d\d ETA \d:\d\d:\d\d", seen)
    assert re.search(r"interrupted: stopped at step \d+; the state is saved in out/dropout", seen)
    assert "resume with:\n\n  ctrobust demo --out out" in seen
    assert "Traceback" not in seen
    assert not (tmp_path / "out" / "dropout" / "record.json").exists()
    finished = metrics.read_text().count("\n")

    code, out, err = ctrobust("demo --out out", tmp_path, environment)
    assert code == 0, err
    assert "\x1b" not in out + err
    assert re.findall(r"train dropout: epoch (\d+)", err) == [str(epoch) for epoch in range(finished + 1, 11)]
    for method in ("mdl", "fast-at", "fast-at+ctr"):
        assert len(re.findall(rf"train {re.escape(method)}: epoch", err)) == 10
    assert "digits, 355 test images, attacks within 0.1; 95% intervals" in out
    for method in ("dropout", "mdl", "fast-at", "fast-at+ctr"):
        (row,) = [line for line in out.splitlines() if line.split()[:1] == [method]]
        accuracy, fgsm, pgd, s_pgd, apgd = (float(value) for value in re.findall(r"(\d+\.\d)% \[", row))
        assert accuracy >= 95
        assert 0 < fgsm < accuracy
        assert max(pgd, s_pgd) < fgsm
        assert (apgd > 50) is method.startswith("fast-at")
        run = tmp_path / "out" / method
        assert {path.name for path in run.iterdir()} >= {
            "spec.json", "metrics.jsonl", "model.safetensors", "record.json", "outcomes",
        }  # fmt: skip
        lines: list[dict[str, Any]] = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        assert [line["epoch"] for line in lines] == list(range(1, 11))
        attacks = [file for file in (run / "outcomes").glob("*.npz") if not file.name.startswith("none-")]
        assert len(attacks) == 6
        assert len(list((run / "artifacts").glob("tsne-*.npz"))) == 1
        assert len(list((run / "artifacts").glob("pictures-pgd-*.png"))) == 1
        record = json.loads((run / "record.json").read_text())
        assert f"{100 * record['results']['accuracy']:.1f}" == f"{accuracy:.1f}"
    assert "5 of 14 masking tests were run, the nearly free ones" in out
    assert "all tests: ctrobust evaluate out/dropout --verdict --eps 0.1" in out
    assert "run directories: out/dropout, out/mdl, out/fast-at, out/fast-at+ctr" in out
    assert re.search(r"report: out/report.html \(1\.\d MB, 4 runs, 32 evaluations\); open it in a browser", out)
    page = tmp_path / "out" / "report.html"
    assert page.stat().st_size < 4e6
    html = page.read_text(encoding="utf-8")
    assert "fast-at+ctr" in html
    assert html.count("Attacked images: PGD within") == 3 * 4  # titles, names and text alternatives
    assert html.count("Logits in two dimensions</h4>") == 4
    assert "PGD of growing strength</h4>" in html

"""`ctrobust data` and `ctrobust list`, as a user calls them."""

import sys
from pathlib import Path

import numpy as np
import pytest

from ctrobust import cli


def run_command(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["ctrobust", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out, err = capfd.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("attacks", ["fgsm", "pgd", "s-pgd", "pgd-sce"]),
        ("models", ["mnistnet", "vgg16", "resnet18", "resnet50"]),
        ("losses", ["ce", "std", "focal", "skl"]),
        ("methods", ["dropout", "mdl", "online-label-smoothing+mdl"]),
        ("recipes", ["natural"]),
        ("regularizers", ["dropout", "dropconnect", "dropblock", "disout"]),
        ("data", ["digits", "fashion-mnist", "cifar10", "cifar100", "mnist"]),
    ],
)
def test_list(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str, names: list[str]) -> None:
    code, out, _ = run_command(capfd, monkeypatch, "list", kind)
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert code == 0
    for name in names:
        assert len(lines[name].split()) > 1, name


def test_list_of_an_unknown_kind(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, _, err = run_command(capfd, monkeypatch, "list", "atacks")
    assert code == 2
    assert "unknown kind 'atacks'; did you mean 'attacks'? known: attacks, data" in err


def test_data_list_and_check(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CTROBUST_DATA", str(tmp_path))
    code, out, _ = run_command(capfd, monkeypatch, "data", "list")
    assert code == 0
    assert all(name in out for name in ("digits", "cifar10", "cifar100", "fashion-mnist", "folder", "npz"))
    (digits,) = [line for line in out.splitlines() if line.strip().startswith("digits")]
    assert digits.split()[-2:] == ["embedded", "yes"]
    code, out, _ = run_command(capfd, monkeypatch, "data", "check", "digits")
    assert code == 0
    assert out.startswith("ok: ")


def test_a_damaged_set_is_an_error(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "images.npz"
    chance = np.random.default_rng(0)
    np.savez(file, images=chance.integers(0, 256, (60, 8, 8), dtype=np.uint8), labels=np.arange(60) % 3)
    code, out, _ = run_command(capfd, monkeypatch, "data", "check", f"npz:{file}")
    assert code == 0
    assert "error" not in out
    file.write_bytes(file.read_bytes()[:200])
    code, out, err = run_command(capfd, monkeypatch, "data", "check", f"npz:{file}")
    assert code == 4
    assert "images.npz" in out + err

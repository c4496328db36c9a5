"""`ctrobust train --model package.module:factory`: networks of a user, trained here."""

import json
from pathlib import Path

import pytest

from tests.cli.command import Done, Inside

NETS = "tests.user_networks"
SHORT = "--limit 64 --epochs 1 --batch-size 16"


@pytest.fixture
def small(inside: Inside) -> Done:
    return inside(f"train --model {NETS}:small {SHORT} --out small")


def test_the_spec_names_the_factory_and_later_commands_need_it(inside: Inside, small: Done, tmp_path: Path) -> None:
    assert small.code == 0, small.err
    assert f"ctrobust evaluate small --model {NETS}:small --attack pgd" in small.out
    spec = json.loads((tmp_path / "small" / "spec.json").read_bytes())
    assert spec["canonical"]["model"] == {"name": f"{NETS}:small", "noise": "none"}
    assert f"small: digits, {NETS}:small, natural, seed 0" in inside("show small").out

    attack = "evaluate small --attack fgsm:eps=0.05 --limit 20"
    for command in (attack, "verify small --sample 2", "train --resume --out small"):
        refused = inside(command)
        assert (refused.code, refused.out) == (2, "")
        assert f"Add to the command:\n  --model {NETS}:small" in refused.err
        accepted = inside(f"{command} --model {NETS}:small")
        assert accepted.code == 0, accepted.err
    other = inside(f"{attack} --model {NETS}:linear")
    assert f"the network was built by {NETS}:small, and --model names {NETS}:linear" in other.err
    assert inside("report small -o page.html").code == 0
    page = (tmp_path / "page.html").read_text()
    assert f"ctrobust train --data digits --model {NETS}:small " in page
    assert f"ctrobust evaluate small --model {NETS}:small --attack fgsm:eps=0.05 --limit 20" in page


def test_a_file_does_not_choose_code(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(f'limit = 64\nepochs = 1\n[model]\nname = "{NETS}:small"\n')
    refused = inside("train --config run.toml --out run")
    assert refused.code == 2
    assert f"Add to the command:\n  --model {NETS}:small" in refused.err
    assert not (tmp_path / "run").exists()
    assert inside(f"train --config run.toml --out run --model {NETS}:small").code == 0
    (tmp_path / "sweep.toml").write_text(
        f'attacks = ["fgsm:eps=0.1"]\n[base.model]\nname = "{NETS}:small"\n[vary]\nlr = [0.1, 0.2]\n'
    )
    swept = inside("sweep sweep.toml --dry-run")
    assert swept.code == 3
    assert "code of your own is run only where the command line names it" in swept.err


@pytest.mark.parametrize("method", ["mdl", "dropconnect+mdl", "multi-sample-dropout"])
def test_methods_put_noise_before_the_last_layer(inside: Inside, method: str) -> None:
    done = inside(f"train --model {NETS}:small --method {method} {SHORT} --out run")
    assert done.code == 0, done.err
    assert f", {method}, seed 0" in inside("show run").out
    assert inside(f"evaluate run --model {NETS}:small --limit 20").code == 0


def test_the_head_may_be_named(inside: Inside, tmp_path: Path) -> None:
    done = inside(f"train --model {NETS}:small --method mdl --head 3 {SHORT} --out run")
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "run" / "spec.json").read_bytes())["canonical"]["model"]["head"] == "3"
    assert inside(f"evaluate run --model {NETS}:small --limit 20").code == 0
    assert inside("report run -o page.html").code == 0


@pytest.mark.parametrize("recipe", ["fast", "free --set recipe.replays=2", "madry", "n-fgsm", "trades"])
def test_adversarial_recipes(inside: Inside, recipe: str) -> None:
    done = inside(f"train --model {NETS}:small --recipe {recipe} --eps 0.05 --limit 32 --epochs 1 --out run")
    assert done.code == 0, done.err


def test_outputs_that_contain_the_logits(inside: Inside) -> None:
    assert inside(f"train --model {NETS}:dicts {SHORT} --out run").code == 0
    assert inside(f"evaluate run --model {NETS}:dicts --attack fgsm:eps=0.05 --limit 20").code == 0


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("two_heads --method mdl", 2, "dropout cannot be put before layer 'second' of"),
        ("dicts --method mdl", 2, "returns dict; dropout needs a network that returns a tensor"),
        ("without_linear --method mdl", 2, "has no linear layer to put dropout before. Name the layer by --head"),
        ("small --method mdl --head fc", 2, "no layer is named 'fc'; the layers are 0, 1"),
        ("small --head 5", 3, "head = '5' is where noise is put, and noise is 'none'"),
        ("small --width 8", 3, "width = 8 is for the networks of ctrobust"),
        ("small --method disout", 3, "maps = disout is for the networks of ctrobust"),
        ("small --set recipe.samples=4", 3, "samples = 4 needs model.noise"),
        ("five_classes", 2, "gives 5 logits, and digits has 10 classes"),
        ("three_channels", 2, "cannot take images of digits"),
        ("nan", 2, "gives NaN or infinity on images of digits"),
        ("softmax", 2, "Remove its softmax"),
        ("detached", 2, "gives logits without a gradient, so it cannot be trained; remove detach()"),
    ],
)
def test_what_cannot_be_trained_is_refused(inside: Inside, tmp_path: Path, line: str, code: int, message: str) -> None:
    done = inside(f"train --model {NETS}:{line} {SHORT} --out run")
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    assert not (tmp_path / "run").exists()


def test_a_factory_is_not_for_networks_of_ctrobust(inside: Inside, run: Path) -> None:
    refused = inside(f"evaluate {run.name} --model {NETS}:small")
    assert "--model is for a network of your own; run holds mnistnet" in refused.err

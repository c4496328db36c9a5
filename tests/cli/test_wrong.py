"""Wrong input gives one message and the exit code of its kind."""

import shutil
from pathlib import Path

import pytest

from tests.cli.command import Inside


@pytest.mark.parametrize(
    ("args", "code", "messages"),
    [
        ("evaluate run --attack fgsmm:eps=0.1", 2, ["unknown attack 'fgsmm'; did you mean 'fgsm'?", "s-pgd"]),
        ("evaluate run --attack pgd:eps=0.1,stps=3", 2, ["has no field 'stps'; did you mean 'steps'?"]),
        ("evaluate run --attack pgd:eps=0.1,loss=sec", 2, ["unknown loss 'sec'", "sce", "margin"]),
        ("evaluate run --attack pgd:eps=0.1,loss=sce(gama=2)", 2, ["loss 'sce' takes gamma; got 'gama'"]),
        ("evaluate run --attack fgsm", 2, ["attack 'fgsm' needs eps: write fgsm:eps=8/255"]),
        ("evaluate run --attack fgsm --eps 8", 2, ["got 8.0; for 8 grey levels write 8/255"]),
        ("evaluate run --attack fgsm --eps o.1", 2, ["'o.1' is not a number; write 0.03 or 8/255"]),
        ("evaluate run --split tset", 2, ["unknown split 'tset' of digits; did you mean 'test'? known: train, test"]),
        ("evaluate run --data digts", 2, ["unknown data set 'digts'; did you mean 'digits'?"]),
        ("evaluate run --executor rey", 2, ["unknown executor 'rey'; did you mean 'ray'? known: local, ray"]),
        ("evaluate run --address 127.0.0.1:1", 2, ["--address names a Ray cluster: it needs --executor ray"]),
        ("evaluate absent", 5, ["nothing at absent: give a run directory or a weights file"]),
        ("evaluate folder", 5, ["folder is not a run directory: it has no spec.json"]),
        ("evaluate unfinished", 5, ["unfinished is not finished: ctrobust train --resume --out"]),
        ("evaluate run/checkpoint/last.safetensors", 5, ["last.safetensors holds no trained network; name a run"]),
        ("evaluate bad.toml", 5, ["bad.toml is not a whole safetensors file"]),
        ("evaluate run --data fashion-mnist", 4, ["fashion-mnist was not found", "t10k-images-idx3-ubyte.gz"]),
        ("train --data digts", 2, ["unknown data set 'digts'; did you mean 'digits'?"]),
        ("train --data mnist --data-root absent", 4, ["the data root absent does not exist"]),
        (
            "train --method dropot",
            3,
            ["method = 'dropot' is unknown; did you mean 'dropout'? known: dropout, focal, dropblock, "],
        ),
        ("train --model vgg", 3, ["model.name = 'vgg'", "mnistnet"]),
        ("train --schedule cosine", 3, ["schedule.name = 'cosine'", "cyclic", "multistep"]),
        ("train --epochs 0", 3, ["epochs = 0", "greater than or equal to 1"]),
        ("train --lr nan", 3, ["lr = nan", "finite"]),
        ("train --eta 101", 3, ["recipe.eta = 101", "less than or equal to 100"]),
        ("train --method mdl --noise none", 3, ["samples = 4 needs model.noise"]),
        (
            "train --recipe fst",
            3,
            ["recipe.name = 'fst' is unknown; did you mean 'fast'? known: natural, fast, "],
        ),
        ("train --recipe fast --beta 6", 3, ["unknown key recipe.beta of recipe fast (it belongs to trades); known"]),
        ("train --recipe madry --rho 1", 3, ["unknown key recipe.rho of recipe madry (it belongs to natural)"]),
        (
            "train --gamma 2",
            3,
            ["unknown key recipe.gamma of recipe natural (it belongs to fast, madry, free, trades"],
        ),
        ("train --recipe fast --method mdl", 3, ["method = 'mdl' belongs to natural training", "recipe fast"]),
        ("train --recipe fast --eps 8", 3, ["recipe.eps = '8'", "less than or equal to 1"]),
        ("train --gamma 2 --set recipe.gamma=3", 2, ["recipe.gamma is given as 2.0 and by --set as 3; give it once"]),
        ("train --devices 2 --set world_size=3", 2, ["world_size is given as 2 and by --set as 3"]),
        ("train --set beta", 2, ["--set takes FIELD=VALUE, such as recipe.beta=6; got 'beta'"]),
        ("train --set beta=6", 3, ["unknown key beta (it belongs to [recipe])"]),
        ("train --set recipe.beta=6", 3, ["unknown key recipe.beta of recipe natural (it belongs to trades)"]),
        ("train --recipe trades --set recipe.beta=six", 3, ["recipe.beta = 'six'", "valid number"]),
        ("train --recipe fast --set recipe.eps=8/25x", 3, ["recipe.eps = '8/25x'", "valid number"]),
        ("train --set recipe=fast", 3, ["recipe = 'fast'", "table"]),
        ("train --set epochs=1.5", 3, ["epochs = 1.5", "valid integer"]),
        ("train --accelerator cuda", 2, ["cannot train on accelerator cuda with strategy auto: "]),
        ("train --accelerator foo", 2, ["cannot train on accelerator foo with strategy auto: "]),
        ("train --strategy ddp_spawn --devices 2", 2, ["--strategy is one of auto, ddp; got ddp_spawn"]),
        ("train --stop-on-collapse", 3, ["stop_on_collapse is for adversarial recipes"]),
        ("train --recipe fast --limit 9 --validation 9", 2, ["validation = 9 leaves none of 9 images to train on"]),
        (
            "train --config bad.toml",
            3,
            ["unknown key eopchs; did you mean 'epochs'? known: data, ", "model.wdth; did you mean 'width'?"],
        ),
        ("train --config no.toml", 3, ["no.toml is not TOML", "line 1"]),
        ("train --config folder", 3, ["cannot read the spec file folder", "directory"]),
        ("train --limit 200 --epochs 1 --batch-size 32 --out run", 5, ["run holds this run already: add --resume"]),
        (
            "train --limit 100 --out run --resume",
            5,
            ["run holds another run: stored and requested, limit 200 and 100\n"],
        ),
        (
            "train --method mld --out run --resume",
            3,
            ["method = 'mld' is unknown; did you mean 'mdl'? "],
        ),
        ("train --recipe free --out run --resume", 5, ["run holds another run", "recipe.name natural and free"]),
        ("train --resume", 2, ["--resume needs --out, the run directory to continue"]),
        ("train --resume --out folder", 5, ["folder is not a run directory: it has no spec.json"]),
        ("train --out bad.toml --limit 8 --epochs 1", 5, ["cannot use bad.toml"]),
    ],
)
@pytest.mark.usefixtures("run")
def test_wrong_input_gives_a_message_and_an_exit_code(
    inside: Inside, tmp_path: Path, args: str, code: int, messages: list[str]
) -> None:
    (tmp_path / "bad.toml").write_text("eopchs = 3\n[model]\nwdth = 32\n")
    (tmp_path / "no.toml").write_text("epochs = = 3\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "unfinished").mkdir()
    shutil.copy(tmp_path / "run" / "spec.json", tmp_path / "unfinished")
    done = inside(args)
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith("error: ")
    for message in messages:
        assert message in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.usefixtures("run")
def test_radii_need_an_attack(inside: Inside) -> None:
    done = inside("evaluate run --eps 0.1")
    assert done.code in (2, 3)
    assert "--attack" in done.err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["train", "--limit", "8", "--out", ""], "--out"),
        (["train", "--out=", "--limit", "8"], "--out"),
        (["demo", "--out", ""], "--out"),
        (["evaluate", ""], "evaluate"),
    ],
)
def test_an_empty_value_is_not_the_working_directory(
    inside: Inside, tmp_path: Path, words: list[str], named: str
) -> None:
    """A shell passes an empty value where a variable is unset."""
    assert inside("", *words) == (2, "", f"error: nothing is given for {named}; is a shell variable unset?\n")
    assert list(tmp_path.iterdir()) == []

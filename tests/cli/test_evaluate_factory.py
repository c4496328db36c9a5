"""`ctrobust evaluate package.module:factory`: networks that were trained elsewhere."""

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ctrobust as ct
from ctrobust.store import Journal, StoredEvaluation
from tests import user_networks
from tests.cli.command import COMMAND, Inside, ctrobust

NETS = "tests.user_networks"
ON_DIGITS = "--weights means.safetensors --data digits --limit 30"


@pytest.fixture(scope="session")
def means(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    file = tmp_path_factory.mktemp("weights") / "means.safetensors"
    user_networks.write_class_means(file)
    return file.read_bytes()


@pytest.fixture(autouse=True)
def _weights(means: bytes, tmp_path: Path) -> None:
    (tmp_path / "means.safetensors").write_bytes(means)


def document(inside: Inside, line: str) -> dict[str, Any]:
    code, out, err = inside(f"{line} --json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def test_outcomes_are_those_of_python_are_stored_and_found_again(inside: Inside, tmp_path: Path) -> None:
    line = f"evaluate {NETS}:linear {ON_DIGITS} --attack fgsm --attack pgd:steps=3 --eps 0.05"
    first = document(inside, line)
    digits = ct.data.load("digits", "test")
    expected = ct.evaluate(user_networks.class_means(), digits, "pgd:eps=0.05,steps=3", limit=30)
    assert first["run"] == f"{NETS}:linear"
    assert (first["accuracy"], first["attacks"][1]["robust_accuracy"]) == (expected.accuracy, expected.robust_accuracy)
    assert 0 < expected.robust_accuracy < expected.accuracy
    (run,) = (tmp_path / "runs").iterdir()
    assert run.name.startswith("tests.user-networks-linear-digits-")
    spec = json.loads((run / "spec.json").read_bytes())["resolved"]
    assert (spec["factory"], spec["data"]) == (f"{NETS}:linear", "digits")
    stored = StoredEvaluation.read(tmp_path / first["attacks"][1]["outcomes"])
    assert stored.record.spec.weights == spec["network"][:16]
    assert stored.evaluation.robust_accuracy == expected.robust_accuracy

    assert [one["seconds"] for one in document(inside, line)["attacks"]] == [None, None]


def test_it_is_shown_compared_reported_and_verified(inside: Inside, tmp_path: Path) -> None:
    for name, more in (("plain", ""), ("brighter", " --mean -0.1 --std 1")):
        assert inside(f"evaluate {NETS}:linear {ON_DIGITS} --attack fgsm:eps=0.05 --out runs/{name}{more}").code == 0
    shown = inside("show runs").out
    assert f"runs/plain: digits, {NETS}:linear, trained elsewhere\n  test accuracy " in shown
    assert shown.count("fgsm:eps=0.05") == 2
    assert json.loads(inside("show runs/brighter --json").out)[0]["spec"]["mean"] == [-0.1]
    compared = inside("compare runs/plain runs/brighter").out
    assert f"B: digits, {NETS}:linear, trained elsewhere (brighter)" in " ".join(compared.split())
    assert "natural" in compared
    assert inside("report runs -o page.html").code == 0
    page = (tmp_path / "page.html").read_text()
    assert f"network of {NETS}:linear, trained elsewhere" in page
    assert f"ctrobust evaluate {NETS}:linear --weights WEIGHTS --data digits --out runs/plain --attack fgsm" in page
    assert "is not finished" not in page
    assert f"ctrobust evaluate {NETS}:linear --weights WEIGHTS --data digits --out runs/plain --verdict" in page
    checked = inside("verify runs/plain")
    assert checked.code == 0
    assert f"nothing was attacked again; add --model {NETS}:linear and --weights FILE" in " ".join(checked.out.split())
    again = inside(f"verify runs/plain --model {NETS}:linear --weights means.safetensors")
    assert again.code == 0
    assert "examples attacked alone came out differently" in " ".join(again.out.split())
    user_networks.write_class_means(tmp_path / "other.safetensors", scale=1.1)
    other = inside(f"verify runs/plain --model {NETS}:linear --weights other.safetensors")
    assert other.code == 6
    assert "is another network than the one that was evaluated" in " ".join(other.out.split())


def test_a_trained_run_is_compared_with_it(inside: Inside, run: Path) -> None:
    assert inside(f"evaluate {run.name} --attack fgsm:eps=0.05 --limit 30").code == 0
    assert inside(f"evaluate {NETS}:linear {ON_DIGITS} --attack fgsm:eps=0.05 --out mine").code == 0
    code, out, err = inside(f"compare {run.name} mine")
    assert code == 0, err
    assert "A: digits, mnistnet, natural; seed 0 (run)" in out
    assert "fgsm:eps=0.05" in out


@pytest.mark.parametrize("factory", ["objects", "tuples", "dicts"])
def test_outputs_that_contain_the_logits(inside: Inside, factory: str) -> None:
    attack = f"{ON_DIGITS} --attack fgsm:eps=0.05"
    expected = document(inside, f"evaluate {NETS}:linear {attack}")
    assert document(inside, f"evaluate {NETS}:{factory} {attack}")["accuracy"] == expected["accuracy"]


def test_pictures_and_images(inside: Inside, tmp_path: Path) -> None:
    line = f"evaluate {NETS}:dicts {ON_DIGITS} --attack fgsm:eps=0.1 --pictures 2 --save-images broken --out run"
    code, out, err = inside(line)
    assert code == 0, err
    assert "pictures: run/artifacts/pictures-fgsm-eps=0.1-" in out
    assert list((tmp_path / "broken").glob("*.png"))


@pytest.mark.parametrize(
    ("factory", "more", "message"),
    [
        ("softmax", "", "the model gives probabilities: each output row is >= 0 and sums to 1. Remove its softmax"),
        ("scaled", "", "it expects another scale than [0, 1]. Add --mean 0 --std 1/255"),
        ("nan", "", "gives NaN or infinity on images of digits: check its weights and its normalization"),
        ("detached", "", "A model without gradients can be attacked by square or noise"),
        ("always_training", "", "is in training mode after eval(); let its method train() follow its argument"),
        ("linear", "--mean 0", "--mean and --std are given together"),
        ("linear", "--mean 0,0 --std 1", "have one number per channel, as 0.5, or one for all channels; got 0,0"),
        ("linear", "--mean 0 --std 0", "std > 0"),
        ("linear", f"--model {NETS}:linear", "--model is for a run directory; the network is already named"),
        ("linear", "--executor ray --workers 2 --chunk 5", "its code is on this machine only; choose --executor local"),
    ],
)
def test_a_wrong_network_is_one_line_with_the_remedy(inside: Inside, factory: str, more: str, message: str) -> None:
    if "ray" in more:
        pytest.importorskip("ray")
    code, out, err = inside(f"evaluate {NETS}:{factory} {ON_DIGITS} --attack fgsm:eps=0.05 {more}")
    assert (code, out) == (2, "")
    (line,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert message in line
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("five_classes", "gives 5 logits, and digits has 10 classes; give the network 10 outputs"),
        ("three_channels", "cannot take images of digits, which are 1x28x28 (channels, height, width): RuntimeError: "),
        ("large_images", "cannot take images of digits, which are 1x28x28 (channels, height, width): RuntimeError: "),
        ("number", "returned int; a factory returns a torch.nn.Module"),
        ("failing", "failed with KeyError: 'width'; a factory takes no arguments and returns a network"),
        ("absent", "tests.user_networks has no function 'absent'"),
    ],
)
def test_a_network_that_does_not_fit_the_data(inside: Inside, tmp_path: Path, factory: str, message: str) -> None:
    code, _, err = inside(f"evaluate {NETS}:{factory} --data digits --limit 20")
    assert code == 2
    assert message in err
    assert not (tmp_path / "runs").exists() or not list((tmp_path / "runs").iterdir())


def test_missing_data_weights_and_modules(inside: Inside, tmp_path: Path) -> None:
    assert "by --data, such as --data cifar10" in inside(f"evaluate {NETS}:linear --weights means.safetensors").err
    assert inside(f"evaluate {NETS}:linear --data digits --weights absent.pt").code == 5
    user_networks.write_class_means(tmp_path / "other.pt", prefix="net.")
    other = inside(f"evaluate {NETS}:linear --data digits --weights other.pt")
    assert "other.pt does not fit the network of the factory: Missing key(s)" in other.err
    assert "there is no module 'nowhere'" in inside("evaluate nowhere:linear --data digits").err
    assert "--weights is for a network of your own" in inside("evaluate runs/x --weights means.safetensors").err


@pytest.mark.filterwarnings("default")  # the command prints them
def test_a_state_dict_of_torch_and_a_missing_one(inside: Inside, tmp_path: Path) -> None:
    user_networks.write_class_means(tmp_path / "means.pt")
    from_torch = document(inside, f"evaluate {NETS}:linear --weights means.pt --data digits --limit 30")
    assert from_torch["accuracy"] > 0.7
    code, _, err = inside(f"evaluate {NETS}:linear --data digits --limit 20")
    assert code == 0
    assert "no more than guessing; does it need --weights" in err


def test_a_normalization_for_a_network_that_expects_0_to_255(inside: Inside) -> None:
    expected = document(inside, f"evaluate {NETS}:linear {ON_DIGITS}")
    assert document(inside, f"evaluate {NETS}:scaled {ON_DIGITS} --mean 0 --std 1/255")["accuracy"] == pytest.approx(
        expected["accuracy"], abs=0.04
    )


@pytest.mark.filterwarnings("default")  # the command prints them
def test_a_directory_holds_one_network(inside: Inside) -> None:
    assert inside(f"evaluate {NETS}:linear {ON_DIGITS} --out run").code == 0
    other = inside(f"evaluate {NETS}:dicts {ON_DIGITS} --out run")
    assert (other.code, f"run holds {NETS}:linear on digits; choose another --out" in other.err) == (5, True)
    weights = inside(f"evaluate {NETS}:linear --data digits --out run")
    assert "run holds other weights of this network" in weights.err
    again = inside("evaluate run --attack fgsm:eps=0.1")
    assert again.code == 5
    assert f"ctrobust evaluate {NETS}:linear --weights FILE --data digits --out run" in again.err


def test_changed_code_is_noticed(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    line = f"evaluate {NETS}:linear {ON_DIGITS} --out run"
    assert inside(line).code == 0
    monkeypatch.setattr(user_networks, "OFFSET", 0.5)
    code, _, err = inside(line)
    assert code == 5
    assert "computes otherwise than when run was made, with the same weights: its code has changed" in err


def test_curves_and_the_form_of_robustbench(inside: Inside, tmp_path: Path) -> None:
    line = f"evaluate {NETS}:linear {ON_DIGITS} --out run"
    curve = inside(f"{line} --attack fgsm --eps 0.02..0.06")
    assert curve.code == 0, curve.err
    assert list((tmp_path / "run").rglob("*fgsm*.npz"))
    entry = inside(f"{line} --attack autoattack:eps=0.1,queries=20 --robustbench entry.json")
    assert entry.code == 0, entry.err
    found = json.loads((tmp_path / "entry.json").read_bytes())
    assert (found["architecture"], found["number_forward_passes"]) == (f"{NETS}:linear", 1)


def test_a_black_box_is_attacked_by_square(inside: Inside) -> None:
    assert "can be attacked by square" in inside(f"evaluate {NETS}:black_box --data digits --attack fgsm:eps=0.1").err
    found = document(inside, f"evaluate {NETS}:black_box --data digits --limit 20 --attack square:eps=0.2,queries=30")
    assert found["attacks"][0]["robust_accuracy"] < found["accuracy"]


@pytest.mark.filterwarnings("default")  # the command prints them
def test_a_network_that_draws_at_random(inside: Inside, tmp_path: Path) -> None:
    """The first masking test finds it; attacks average over 20 passes, and so does what confirms their successes."""
    line = f"evaluate {NETS}:noisy {ON_DIGITS} --out run"
    code, out, err = inside(f"{line} --attack pgd:eps=0.05,steps=5 --json")
    assert code == 0, err
    assert f"{NETS}:noisy draws at random: its logits are the mean of 20 passes" in err
    (attack,) = json.loads(out)["attacks"]
    assert attack["repeats"] == 20
    stored = StoredEvaluation.read(tmp_path / attack["outcomes"])
    assert stored.record.spec.repeats == 20
    again = document(inside, f"{line.replace('--out run', '--out other')} --attack pgd:eps=0.05,steps=5")
    (other,) = again["attacks"]
    for name, array in StoredEvaluation.read(tmp_path / other["outcomes"]).evaluation.arrays().items():
        np.testing.assert_array_equal(array, stored.evaluation.arrays()[name])
    checked = inside(f"verify run --model {NETS}:noisy --weights means.safetensors")
    assert checked.code == 0
    assert "Its random draws depend on the batch" in checked.out
    verdict = document(inside, f"{line} --verdict --eps 0.05")["verdict"]
    assert verdict["setting"]["repeats"] == 20
    levels = {one["test"]: one["level"] for one in verdict["evidence"]}
    assert levels["randomized"] == "suspicious"
    assert levels["zero gradients"] == "none found"
    assert levels["binarization"] == "not tested"
    assert verdict["level"] == "suspicious"
    beside = document(inside, f"{line} --attack pgd:eps=0.05,steps=5")
    assert beside["attacks"][0]["seconds"] is None
    assert beside["verdicts"][0]["level"] == "suspicious"


NETWORK_FILE = """
from torch import nn

def linear():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
"""


def test_the_working_directory_is_searched_for_the_module(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "my_networks.py").write_text(NETWORK_FILE)
    done = ctrobust("evaluate my_networks:linear --data digits --limit 5 --json", tmp_path, environment)
    assert done.code == 0, done.err
    assert json.loads(done.out)["data"]["count"] == 5


@pytest.mark.slow
def test_workers_build_the_network_from_the_working_directory(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "my_networks.py").write_text(NETWORK_FILE)
    line = "evaluate my_networks:linear --data digits --attack pgd:eps=0.05,steps=3,restarts=2 --limit 30 --chunk 10"
    found = []
    for more in ("--out one", "--out two --workers 2"):
        done = ctrobust(f"{line} {more} --threads 1 --json", tmp_path, environment)
        assert done.code == 0, done.err
        (attack,) = json.loads(done.out)["attacks"]
        stored = StoredEvaluation.read(tmp_path / attack["outcomes"])
        found.append({name: array.tobytes() for name, array in stored.evaluation.arrays().items()})
        assert (stored.record.environment or {}).get("workers") == (2 if "two" in more else None)
    assert found[0] == found[1]


@pytest.mark.slow
def test_a_killed_evaluation_resumes(tmp_path: Path, environment: dict[str, str]) -> None:
    """An attack of radius 0 breaks no example, so that it lasts until it is killed."""
    (tmp_path / "my_networks.py").write_text(NETWORK_FILE)
    line = "evaluate my_networks:linear --data digits --limit 40 --chunk 10 --out run --attack pgd:eps=0,steps={}"
    process = subprocess.Popen(
        [COMMAND, *line.format("20,restarts=500").split()], cwd=tmp_path, env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    batches, deadline = 0, time.monotonic() + 120
    while process.poll() is None and batches < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
        batches = sum(len(Journal(file).read()) for file in (tmp_path / "run" / "outcomes").glob("*.partial"))
    process.send_signal(signal.SIGKILL)
    assert process.wait(30) == -signal.SIGKILL
    (partial,) = (tmp_path / "run" / "outcomes").glob("*.partial")
    first = len(Journal(partial).read())
    process = subprocess.Popen(
        [COMMAND, *line.format("20,restarts=500").split()], cwd=tmp_path, env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    batches, deadline = first, time.monotonic() + 120
    while process.poll() is None and batches <= first and time.monotonic() < deadline:
        time.sleep(0.02)
        batches = len(Journal(partial).read())
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    assert batches > first >= 2  # the second process went on where the first was killed

"""FGSM, PGD and MI-FGSM return the same images as torchattacks, from the same start."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ctrobust import draws
from ctrobust.attacks import FGSM, MIFGSM, PGD, Attack
from tests.attacks.conftest import Peer

EPS, STEP, STEPS = 0.1, 0.025, 10


@pytest.fixture(scope="module")
def theirs(
    network: nn.Sequential,
    digits: tuple[Tensor, Tensor],
    peer: Peer,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Tensor]:
    """Images of torchattacks, run in a separate process so that nothing here depends on it."""
    installed = peer("torchattacks")
    folder = tmp_path_factory.mktemp("peer")
    noise = draws.uniform(torch.arange(250), draws.stream(5, "pgd"), (1, 14, 14)).double() * (2 * EPS) - EPS
    save_file({**network.state_dict(), "x": digits[0], "y": digits[1], "noise": noise}, folder / "in.safetensors")
    command = [sys.executable, str(Path(__file__).with_name("peer.py"))]
    command += [str(folder / "in.safetensors"), str(folder / "out.safetensors"), str(EPS), str(STEP), str(STEPS)]
    subprocess.run(command, check=True, timeout=120, env={**os.environ, "PYTHONPATH": str(installed)})
    found: dict[str, Tensor] = load_file(folder / "out.safetensors")
    return found


OURS: dict[str, Attack] = {
    "fgsm": FGSM(EPS, success="last"),
    "bim": PGD(EPS, steps=STEPS, step_size=STEP, random_start=False, success="last"),
    "pgd": PGD(EPS, steps=STEPS, step_size=STEP, success="last", seed=5),
    "targeted": PGD(EPS, steps=STEPS, step_size=STEP, random_start=False, targeted=True, success="last"),
    "l2": PGD(10 * EPS, steps=STEPS, step_size=10 * STEP, norm="l2", random_start=False, success="last"),
    "mifgsm": MIFGSM(EPS, steps=STEPS, step_size=STEP, success="last"),
    "mifgsm decaying": MIFGSM(EPS, steps=STEPS, step_size=STEP, momentum=0.5, success="last"),
}


@pytest.mark.parametrize("name", OURS)
def test_images_agree_with_torchattacks(
    network: nn.Sequential, digits: tuple[Tensor, Tensor], theirs: dict[str, Tensor], name: str
) -> None:
    x, y = digits
    torch.testing.assert_close(network(x).detach(), theirs["logits"], rtol=0, atol=1e-12)
    attack = OURS[name]
    label = (y + 1) % 10 if attack.targeted else y
    result = attack.run(network, x, label)
    # Division by a gradient's length plus 1e-10 makes torchattacks' steps in l2 shorter by that much.
    torch.testing.assert_close(result.x_adv, theirs[name], rtol=0, atol=1e-6 if attack.norm == "l2" else 1e-12)
    assert torch.equal(result.success, (network(theirs[name]).argmax(1) == label) == attack.targeted)
    assert result.success.double().mean() > (0.05 if attack.targeted else 0.3)


def test_the_images_differ_from_one_another(theirs: dict[str, Tensor]) -> None:
    # Otherwise the comparison above could not distinguish the attacks and their starts.
    for one, other in itertools.combinations(OURS, 2):
        differ = ((theirs[one] - theirs[other]).abs().flatten(1).amax(1) > 1e-3).double().mean()
        assert differ > 0.9, (one, other)


def test_torchattacks_is_not_imported_here(theirs: dict[str, Tensor]) -> None:
    assert theirs
    assert "torchattacks" not in sys.modules

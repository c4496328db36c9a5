"""Ctrl-C and SIGTERM."""

import os
import signal

import pytest
import torch

from ctrobust.attacks import fuse
from ctrobust.cli.signals import SignalInterrupt, interruptible, resumed_by, stop_requests
from ctrobust.errors import InputError
from ctrobust.training.training_callback import TrainingInterrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_first_signal_asks_to_stop_and_a_second_one_interrupts(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stop_requests() as stop:
        assert not stop()
        os.kill(os.getpid(), number)
        assert stop()
        with pytest.raises(SignalInterrupt, match="last checkpoint is intact") as raised:
            os.kill(os.getpid(), number)
        assert raised.value.exit_code == 130
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_attack_is_interrupted_by_the_first_signal(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(SignalInterrupt, match="finished attacks are stored") as raised, interruptible():
        os.kill(os.getpid(), number)
    assert raised.value.exit_code == 130
    assert signal.getsignal(number) is before


def test_a_signal_is_not_swallowed_by_code_that_catches_errors() -> None:
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3)).eval()
    model.register_forward_pre_hook(lambda *_: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(SignalInterrupt), interruptible():
        fuse(model, torch.rand(2, 4))


@pytest.mark.parametrize("interruption", [SignalInterrupt("stopped"), TrainingInterrupted("stopped")])
def test_an_interruption_names_the_command_that_resumes(interruption: BaseException) -> None:
    with (
        pytest.raises(SignalInterrupt, match=r"^stopped\nresume with:\n  ctrobust demo$"),
        resumed_by(lambda: "ctrobust demo"),
    ):
        raise interruption
    with pytest.raises(type(interruption), match=r"^stopped$"), resumed_by(lambda: None):
        raise interruption


def test_an_error_has_no_command_that_resumes() -> None:
    with pytest.raises(InputError, match=r"^wrong$"), resumed_by(lambda: "ctrobust demo"):
        raise InputError("wrong")

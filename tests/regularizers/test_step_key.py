"""Setting and clearing the step keys of a network's regularizers."""

import torch
from torch import nn

from ctrobust.regularizers import (
    HEAD_NOISE,
    DropConnect,
    Dropout,
    HeadNoise,
    Regularizer,
    StepKey,
    clear_step,
    set_step,
)
from ctrobust.regularizers.step_key import resolve_step_key, sample_keys

KEYS = torch.tensor([5, 2])


def network() -> tuple[nn.Sequential, list[Dropout | DropConnect]]:
    regularizers: list[Dropout | DropConnect] = [Dropout(), DropConnect(), Dropout(0.1)]
    first, second, third = regularizers
    return nn.Sequential(nn.Linear(2, 2), first, nn.Sequential(second, nn.ReLU(), third)), regularizers


def test_set_step_gives_every_regularizer_its_own_stream() -> None:
    module, regularizers = network()
    set_step(module, seed=1, step=7, keys=KEYS, progress=0.25)
    step_keys = [each.step_key for each in regularizers]
    assert all(key is not None and key.keys is KEYS and key.progress == 0.25 for key in step_keys)
    assert len({key.stream for key in step_keys if key is not None}) == 3


def test_streams_are_a_function_of_seed_step_and_position() -> None:
    streams = []
    for seed, step in [(0, 0), (0, 0), (0, 1), (1, 0)]:
        module, regularizers = network()
        set_step(module, seed=seed, step=step, keys=KEYS, progress=0.0)
        streams.append([each.step_key.stream for each in regularizers if each.step_key is not None])
    assert streams[0] == streams[1]
    assert len({stream for row in streams[1:] for stream in row}) == 9


def test_clear_step_removes_the_step_keys() -> None:
    module, regularizers = network()
    set_step(module, seed=0, step=0, keys=KEYS, progress=0.0)
    clear_step(module)
    assert [each.step_key for each in regularizers] == [None, None, None]


def test_a_given_step_key_is_used_and_without_one_each_call_gets_a_new_stream() -> None:
    x, key = torch.empty(2, 3), StepKey(17, KEYS, 0.5)
    assert resolve_step_key(key, x) is key
    with torch.random.fork_rng(devices=[]):
        one, two = resolve_step_key(None, x), resolve_step_key(None, x)
    assert one.stream != two.stream
    assert one.keys.tolist() == [0, 1]


def test_sample_keys_are_k_major_and_distinct() -> None:
    keys = sample_keys(torch.arange(50), 20)
    assert len(set(keys.tolist())) == 1000
    assert torch.equal(keys[:50], sample_keys(torch.arange(50), 1))


def test_the_registered_modules_are_head_noise() -> None:
    assert set(HEAD_NOISE) == {"dropout", "dropconnect"}
    for kind in HEAD_NOISE.values():
        assert isinstance(kind(), HeadNoise)
        assert isinstance(kind(), Regularizer)
    assert not isinstance(nn.Dropout(), Regularizer)

"""Names of networks: those of ctrobust and factories."""

import pytest

from ctrobust.errors import SpecError
from ctrobust.specs import ModelSpec, is_factory, spec_hash, train_spec


@pytest.mark.parametrize("text", ["nets:wide", "my.nets:Wide_2", "_a.b:c"])
def test_a_factory(text: str) -> None:
    assert is_factory(text)
    assert train_spec({"model": {"name": text}}).model == ModelSpec(name=text, noise="none")


@pytest.mark.parametrize("text", ["nets", "nets:", ":wide", "my nets:wide", "nets:wide:deep", "2nets:wide", "a/b:c"])
def test_no_factory(text: str) -> None:
    assert not is_factory(text)
    with pytest.raises(SpecError, match=r"'preactresnet18', or a factory of your own as package.module:function"):
        train_spec({"model": {"name": text}})


def test_the_name_of_the_factory_counts() -> None:
    hashes = {spec_hash(train_spec({"model": {"name": name}})) for name in ("nets:wide", "nets:deep", "mnistnet")}
    assert len(hashes) == 3


def test_a_method_puts_noise_before_the_head_and_without_one_there_is_none() -> None:
    name = {"model": {"name": "nets:wide"}}
    assert train_spec({"method": "mdl", **name}).model.noise == "dropout"
    assert train_spec({"method": "dropconnect", **name}).model.noise == "dropconnect"
    assert train_spec({"method": "focal", **name}).model.noise == "none"
    assert train_spec({"recipe": {"name": "fast"}, **name}).model.noise == "none"
    assert train_spec({"model": {"name": "nets:wide", "noise": "dropout"}}).model.noise == "dropout"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "nets:wide", "width": 32}, "width = 32 is for the networks of ctrobust; set it inside nets:wide"),
        ({"name": "nets:wide", "maps": "disout"}, "maps = disout is for the networks of ctrobust"),
        ({"name": "nets:wide", "head": "fc"}, "head = 'fc' is where noise is put, and noise is 'none'"),
        ({"name": "vgg16", "head": "fc"}, "head = 'fc' is for a network of your own, got 'vgg16'"),
    ],
)
def test_fields_that_do_not_go_together(fields: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        train_spec({"model": fields})

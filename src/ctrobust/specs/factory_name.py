"""The names of networks: those of ctrobust, and factories of the user as `package.module:function`."""

import re
from typing import Annotated

from pydantic import AfterValidator

NETWORK_NAMES = ("mnistnet", "vgg16", "resnet18", "resnet50", "preactresnet18")
FACTORY = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
"""The text of a factory, `package.module:function`."""


def is_factory(text: str) -> bool:
    """Whether a text names a factory rather than a path.

    Example:
        >>> is_factory("robust.nets:wide_resnet"), is_factory("runs/demo/mdl"), is_factory("model.safetensors")
        (True, False, False)
    """
    return FACTORY.fullmatch(text) is not None


def _check_factory(text: str) -> str:
    if not is_factory(text):
        raise ValueError("a factory is package.module:function")
    return text


def _check_network(text: str) -> str:
    if text not in NETWORK_NAMES and not is_factory(text):
        names = ", ".join(map(repr, NETWORK_NAMES))
        raise ValueError(f"Input should be one of {names}, or a factory of your own as package.module:function")
    return text


FactoryName = Annotated[str, AfterValidator(_check_factory)]
NetworkName = Annotated[str, AfterValidator(_check_network)]

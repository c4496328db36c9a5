"""The methods of natural training by name: the rows of the paper's tables 1 and 2."""

from typing import Any

_MDL = {"samples": 4, "rho": 1.0}
_PLAIN = {"noise": "none"}

METHODS: dict[str, dict[str, Any]] = {
    "dropout": {},
    "focal": {"model": _PLAIN, "recipe": {"loss": "focal"}},
    "dropblock": {"model": {**_PLAIN, "maps": "dropblock"}},
    "multi-sample-dropout": {"recipe": {"samples": 4}},
    "disout": {"model": {**_PLAIN, "maps": "disout"}},
    "label-relaxation": {"model": _PLAIN, "recipe": {"loss": "label-relaxation"}},
    "mdl": {"recipe": _MDL},
    "mdl-pcc": {"recipe": {**_MDL, "diversity": "pearson"}},
    "dropconnect": {"model": {"noise": "dropconnect"}},
    "dropconnect+mdl": {"model": {"noise": "dropconnect"}, "recipe": _MDL},
    "label-smoothing": {"model": _PLAIN, "recipe": {"loss": "label-smoothing"}},
    "label-smoothing+mdl": {"recipe": {**_MDL, "loss": "label-smoothing"}},
    "online-label-smoothing": {"model": _PLAIN, "recipe": {"loss": "online-label-smoothing"}},
    "online-label-smoothing+mdl": {"recipe": {**_MDL, "loss": "online-label-smoothing"}},
}
"""Method -> the spec fields that it sets; fields given beside the method override them."""

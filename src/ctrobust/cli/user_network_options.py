"""The options of commands on a network of the user's own: its factory, weights and normalization."""

from pathlib import Path
from typing import Annotated

import typer

USER_NETWORK = "A network of your own"

Model = Annotated[
    str | None,
    typer.Option(
        metavar="FACTORY",
        help="package.module:factory of a run that was trained with --model; code is run only where you name it.",
        rich_help_panel=USER_NETWORK,
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option(
        help="Weights of a factory's network: safetensors, or a state dict of torch.save.", rich_help_panel=USER_NETWORK
    ),
]
Mean = Annotated[
    str | None,
    typer.Option(
        help="Mean of the normalization, such as 0.49,0.48,0.45; without it the network gets images in [0, 1].",
        rich_help_panel=USER_NETWORK,
    ),
]
Std = Annotated[
    str | None,
    typer.Option(help="Standard deviation of the normalization, such as 0.5 or 1/255.", rich_help_panel=USER_NETWORK),
]
Out = Annotated[
    Path | None,
    typer.Option(
        help="Directory of the outcomes of a factory's network. Default: runs/FACTORY-DATA-HASH.",
        rich_help_panel=USER_NETWORK,
    ),
]

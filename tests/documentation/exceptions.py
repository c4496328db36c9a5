"""All blocks that are not simply run, and why. A pattern that matches no command of any page fails a test."""

from typing import NamedTuple

DIRECTIVES = ("{toctree}", "{eval-rst}", "{include}")
"""Blocks that are not code; `make docs` fails if one of them is wrong."""


class EndsWith(NamedTuple):
    """The exit code with which a command ends here, after all its options were accepted."""

    exit_code: int
    reason: str


RUNS_UNTIL: dict[str, EndsWith] = {
    r"^ctrobust evaluate nets:wide .*--data cifar10\b": EndsWith(4, "the data set is not in the package"),
    r"^ctrobust train .*--data (cifar10|fashion-mnist|mnist)\b": EndsWith(4, "the data set is not in the package"),
    r"^ctrobust (evaluate|compare|verify|train --out|train --resume --out) runs/(NAME|A|cifar-madry-g3)\b": EndsWith(
        5, "the run is one of the reader"
    ),
    r"^ctrobust report runs -o report.html$": EndsWith(5, "the README trains nothing that could be reported"),
    r"^ctrobust sweep gammas.toml --executor ray$": EndsWith(3, "the README does not show the sweep file"),
    r"^ctrobust train --data folder:": EndsWith(4, "the pictures are the reader's"),
}
"""Pattern -> how a command ends that needs what is not here; all that it checks before is checked for real."""

PARSED_ONLY: dict[str, str] = {
    r"^ctrobust data fetch ": "it uses the network",
    r"^(torchrun|srun) ": "it needs several machines, or SLURM; tests/training/test_launch.py starts both on one",
    r"^ctrobust reproduce .*--address ": "it needs a Ray cluster",
    r"^ctrobust reproduce .*--preset paper(?!.*--dry-run)": "it takes GPUs and days",
}
"""Pattern -> why a command cannot even begin here: its options are parsed by the real command line."""

SLOW: dict[str, str] = {
    r"^ctrobust demo\b": "it takes minutes",
    r"--preset smoke$": "it trains every network of a table",
    r"--executor ray\b": "it starts a Ray cluster on this machine",
    r"^ctrobust evaluate .*--verdict": "it runs fourteen tests",
    r"^ctrobust evaluate .*--attack autoattack": "it makes thousands of passes per image",
    r"^ctrobust train .*--devices ": "it starts two processes",
    r"^ctrobust sweep gammas.toml --workers ": "it trains four networks in worker processes",
}
"""Pattern -> why a command runs in `make slow` and not in `make test`."""

OWN_PROCESS: dict[str, str] = {
    r"^ctrobust train .*--devices ": "it starts itself again for each process",
    r"--executor ray\b": "Ray keeps the token that it found in the first home of a process",
}
"""Pattern -> why a command runs in a process of its own and not in that of the test."""

SOURCE_PAGE = "docs/extending.md"
"""The page whose blocks change a copy of the sources: tests/documentation/test_extending.py."""

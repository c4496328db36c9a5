"""`ctrobust compare`."""

import subprocess
import sys
from pathlib import Path

from tests.cli.command import Inside

RESULTS = Path(__file__).parents[2] / "results"


def test_runs_are_compared_without_torch() -> None:
    program = (
        "import sys\n"
        "from ctrobust.cli import main\n"
        f"sys.argv = ['ctrobust', 'compare', {str(RESULTS / 'fashion-dropout')!r}, {str(RESULTS / 'fashion-mdl')!r}]\n"
        "try: main()\n"
        "except SystemExit as end: print('exit', end.code, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "exit 0 False"
    line = next(line for line in done.stdout.splitlines() if line.split()[:1] == ["natural"])
    assert line.split() == ["natural", "1,000", "92.30", "92.60", "+0.30", "[-0.81,", "+1.43]", "0.71", "1"]


def test_markdown_and_csv(inside: Inside) -> None:
    paths = f"{RESULTS / 'fashion-dropout'} {RESULTS / 'fashion-mdl'}"
    assert "| natural | 1,000 | 92.30 | 92.60 |" in inside(f"compare {paths} --render markdown").out
    assert inside(f"compare {paths} --render csv").out.startswith("first,second,attack,images,")


def test_a_directory_of_runs_and_wrong_input(inside: Inside, tmp_path: Path) -> None:
    wrong = inside(f"compare {RESULTS / 'fashion-mdl'} --render pdf")
    assert wrong.code == 2
    assert "--render is one of terminal, markdown, csv; got pdf" in wrong.err
    assert inside(f"compare {RESULTS / 'fashion-mdl'}").code == 2
    nothing = inside(f"compare {tmp_path}")
    assert nothing.code == 5
    assert "no runs in" in nothing.err
    several = inside(f"compare {RESULTS}")
    assert several.code == 0
    assert "seeds 0, 1, 2 (cifar-fast-g0, cifar-fast-g0-seed1, cifar-fast-g0-seed2)" in several.out
    assert "A is trained on cifar10, " in several.out

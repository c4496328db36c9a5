"""Faults and bad input on purpose: every part prints what it did, how often, and whether anything was lost or let in.

The parts are the files `torture_*.py` beside this one; `--only readers` runs one of them. Exit code 1 means that a part
found a fault.
"""

import argparse
import importlib
import sys
import time
from pathlib import Path

PARTS = sorted(path.stem.removeprefix("torture_") for path in Path(__file__).parent.glob("torture_*.py"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append", help="a part; repeatable")
    parser.add_argument("--seed", type=int, default=0, help="of all chance")
    options = parser.parse_args()
    faultless = True
    for name in options.only or PARTS:
        part, begun = importlib.import_module(f"torture_{name}"), time.monotonic()
        print(f"{name}: {(part.__doc__ or '').splitlines()[0]}", flush=True)
        good = part.run(options.seed)
        print(f"  {'no fault' if good else 'FAULTS'}, {time.monotonic() - begun:.0f} s\n", flush=True)
        faultless = faultless and good
    sys.exit(0 if faultless else 1)


if __name__ == "__main__":
    main()

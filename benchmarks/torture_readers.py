"""2,000 damaged files of every kind: each is read, or refused with its name and the exit code of its kind."""

import random
import tempfile
import time
from pathlib import Path

import torch
from tests.readers import READERS, make_run, try_case

from commands import report

CASES = 2000


def run(seed: int) -> bool:
    torch.set_num_threads(1)
    good = True
    for kind, reader in READERS.items():
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            make_run(folder)
            path = reader.prepare(folder)
            valid, chance, wrong, slowest = path.read_bytes(), random.Random(f"{seed} {kind}"), [], 0.0
            for _ in range(CASES):
                begun = time.monotonic()
                if (found := try_case(reader, path, valid, chance)) is not None:
                    wrong.append(found)
                slowest = max(slowest, time.monotonic() - begun)
        text = f"{CASES:,} damaged files, {len(wrong)} answered wrongly, slowest {slowest:.2f} s"
        good &= report(kind, text, good=not wrong)
        for found in wrong[:3]:
            print(f"    {found[:300]}")
    return good

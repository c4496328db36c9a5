"""Worker processes that a test has started, to be killed, and results that must be written once."""

import os
import subprocess
from pathlib import Path


def descendants(name: str) -> list[int]:
    """The processes below this one whose command line contains a name."""
    listed = subprocess.run(["ps", "-eww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True)
    rows = [line.split(maxsplit=2) for line in listed.stdout.splitlines()]
    children: dict[int, list[tuple[int, str]]] = {}
    for own, parent, command in (row for row in rows if len(row) == 3):
        children.setdefault(int(parent), []).append((int(own), command))
    found, parents = [], [os.getpid()]
    while parents:
        for pid, command in children.get(parents.pop(), []):
            parents.append(pid)
            if name in command:
                found.append(pid)
    return found


class WrittenOnce:
    """Remembers when each record of a store was first written."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.first: dict[Path, int] = {}

    def look(self) -> None:
        """Fail if a record has been written again."""
        for file in [*self.root.glob("*/record.json"), *self.root.glob("*/outcomes/*.json")]:
            written = file.stat().st_mtime_ns
            assert self.first.setdefault(file, written) == written, f"{file} was written twice"

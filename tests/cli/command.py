"""The command in a process of its own, and in a terminal."""

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

COMMAND = str(Path(sys.executable).with_name("ctrobust"))
COLOURS = re.compile(r"\x1b\[[0-9;]*(?:3[0-9]|9[0-7])[0-9;]*m")


class Done(NamedTuple):
    """Exit code and output of a finished command."""

    code: int
    out: str
    err: str


Inside = Callable[..., Done]


def ctrobust(line: str, cwd: Path, env: dict[str, str]) -> Done:
    """Run a command to its end."""
    done = subprocess.run([COMMAND, *line.split()], cwd=cwd, env=env, capture_output=True, text=True, timeout=800)
    return Done(done.returncode, done.stdout, done.stderr)


class Terminal:
    """A command in a pseudo-terminal of 120 columns, or as many as the environment sets."""

    def __init__(self, line: str, cwd: Path, env: dict[str, str]) -> None:
        self.text = ""
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [COMMAND, *line.split()], cwd=cwd, env={"COLUMNS": "120", **env}, stdin=slave, stdout=slave, stderr=slave
        )
        os.close(slave)

    def _read(self) -> bool:
        """Read what was printed; return False when the command has closed the terminal."""
        if select.select([self.master], [], [], 0.1)[0]:
            with contextlib.suppress(OSError):  # Linux's end of file
                printed = os.read(self.master, 1 << 16)
                self.text += printed.decode(errors="replace")
                return bool(printed)
            return False
        return True

    def until(self, condition: Callable[[], bool]) -> None:
        """Read until a condition holds."""
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline, self.text
            assert self._read(), self.text

    def interrupt(self) -> int:
        """Send Ctrl-C and return the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def end(self) -> int:
        """Read to the end and return the exit code."""
        while self._read():
            pass
        return self.process.wait(timeout=60)


def plain(text: str) -> str:
    """Remove escape sequences; each drawing of a progress line is a line of its own."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "\n")

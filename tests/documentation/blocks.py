"""The code blocks of the README and the documentation, which sybil finds, and the commands in them."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

from sybil import Document
from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "api").glob("*.md"))]

SHELL = ("", "shell")
"""The languages of blocks of commands; the README's blocks of commands have none."""

_FENCE = RawFencedCodeBlockLexer(re.compile(r"(?P<language>[^\n]*)\n"))


class Block(NamedTuple):
    """One code block of a page.

    Attributes:
        page: the Markdown file.
        line: the line of its opening fence, from 1.
        language: what follows the fence, such as python or {toctree}.
        text: the code.
    """

    page: Path
    line: int
    language: str
    text: str

    @property
    def where(self) -> str:
        """Page and line, for messages."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def file(self) -> str | None:
        """The file that a comment in the first line names: the block is that file's content."""
        named = re.match(r"# ([\w./-]+\.(?:py|toml|sh))\n", self.text)
        return None if named is None else named[1]

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command, without comments; a backslash joins lines."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [words for line in lines if (words := shlex.split(line, comments=True))]


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def page_blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    document = Document(page.read_text(encoding="utf-8"), str(page))
    regions = sorted(_FENCE(document), key=lambda region: region.start)
    return [
        Block(page, document.text.count("\n", 0, region.start) + 1, region.lexemes["language"].strip(), str(source))
        for region in regions
        if (source := region.lexemes["source"]) is not None
    ]


def all_blocks(*languages: str) -> list[Block]:
    """The blocks of all pages in some languages."""
    return [block for page in PAGES for block in page_blocks(page) if block.language in languages]

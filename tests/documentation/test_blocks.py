"""Every code block of the README and the documentation is run, or checked as `exceptions` lists."""

import re
import tomllib
from pathlib import Path

import pytest

from ctrobust import specs
from ctrobust.cli.sweep import read_sweep
from tests.cli.command import Inside, ctrobust
from tests.documentation.blocks import PAGES, ROOT, SHELL, Block, all_blocks, page_blocks, page_id
from tests.documentation.checks import check_make, check_pip, parse_only
from tests.documentation.exceptions import DIRECTIVES, OWN_PROCESS, PARSED_ONLY, RUNS_UNTIL, SLOW, SOURCE_PAGE

RUN_PAGES = [page for page in PAGES if page_id(page) != SOURCE_PAGE]


def matching(patterns: dict[str, str], line: str) -> str | None:
    return next((reason for pattern, reason in patterns.items() if re.search(pattern, line)), None)


def is_slow(block: Block) -> bool:
    return block.language in SHELL and any(matching(SLOW, " ".join(words)) for words in block.commands)


def run_page(page: Path, reader: Path, inside: Inside, environment: dict[str, str], *, slow: bool) -> None:
    """Follow a page from its first block to its last, in one directory; without `slow`, leave out slow commands."""
    for block in page_blocks(page):
        if block.file is not None:
            (reader / block.file).write_text(block.text, encoding="utf-8")
        if block.language == "python":
            exec(compile(block.text, block.where, "exec"), {"__name__": "__main__"})
        elif block.language == "toml":
            check_toml(block, reader)
        elif block.language in SHELL:
            for words in block.commands:
                if slow or not matching(SLOW, " ".join(words)):
                    run_command(words, block.where, inside, environment)


def check_toml(block: Block, reader: Path) -> None:
    """The block is a sweep file or the spec of a run that differs from the default."""
    fields = tomllib.loads(block.text)
    if "vary" in fields:
        assert block.file is not None, f"{block.where}: a sweep file is named in its first line"
        assert read_sweep(reader / block.file).rows
    else:
        assert specs.train_spec(fields) != specs.TrainSpec(), block.where


def run_command(words: list[str], where: str, inside: Inside, environment: dict[str, str]) -> None:
    line = " ".join(words)
    if words[0] == "make":
        check_make(words)
    elif words[0] == "pip":
        check_pip(words)
    elif matching(PARSED_ONLY, line):
        parse_only(words)
    else:
        assert words[0] == "ctrobust", f"{where}: {line} is neither run nor checked"
        ends = next((found for pattern, found in RUNS_UNTIL.items() if re.search(pattern, line)), None)
        if matching(OWN_PROCESS, line):
            done = ctrobust(line.removeprefix("ctrobust "), Path.cwd(), environment)
        else:
            done = inside("", *words[1:])
        assert done.code == (ends.exit_code if ends else 0), f"{where}: {line}\n{done.out}{done.err}"


@pytest.mark.parametrize("page", RUN_PAGES, ids=page_id)
def test_a_page_can_be_followed(page: Path, reader: Path, inside: Inside, environment: dict[str, str]) -> None:
    run_page(page, reader, inside, environment, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in RUN_PAGES if any(map(is_slow, page_blocks(page)))], ids=page_id)
def test_a_page_can_be_followed_with_its_slow_commands(
    page: Path, reader: Path, inside: Inside, environment: dict[str, str]
) -> None:
    run_page(page, reader, inside, environment, slow=True)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_no_block_is_of_a_language_that_nobody_checks(page: Path) -> None:
    known = {"python", "toml", *SHELL, *(["diff"] if page_id(page) == SOURCE_PAGE else [])}
    for block in page_blocks(page):
        assert block.language in known or block.language.split()[0] in DIRECTIVES, block.where


@pytest.mark.parametrize("pattern", [*RUNS_UNTIL, *PARSED_ONLY, *SLOW, *OWN_PROCESS])
def test_each_exception_is_needed(pattern: str) -> None:
    assert any(re.search(pattern, " ".join(words)) for block in all_blocks(*SHELL) for words in block.commands)


def test_blocks_are_found() -> None:
    assert len(all_blocks("python")) >= 20
    assert len(all_blocks("toml")) >= 3
    assert len([words for block in all_blocks(*SHELL) for words in block.commands]) >= 40
    (first,) = [block for block in page_blocks(ROOT / "README.md") if "make demo" in block.text]
    assert first.commands == [["make", "demo"], ["make", "test"]]


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("ctrobust train --data digits --epoch-count 3", "No such option"),
        ("torchrun --nproc-per-node 2 ctrobust train --device 2", "No such option"),
        ("srun ctrobust evaluate", "Missing parameter"),
        ("ctrobust data fetch", "Missing parameter"),
        ("ctrobust trian", "no command trian"),
    ],
)
def test_a_renamed_option_is_noticed(line: str, error: str) -> None:
    with pytest.raises(Exception, match=error):
        parse_only(line.split())

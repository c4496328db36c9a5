"""Markdown tables of stored runs: accuracies, paired tests, thresholds, collapses, verdicts, the paper's statements."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ctrobust.errors import InputError
from ctrobust.experiments import check_statements, experiment, select_cells
from ctrobust.outcomes import Evaluation, mcnemar
from ctrobust.reporting.renderings import render
from ctrobust.reporting.statement_lines import measured_values
from ctrobust.specs.attack_text import format_number
from ctrobust.store import JobIndex, RunDirectory, RunRecord, Store, read_verdicts

RAISED = ("suspicious", "masked")


@dataclass(frozen=True)
class AttackColumn:
    """A column of a table: its title, the canonical text of the attack, and how many images were attacked."""

    title: str
    attack: str
    images: int


@dataclass(frozen=True)
class StoredRun:
    """A run directory, read when it is asked for; `others` are directories with further evaluations of the run."""

    name: str
    run: RunDirectory
    others: tuple[RunDirectory, ...] = ()

    @cached_property
    def record(self) -> RunRecord | None:
        """The record; None if the run is not finished or not there."""
        return self.run.read_record() if self.run.record_file.exists() else None

    @cached_property
    def _evaluations(self) -> dict[tuple[str, int], Any]:
        found = [one for run in (*self.others, self.run) for one in run.evaluations()]
        if self.others and self.record is not None:  # a run of the same name may have other weights
            found = [one for one in found if one.record.spec.weights == self.record.weights_sha256[:16]]
        return {(one.attack, one.record.summary.count): one for one in found}

    def outcome(self, column: AttackColumn) -> Evaluation | None:
        """The outcomes under an attack; None if it was not run."""
        found = self._evaluations.get((column.attack, column.images))
        return None if found is None else found.evaluation


@dataclass(frozen=True)
class RunTables:
    """The tables that can be made of stored runs.

    Attributes:
        store: where the runs are. A run is the first of its name in the directories of the store; the evaluations that
            the others hold are added to it.
        attacks: the columns of the tables.
    """

    store: Store
    attacks: tuple[AttackColumn, ...] = ()

    def _runs(self, names: Sequence[str]) -> list[StoredRun]:
        folders = (self.store.root, *self.store.read_only)
        places = [
            [RunDirectory(folder / name) for folder in folders if (folder / name).is_dir()]
            or [RunDirectory(self.store.root / name)]
            for name in names
        ]
        return [StoredRun(name, first, tuple(others)) for name, (first, *others) in zip(names, places, strict=True)]

    def _finished(self, names: Sequence[str]) -> list[tuple[StoredRun, RunRecord]]:
        return [(run, run.record) for run in self._runs(names) if run.record is not None]

    def accuracies(self, runs: Sequence[str]) -> list[str]:
        """Runs and their accuracies in percent, natural and under each attack, with 95% intervals."""
        rows = []
        counts = {record.results.count for _, record in self._finished(runs)}
        for run in self._runs(runs):
            if run.record is None:
                rows.append([run.name, "not finished", *[""] * len(self.attacks)])
                continue
            natural = run.record.results
            cells = [_percent(natural.accuracy, *natural.accuracy_interval)]
            for column in self.attacks:
                one = run.outcome(column)
                cells.append("not run" if one is None else _percent(one.robust_accuracy, *_limits(one)))
            rows.append([run.name, *cells])
        title = f"natural, {counts.pop():,}" if len(counts) == 1 else "natural"
        return _table(["run", title, *(column.title for column in self.attacks)], rows)

    def mcnemar(self, pairs: Sequence[Sequence[str]]) -> list[str]:
        """McNemar's exact test of two runs under each attack, on the same examples."""
        rows = []
        for first, second in pairs:
            one, other = self._runs([first, second])
            cells = [_paired(one.outcome(column), other.outcome(column)) for column in self.attacks]
            rows.append([f"{first}, {second}", *cells])
        return _table(["McNemar, first against second", *(column.title for column in self.attacks)], rows)

    def thresholds(self, runs: Sequence[str]) -> list[str]:
        """Wrong categories below the theoretical confidence threshold, and the largest p_y among errors."""
        found = self._finished(runs)
        totals = {(len(record.data.classes) - 1, record.results.threshold.wrong_total) for _, record in found}
        if len(totals) > 1:
            raise InputError(f"runs {', '.join(runs)} differ in their numbers of classes or test images")
        wrong, total = totals.pop() if totals else (0, 0)
        rows = [
            [run.name, f"{one.wrong_below:,}", f"{one.largest_wrong_confidence or 0:.4f}"]
            for run, one in ((run, record.results.threshold) for run, record in found)
        ]
        return _table(["run", f"wrong categories below 1/{wrong}, of {total:,}", "largest p_y among errors"], rows)

    def collapses(self, runs: Sequence[str]) -> list[str]:
        """The accuracy under PGD-5 after each epoch, and the epochs that were reported as collapsed."""
        rows = []
        for run, record in self._finished(runs):
            if record.collapses is None:
                continue
            metrics = run.run.read_metrics()
            watched = ", ".join(
                f"{100 * line['watched_accuracy']:.0f}" for line in metrics if "watched_accuracy" in line
            )
            rows.append([run.name, watched, ", ".join(str(one.epoch) for one in record.collapses) or "none"])
        titles = ["run", "accuracy under PGD-5 on a training batch, after each epoch", "epochs reported as collapsed"]
        return _table(titles, rows)

    def verdicts(self, runs: Sequence[str]) -> list[str]:
        """The masking verdict on each run, and the tests that raised something."""
        rows = []
        for run, _ in self._finished(runs):
            for one in read_verdicts(run.run):
                raised = [f"{test.test} ({test.level})" for test in one.verdict.evidence if test.level in RAISED]
                tests = f"{one.verdict.tests_run} of {one.verdict.tests_total}"
                eps = format_number(one.spec.eps)
                rows.append([run.name, eps, one.verdict.level, tests, ", ".join(raised) or "none"])
        return _table(["run", "eps", "verdict", "tests run", "tests that raised something"], rows)

    def found_beyond(self, runs: Sequence[str], first: str, second: str, images: int) -> list[str]:
        """Two attacks on the same images: what each leaves, what only one breaks, and the passes that each spends."""
        rows = []
        for run, _ in self._finished(runs):
            one, other = (run.outcome(AttackColumn(attack, attack, images)) for attack in (first, second))
            if one is None or other is None:
                continue
            test = mcnemar(one.robust, other.robust)
            passes = [f"{(each.forwards + each.backwards).mean():,.0f}" for each in (one, other)]
            shares = [_percent(each.robust_accuracy, *_limits(each)) for each in (one, other)]
            rows.append([run.name, *shares, str(test.c), str(test.b), *passes])
        names = [text.partition(":")[0] for text in (first, second)]
        alone, spent = ([f"{what} {name}" for name in names] for what in ("broken only by", "passes per image of"))
        heads = ["run", *names, *alone, *spent]
        return _table(heads, rows)

    def reproduced(self, name: str, only: Sequence[str] = (), preset: str = "laptop") -> list[str]:
        """A table or figure of the paper, as `ctrobust reproduce NAME --no-run --render markdown` prints it.

        `only` restricts it to cells whose row and column contain each of the texts.
        """
        (part,) = select_cells([experiment(name, preset)], only)
        return render(part, JobIndex(self.store), "markdown").rstrip("\n").split("\n")

    def statements(self, names: Sequence[str], preset: str = "laptop") -> list[str]:
        """What the paper's text states about tables and figures, where something was run that it can be checked on."""
        index, rows, others = JobIndex(self.store), [], Counter[str]()
        for name in names:
            one = experiment(name, preset)
            for result in check_statements(one.statements, measured_values(one, index)):
                if result.known:
                    compared = f"{result.holding} of {result.known}"
                    rows.append([name, result.statement.text, result.verdict, compared])
                else:
                    others[result.verdict] += 1
        left = ", ".join(f"{count} {verdict}" for verdict, count in others.items())
        titles = ["where", "what the text states", "here", "comparisons that hold"]
        return [*_table(titles, rows), *(["", f"Further statements: {left}."] if left else [])]


TABLE_KINDS: dict[str, Callable[..., list[str]]] = {
    "accuracies": RunTables.accuracies,
    "mcnemar": RunTables.mcnemar,
    "thresholds": RunTables.thresholds,
    "collapses": RunTables.collapses,
    "verdicts": RunTables.verdicts,
    "found beyond": RunTables.found_beyond,
    "reproduce": RunTables.reproduced,
    "statements": RunTables.statements,
}
"""Kind of table -> the method of RunTables that makes it."""

TABLE_FIELDS: Mapping[str, Mapping[str, type]] = {
    "accuracies": {"runs": list, "attacks": dict},
    "mcnemar": {"pairs": list, "attacks": dict},
    "thresholds": {"runs": list},
    "collapses": {"runs": list},
    "verdicts": {"runs": list},
    "found beyond": {"runs": list, "first": str, "second": str, "images": int},
    "reproduce": {"name": str, "only": list, "preset": str},
    "statements": {"names": list, "preset": str},
}
"""Kind of table -> its fields and their types; only those of OPTIONAL_FIELDS may be left out."""


OPTIONAL_FIELDS = ("attacks", "only", "preset")
"""The fields of a table that may be left out."""


def _percent(value: float, low: float, high: float) -> str:
    return f"{100 * value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def _limits(one: Evaluation) -> tuple[float, float]:
    return one.interval.low, one.interval.high


def _paired(first: Evaluation | None, second: Evaluation | None) -> str:
    if first is None or second is None:
        return "not run"
    test = mcnemar(first.robust, second.robust)
    return f"{test.b} : {test.c}, p {test.p_value:.2g}"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(titles) + " |",
        "|---" * len(titles) + "|",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]

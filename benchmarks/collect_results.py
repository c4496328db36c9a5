"""Copy finished runs to results/, without checkpoints: specs, metrics, records, weights, outcomes and verdicts.

    python benchmarks/collect_results.py runs/NAME [--name fashion-mdl] [--into results] [--without-weights]

`ctrobust fill docs/results.md` then writes the tables of the page.
"""

import argparse
import shutil
from pathlib import Path

from ctrobust.store import RunDirectory, read_verdicts
from ctrobust.store.verdict_files import verdict_file


def collect(run: RunDirectory, target: Path, *, weights: bool) -> int:
    """Copy a finished run and return the size of the copy in bytes."""
    run.read_record()
    (target / "outcomes").mkdir(parents=True, exist_ok=True)
    for file in (run.spec_file, run.metrics_file, run.record_file, *([run.model_file] if weights else [])):
        shutil.copy(file, target / file.name)
    for verdict in read_verdicts(run):
        file = verdict_file(run, verdict.spec)
        (target / file.parent.name).mkdir(exist_ok=True)
        shutil.copy(file, target / file.parent.name / file.name)
    for one in run.evaluations():
        for file in (one.file, one.file.with_suffix(".json")):
            shutil.copy(file, target / "outcomes" / file.name)
    return sum(file.stat().st_size for file in target.rglob("*") if file.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--name", help="name of the copy, for one run; default: that of its directory")
    parser.add_argument("--into", type=Path, default=Path(__file__).parents[1] / "results")
    parser.add_argument("--without-weights", action="store_true", help="leave the weights out, which are large")
    options = parser.parse_args()
    if options.name and len(options.runs) > 1:
        parser.error("--name is for one run")
    for path in options.runs:
        target = options.into / (options.name or path.resolve().name)
        size = collect(RunDirectory(path), target, weights=not options.without_weights)
        print(f"{target}: {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()

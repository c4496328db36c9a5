"""Full disks, read-only directories and directories that are deleted under a run: exit code 5, and nothing is lost."""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from commands import finish, report, run_command, start

OPTIONS = [
    *("--limit", "480", "--epochs", "4", "--width", "16", "--batch-size", "16"),
    *("--threads", "1", "--checkpoint-seconds", "0"),
]
SIZES = range(600, 3600, 300)  # kilobytes; a checkpoint takes about 850, and there are two and a temporary one


def run(seed: int) -> bool:
    del seed
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        expected = run_command(["train", *OPTIONS, "--out", str(folder / "undisturbed")])
        assert expected.code == 0, expected.err
        weights = (folder / "undisturbed" / "model.safetensors").read_bytes()
        good = _deleted(folder)
        if os.geteuid() != 0:
            print("  full and read-only disks are mounted, which needs root: not run")
            return good
        return all([good, _full(folder, weights), _full_evaluation(folder), _read_only(folder)])


def _mount(folder: Path, *options: str) -> None:
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", *options, str(folder)], check=True)


def _full(folder: Path, weights: bytes) -> bool:
    """Train on disks of several sizes; what is full is emptied by copying the run to another one, where it goes on."""
    stopped = wrong = same = 0
    for size in SIZES:
        disk, roomy = folder / "disk", folder / f"roomy{size}"
        _mount(disk, "-t", "tmpfs", "-o", f"size={size}k", "tmpfs")
        try:
            done = run_command(["train", *OPTIONS, "--out", str(disk / "run")])
            stopped += done.code == 5
            wrong += done.code not in (0, 5) or "internal error" in done.err
            if (disk / "run").exists():
                shutil.copytree(disk / "run", roomy)
        finally:
            subprocess.run(["umount", str(disk)], check=True)
        done = run_command(["train", *OPTIONS, "--out", str(roomy), "--resume"])
        same += done.code == 0 and (roomy / "model.safetensors").read_bytes() == weights
    text = f"{len(SIZES)} disks, {stopped} filled up with exit code 5, {same} resumed elsewhere to identical weights"
    return report("full disk, training", text, good=stopped > 0 and not wrong and same == len(SIZES))


def _full_evaluation(folder: Path) -> bool:
    """Evaluate on disks that the outcomes do not fit on."""
    stopped = wrong = done_after = 0
    source = folder / "undisturbed"
    size = sum(file.stat().st_size for file in source.rglob("*") if file.is_file()) // 1024
    extras = range(4, 44, 4)
    for extra in extras:
        disk = folder / "disk"
        _mount(disk, "-t", "tmpfs", "-o", f"size={size + 64}k", "tmpfs")
        try:
            shutil.copytree(source, disk / "run")
            filler = shutil.disk_usage(disk).free - extra * 1024
            (disk / "filler").write_bytes(bytes(max(filler, 0)))
            words = ["evaluate", str(disk / "run"), "--attack", "pgd:eps=0.1,steps=5", "--threads", "1"]
            done = run_command(words)
            stopped += done.code == 5
            wrong += done.code not in (0, 5) or "internal error" in done.err
            (disk / "filler").unlink()
            done_after += run_command(words).code == 0
        finally:
            subprocess.run(["umount", str(disk)], check=True)
    count = len(extras)
    text = f"{count} disks, {stopped} filled up with exit code 5, {done_after} finished after space was made"
    return report("full disk, evaluation", text, good=stopped > 0 and not wrong and done_after == count)


def _read_only(folder: Path) -> bool:
    """Use a run in a directory that is mounted read-only, and train below one."""
    source, place = folder / "undisturbed", folder / "read-only"
    _mount(place, "--bind", str(source))
    subprocess.run(["mount", "-o", "remount,ro,bind", str(place)], check=True)
    try:
        commands = {
            5: [
                ["evaluate", str(place), "--attack", "fgsm:eps=0.1"],
                ["train", *OPTIONS, "--out", str(place / "other")],
                ["train", *OPTIONS, "--out", str(place)],
            ],
            0: [["show", str(place)]],
        }
        answers = [(code, run_command(words)) for code, lines in commands.items() for words in lines]
    finally:
        subprocess.run(["umount", str(place)], check=True)
    right = [done.code == code and "internal error" not in done.err for code, done in answers]
    return report("read-only directory", f"{len(right)} commands, {sum(right)} answered rightly", good=all(right))


def _deleted(folder: Path) -> bool:
    """Delete the directory of a run while it is trained."""
    codes = []
    for moment in (0.0, 0.3, 0.6):
        run_directory = folder / f"deleted{moment}"
        process = start(["train", *OPTIONS, "--epochs", "40", "--out", str(run_directory)])
        while process.poll() is None and not (run_directory / "checkpoint" / "last.safetensors").exists():
            time.sleep(0.02)
        time.sleep(moment)
        while run_directory.exists() and process.poll() is None:
            shutil.rmtree(run_directory, ignore_errors=True)
        done = finish(process)
        codes.append(5 if done.code == 5 and "internal error" not in done.err else done.code)
    return report("deleted directory", f"{len(codes)} runs ended with the exit codes {codes}", good=set(codes) == {5})

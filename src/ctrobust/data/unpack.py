"""Taking a few expected files out of a .tar.gz, and nothing else: no links, no paths, no surprising sizes."""

import gzip
import shutil
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from ctrobust.data.download import replacing
from ctrobust.errors import DataError

_LARGEST_OTHER = 1 << 20  # of a member that is skipped, such as a read-me


def unpack(archive: Path, folder: Path, members: Mapping[str, int]) -> None:
    """Writes members `folder.name`/NAME of an archive into a folder, each atomically. Files that are there stay.

    Args:
        archive: the .tar.gz.
        folder: where to; it exists, and bears the name that the archive's folder has.
        members: the names of the regular files to take, each with its largest size.

    Raises:
        DataError: the archive is damaged, or a member is missing, too large or no regular file.
        OSError: the archive cannot be opened, or a file not be written.
    """
    missing = set(members)
    try:
        with tarfile.open(archive, mode="r|gz") as tar:
            for member in tar:
                parent, _, name = member.name.rpartition("/")
                expected = parent == folder.name and name in missing
                _check(archive, member, members[name] if expected else _LARGEST_OTHER, expected)
                if expected:
                    missing.discard(name)
                    _write(tar, member, folder / name)
                if not missing:
                    return
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{archive} is not a .tar.gz archive or is damaged ({error})") from error
    names = ", ".join(f"{folder.name}/{name}" for name in sorted(missing))
    raise DataError(f"{archive}: {names} missing")


def _check(archive: Path, member: tarfile.TarInfo, largest: int, expected: bool) -> None:
    if expected and not member.isreg():
        raise DataError(f"{archive}: {member.name} is not a regular file")
    if member.size > largest:
        raise DataError(f"{archive}: {member.name} of {member.size:,} bytes, expected at most {largest:,}")


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    content = tar.extractfile(member)
    if content is None or target.exists():
        return
    with replacing(target) as file:
        shutil.copyfileobj(content, file)

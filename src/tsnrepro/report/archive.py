"""The verification of a deposit: every byte of it, and every table reproduced from its raw data."""

import errno
import gzip
import hashlib
import json
import re
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

import pyarrow.parquet as pq

from tsnrepro.common.counts import plural
from tsnrepro.common.errors import RecordError, printable
from tsnrepro.common.repository import commit, root, short_commit
from tsnrepro.common.temporary import temporary_folder
from tsnrepro.papers.tarball import BROKEN
from tsnrepro.records.files import sha256_of
from tsnrepro.records.integrity import raise_first, verify_run
from tsnrepro.records.store import RUN_FILE, SUMS, open_run
from tsnrepro.records.values import FACTS_FILE, TABLES_FOLDER, VALUES_FILE
from tsnrepro.report.comparison import FileComparison, MatchGrade, compare_files
from tsnrepro.workflow.notebooks import execute

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_CHUNK_BYTES = 1 << 20
_REMEDY = "Download the archive again"
_MAX_SUMS_BYTES = 64 << 20
# Records, tables and figures shrink to a fifth; zeros shrink to a thousandth.
_MAX_UNPACKED_BYTES, _MAX_RATIO = 1 << 30, 100
_MAX_HEADER_BYTES = 1 << 20
_EXTENDED_HEADERS = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)


def verify_archive(archive: Path) -> None:
    """Verify every byte of an archive, reproduce its results, and print the comparison of each.

    Parameters
    ----------
    archive
        An archive from ``snakemake deposit``. It is not changed.

    Raises
    ------
    RecordError
        A file is altered, missing or not listed; a trial is not the one in the list of its run; or
        a reproduced result is different. The message names the file.
    """
    if not archive.is_file():
        raise RecordError("there is no archive", str(archive), "Make it: snakemake deposit")
    has_checksum = _matches_sidecar(archive)
    with temporary_folder() as scratch:
        folder = unpacked(archive, Path(scratch) / "archive")
        if not has_checksum:
            raise RecordError(
                "its files are intact, but its checksum is not that in the .sha256 file",
                str(archive),
                _REMEDY,
            )
        runs = sorted(path.parent for path in (folder / "results").rglob(RUN_FILE))
        if not runs:
            raise RecordError("the archive has no run", str(archive), _REMEDY)
        compared = []
        for number, run in enumerate(runs):
            raise_first(_in_archive(folder, verify_run(run, folder / "data" / "raw")))
            name = run.relative_to(folder)
            print(printable(f"{name}: record sound; reproduced:"), flush=True)
            reproduced = _reproduce(run, folder, Path(scratch) / f"reproduced-{number}")
            for item in _compare(run, reproduced):
                reason = f" ({item.reason})" if item.reason else ""
                print(printable(f"  {item.name}: {item.grade.label}{reason}"), flush=True)
                compared.append((name, item))
        _refuse_different(compared)


def _refuse_different(compared: list[tuple[Path, FileComparison]]) -> None:
    """Print the number of files by grade; raise RecordError for those that are different."""
    counts = Counter(item.grade for _, item in compared)
    grades = ", ".join(f"{counts[grade]} {grade.label}" for grade in MatchGrade)
    files = plural(len(compared), "file")
    print(f"{files} reproduced with commit {short_commit(commit())}: {grades}")
    raise_first(
        [
            RecordError(
                f"the reproduced file is different: {item.reason}",
                f"{name}/{item.name}",
                "Compare the releases: the archive has its code and lock file",
            )
            for name, item in compared
            if item.grade is MatchGrade.DIFFERENT
        ]
    )


# --- bytes ----------------------------------------------------------------------------------------


def _matches_sidecar(archive: Path) -> bool:
    """Print the checksum of an archive; return whether it is that in the .sha256 file, if any."""
    digest = sha256_of(archive)
    print(f"{archive.name}: SHA-256 {digest}")
    sidecar = archive.with_name(f"{archive.name}.sha256")
    return not sidecar.is_file() or sidecar.read_bytes().split()[:1] == [digest.encode()]


def unpacked(archive: Path, target: Path) -> Path:
    """Unpack an archive, verifying the checksum of every file; return its folder.

    Raises
    ------
    RecordError
        A file is altered, missing, not listed, duplicate or not a regular file in the folder of the
        archive, or its name has control characters; the archive is damaged, or much larger than
        archives of records are; or there is no space for it.
    """
    listed: dict[str, str] = {}
    seen: set[str] = set()
    left = max(_MAX_UNPACKED_BYTES, _MAX_RATIO * archive.stat().st_size)
    top, last = "", "its beginning"
    try:
        with (
            gzip.open(archive) as zipped,
            tarfile.open(fileobj=zipped, mode="r|", tarinfo=_BoundedHeader) as opened,
        ):
            for entry in opened:
                first, path = _split(entry, archive)
                last = path
                left -= entry.size
                if left < 0:
                    raise RecordError(
                        "the archive unpacks to more than a hundred times its size",
                        f"{archive}: {entry.name}",
                        "Do not unpack it",
                    )
                if not listed:
                    top, listed = first, _sums(opened, entry, path, archive)
                    continue
                if first != top or path not in listed or path in seen:
                    what = "is duplicate" if path in seen else "is not in its list of checksums"
                    raise RecordError(f"a file of the archive {what}", entry.name, _REMEDY)
                seen.add(path)
                content = opened.extractfile(entry)
                if content is None or _write(content, target / path) != listed[path]:
                    raise RecordError(
                        "the file does not match its checksum: it was altered", path, _REMEDY
                    )
            while rest := zipped.read(_CHUNK_BYTES):  # to verify the checksum at the end
                left -= len(rest)
                if left < 0:
                    raise tarfile.ReadError("it does not end")
    except BROKEN as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise RecordError(
                f"no space to unpack the archive: {error.strerror}",
                str(target),
                "Free space there, or let TMPDIR name another folder",
            ) from error
        raise RecordError(
            f"the archive is damaged at or after {last}: {error}", str(archive), _REMEDY
        ) from error
    if missing := sorted(listed.keys() - seen):
        others = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise RecordError("a file is missing in the archive", f"{missing[0]}{others}", _REMEDY)
    for path in sorted(target.rglob("*.parquet")):
        _check_rows(path, path.relative_to(target).as_posix())
    print(f"{archive.name}: {plural(len(seen), 'file')}, every byte as listed")
    return target


def _check_rows(path: Path, name: str) -> None:
    """Refuse a table with many more cells than its bytes may hold: equal ones take hardly any."""
    try:
        found = pq.read_metadata(path)
    except (OSError, ValueError) as error:
        raise RecordError(f"not a table: {error}"[:300].strip(), name, _REMEDY) from error
    cells_bytes = 8 * found.num_rows * found.num_columns
    if cells_bytes > max(_MAX_UNPACKED_BYTES, _MAX_RATIO * path.stat().st_size):
        raise RecordError(
            f"the table has {found.num_rows} rows in {path.stat().st_size} bytes",
            name,
            "Do not read it",
        )


class _BoundedHeader(tarfile.TarInfo):
    """A member whose header is no longer than paths are, since tarfile reads it into memory."""

    @classmethod
    def frombuf(cls, buf: bytes, encoding: str, errors: str) -> "_BoundedHeader":
        """Return the member that a block describes."""
        found = super().frombuf(buf, encoding, errors)
        if found.type in _EXTENDED_HEADERS and found.size > _MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"a header of {found.size} bytes")
        return found


def _split(entry: tarfile.TarInfo, archive: Path) -> tuple[str, str]:
    """Return the first folder of a member, and its path in that folder."""
    path = PurePosixPath(entry.name)
    if not entry.name.isprintable():
        raise RecordError(
            "a member of the archive has control characters in its name",
            f"{archive}: {entry.name}",
            "Do not unpack it",
        )
    regular = entry.isfile() and not entry.issparse()
    if not regular or path.is_absolute() or ".." in path.parts or len(path.parts) < 2:
        raise RecordError(
            "a member of the archive is not a regular file in its folder",
            f"{archive}: {entry.name}",
            "Do not unpack it",
        )
    return path.parts[0], "/".join(path.parts[1:])


def _sums(
    opened: tarfile.TarFile, entry: tarfile.TarInfo, path: str, archive: Path
) -> dict[str, str]:
    """Return the list of checksums, which is the first member."""
    listed = path == SUMS and entry.size <= _MAX_SUMS_BYTES
    content = opened.extractfile(entry) if listed else None
    lines = content.read().decode(errors="replace").splitlines() if content else []
    found = [_LINE.fullmatch(line) for line in lines]
    if not found or not all(found):
        raise RecordError(
            "not an archive of tsnrepro: it does not begin with a list of checksums",
            str(archive),
            "Make one: snakemake deposit",
        )
    return {match[2]: match[1] for match in found if match}


def _write(content: IO[bytes], path: Path) -> str:
    """Write a file in chunks and return its SHA-256."""
    digest = hashlib.sha256()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as target:
        while chunk := content.read(_CHUNK_BYTES):
            digest.update(chunk)
            target.write(chunk)
    return digest.hexdigest()


def _in_archive(folder: Path, problems: Iterable[RecordError]) -> list[RecordError]:
    """Return problems with paths in the archive instead of the temporary folder."""
    return [
        RecordError(problem.what, problem.where.replace(f"{folder}/", ""), _REMEDY)
        for problem in problems
    ]


# --- reproduced results ---------------------------------------------------------------------------


def _reproduce(run: Path, folder: Path, target: Path) -> Path:
    """Analyse the raw data of a run with the notebook of this repository."""
    store, manifest = open_run(run / RUN_FILE)
    raw = folder / "data" / "raw" / store.testbed / store.campaign / store.experiment
    target.mkdir(parents=True)
    reproduced = target / RUN_FILE
    reproduced.write_text(json.dumps(manifest | {"folder": str(raw)}), encoding="utf-8")
    notebook = root() / "notebooks" / "analyse" / f"{store.experiment}.ipynb"
    execute(notebook, target / "analyse.ipynb", {"run": str(reproduced)})
    return target


def _compare(original: Path, reproduced: Path) -> Iterator[FileComparison]:
    names = {VALUES_FILE, FACTS_FILE}
    for folder in (original, reproduced):
        names |= {f"{TABLES_FOLDER}/{path.name}" for path in (folder / TABLES_FOLDER).glob("*.*")}
    for name in sorted(names):
        yield compare_files(name, original / name, reproduced / name)

"""A deposit checked elsewhere: every byte of it, and every table made again from its raw data."""

import gzip
import hashlib
import json
import re
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from tsnrepro.common.errors import RecordError
from tsnrepro.common.repository import commit, root
from tsnrepro.common.temporary import temporary_folder
from tsnrepro.papers.tarball import BROKEN
from tsnrepro.records.runs import open_run
from tsnrepro.records.seal import RUN_FILE, refuse
from tsnrepro.records.store import SUMS, sha256_of
from tsnrepro.records.values import FACTS_FILE, TABLES_FOLDER, VALUES_FILE
from tsnrepro.records.verify import verified
from tsnrepro.report.comparison import Compared, MatchGrade, compare_files
from tsnrepro.workflow.notebooks import execute

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_PIECE_BYTES = 1 << 20
_REMEDY = "Fetch the archive again from where it was deposited"
_LONGEST_SUMS_BYTES = 64 << 20


def verify_archive(archive: Path) -> None:
    """Check every byte of an archive, make its results again, and print what became of each.

    Parameters
    ----------
    archive
        What ``snakemake deposit`` wrote. Nothing of it is changed.

    Raises
    ------
    RecordError
        A file is altered, missing or not listed; a trial is not the one that its run lists; or a
        result made again is different. The sentence names the file.
    """
    if not archive.is_file():
        raise RecordError("there is no archive", str(archive), "Make it: snakemake deposit")
    expected = _is_as_noted_beside(archive)
    with temporary_folder() as scratch:
        folder = unpacked(archive, Path(scratch) / "archive")
        if not expected:
            raise RecordError(
                "its files are whole, but the archive is not the one whose checksum lies beside it",
                str(archive),
                _REMEDY,
            )
        runs = sorted(path.parent for path in (folder / "results").rglob(RUN_FILE))
        if not runs:
            raise RecordError("the archive holds no run", str(archive), _REMEDY)
        compared = []
        for number, run in enumerate(runs):
            refuse(_inside(folder, verified(run, folder / "data" / "raw")))
            name = run.relative_to(folder)
            print(f"{name}: record sound; made again:", flush=True)
            again = _made_again(run, folder, Path(scratch) / f"again-{number}")
            for item in _compared(run, again):
                _say(item)
                compared.append((name, item))
        _judge(compared)


def _say(item: Compared) -> None:
    reason = f" ({item.reason})" if item.reason else ""
    print(f"  {item.name}: {item.grade.words}{reason}", flush=True)


def _judge(compared: list[tuple[Path, Compared]]) -> None:
    counts = Counter(item.grade for _, item in compared)
    said = ", ".join(f"{counts[grade]} {grade.words}" for grade in MatchGrade)
    print(f"{len(compared)} files made again with commit {commit()[:12]}: {said}")
    refuse(
        [
            RecordError(
                f"made again it is different: {item.reason}",
                f"{name}/{item.name}",
                "Compare the releases of the two: the archive holds its own code and lock",
            )
            for name, item in compared
            if item.grade is MatchGrade.DIFFERENT
        ]
    )


# --- bytes ----------------------------------------------------------------------------------------


def _is_as_noted_beside(archive: Path) -> bool:
    """Print an archive's checksum; tell whether it is the one noted in the file beside it, if any.

    What of it is altered, the look into it says.
    """
    digest = sha256_of(archive)
    print(f"{archive.name}: SHA-256 {digest}")
    sidecar = archive.with_name(f"{archive.name}.sha256")
    return not sidecar.is_file() or sidecar.read_bytes().split()[:1] == [digest.encode()]


def unpacked(archive: Path, target: Path) -> Path:
    """Unpack an archive, holding every file against the list of checksums; return its folder.

    Raises
    ------
    RecordError
        A file is altered, missing, not listed, there twice or no plain file inside the archive's
        folder; or the archive cannot be read to its end.
    """
    listed: dict[str, str] = {}
    seen: set[str] = set()
    top, last = "", "its beginning"
    try:
        with gzip.open(archive) as zipped, tarfile.open(fileobj=zipped, mode="r|") as opened:
            for entry in opened:
                first, place = _place(entry, archive)
                last = place
                if not listed:
                    top, listed = first, _sums(opened, entry, place, archive)
                    continue
                if first != top or place not in listed or place in seen:
                    what = "is there twice" if place in seen else "is not in its list of checksums"
                    raise RecordError(f"a file of the archive {what}", entry.name, _REMEDY)
                seen.add(place)
                content = opened.extractfile(entry)
                if content is None or _written(content, target / place) != listed[place]:
                    raise RecordError(
                        "the file does not match its checksum: it was altered", place, _REMEDY
                    )
            while zipped.read(_PIECE_BYTES):
                pass  # the checksum of the whole stands at its end
    except BROKEN as error:
        raise RecordError(
            f"the archive is damaged at or behind {last}: {error}", str(archive), _REMEDY
        ) from error
    if missing := sorted(listed.keys() - seen):
        others = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise RecordError("a file is missing in the archive", f"{missing[0]}{others}", _REMEDY)
    print(f"{archive.name}: {len(seen)} files, every byte as listed")
    return target


def _place(entry: tarfile.TarInfo, archive: Path) -> tuple[str, str]:
    """Return a member's first folder and its place below it."""
    path = PurePosixPath(entry.name)
    if not entry.isfile() or path.is_absolute() or ".." in path.parts or len(path.parts) < 2:
        raise RecordError(
            "a member of the archive is no plain file inside its folder",
            f"{archive}: {entry.name}",
            "Do not unpack it",
        )
    return path.parts[0], "/".join(path.parts[1:])


def _sums(
    opened: tarfile.TarFile, entry: tarfile.TarInfo, place: str, archive: Path
) -> dict[str, str]:
    """Return the list of checksums, which is the first member."""
    listed = place == SUMS and entry.size <= _LONGEST_SUMS_BYTES
    content = opened.extractfile(entry) if listed else None
    lines = content.read().decode(errors="replace").splitlines() if content else []
    found = [_LINE.fullmatch(line) for line in lines]
    if not found or not all(found):
        raise RecordError(
            "this is no archive of tsnrepro: it does not begin with a list of checksums",
            str(archive),
            "Make one: snakemake deposit",
        )
    return {match[2]: match[1] for match in found if match}


def _written(content: IO[bytes], path: Path) -> str:
    """Write a file piece by piece and return the SHA-256 of what was written."""
    digest = hashlib.sha256()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as target:
        while piece := content.read(_PIECE_BYTES):
            digest.update(piece)
            target.write(piece)
    return digest.hexdigest()


def _inside(folder: Path, problems: Iterable[RecordError]) -> list[RecordError]:
    """Return problems by their place in the archive, not by where it was unpacked."""
    return [
        RecordError(problem.what, problem.where.replace(f"{folder}/", ""), _REMEDY)
        for problem in problems
    ]


# --- results made again ---------------------------------------------------------------------------


def _made_again(run: Path, folder: Path, target: Path) -> Path:
    """Analyse the raw data of a run again with this repository's notebook."""
    store, manifest = open_run(run / RUN_FILE)
    raw = folder / "data" / "raw" / store.testbed / store.campaign / store.experiment
    target.mkdir(parents=True)
    again = target / RUN_FILE
    again.write_text(json.dumps(manifest | {"folder": str(raw)}), encoding="utf-8")
    notebook = root() / "notebooks" / "analyse" / f"{store.experiment}.ipynb"
    execute(notebook, target / "analyse.ipynb", {"run": str(again)})
    return target


def _compared(first: Path, again: Path) -> Iterator[Compared]:
    names = {VALUES_FILE, FACTS_FILE}
    for folder in (first, again):
        names |= {f"{TABLES_FOLDER}/{path.name}" for path in (folder / TABLES_FOLDER).glob("*.*")}
    for name in sorted(names):
        yield compare_files(name, first / name, again / name)

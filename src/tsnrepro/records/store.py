"""The raw store: trials written whole or not at all, never changed, never deleted.

Folders and files::

    ROOT/<testbed>/<campaign>/<experiment>/<trial>/trial.json      factors, commands, counts
                                                  /...             what the tools printed
                                                  /SHA256SUMS      over all of the above
    ROOT/<testbed>/environments/<digest>.json                      facts about the machines
    ROOT/<testbed>/originals/<sha256>/...                          files that an import came from

A trial's name says what it is and carries a digest of its factors and attempt, so the same trial
is found again after an interruption, and a changed campaign measures what is new beside the old.
"""

import ctypes
import gzip
import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from tsnrepro.common.errors import RecordError
from tsnrepro.records.documents import is_file_name, read_object

SUMS = "SHA256SUMS"
DOCUMENT = "trial.json"
PARTIAL_PREFIX = ".partial-"


@dataclass(frozen=True)
class Trial:
    """One measurement that is planned: an experiment's factors and the repetition's number."""

    experiment: str
    label: str
    """Short and readable, for names and progress: ``frer-1472B-500M``."""
    factors: dict[str, Any]
    """All that decides what is measured; equal factors are the same trial."""
    repetition: int
    code: str = ""
    """Of what is computed, not measured: a digest of the code; changed code is another trial."""

    @property
    def digest(self) -> str:
        """SHA-256 (10 hex digits) of experiment, factors, repetition and, where given, code."""
        identity = [self.experiment, self.factors, self.repetition]
        identity += [self.code] if self.code else []
        return hashlib.sha256(canonical(identity)).hexdigest()[:10]

    def name(self, attempt: int) -> str:
        """Return the folder name of the given attempt, counted from 1."""
        return f"{self.label}-r{self.repetition}-{self.digest}-a{attempt}"


class Named(Protocol):
    """What the store needs to know of a trial."""

    def name(self, attempt: int) -> str:
        """Return the folder name of the given attempt, counted from 1."""
        ...


def canonical(value: object) -> bytes:
    """Return the one JSON text that equal values have."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def packed(document: dict[str, Any], outputs: Mapping[str, str | bytes]) -> dict[str, bytes]:
    """Return the files of a trial's folder, the list of their checksums last."""
    files = {name: _encoded(name, output) for name, output in outputs.items()}
    files[DOCUMENT] = json.dumps(document, indent=1, ensure_ascii=False).encode()
    sums = "".join(
        f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items())
    )
    return files | {SUMS: sums.encode()}


class Batch:
    """Records that are written together: all are on the disk before the first has its name.

    One flush of the file system stands for those of every file, which is what makes an import of
    a hundred trials as fast as one. What an interruption leaves has temporary names only.

    Parameters
    ----------
    folder
        A folder of the file system in question; made where missing.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._moves: list[tuple[Path, Path]] = []

    def file(self, final: Path, data: bytes) -> None:
        """Add one file."""
        self._new(final).write_bytes(data)

    def copy(self, final: Path, source: BinaryIO) -> None:
        """Add a copy of an open file."""
        with self._new(final).open("wb") as target:
            while os.sendfile(target.fileno(), source.fileno(), None, 1 << 30):
                pass

    def folder(self, final: Path, files: dict[str, bytes]) -> None:
        """Add a folder of files."""
        partial = _new_partial(final)
        for name, data in files.items():
            with open(f"{partial}/{name}", "wb") as file:
                file.write(data)
        self._moves.append((partial, final))

    def _new(self, final: Path) -> Path:
        final.parent.mkdir(parents=True, exist_ok=True)
        partial = final.with_name(f"{PARTIAL_PREFIX}{final.name}")
        self._moves.append((partial, final))
        return partial

    def commit(self) -> None:
        """Make everything durable and give it its names.

        Raises
        ------
        OSError
            The disk refused; nothing has its name yet.
        """
        _sync_file_system(self._folder)
        for partial, final in self._moves:
            partial.rename(final)
        _sync_file_system(self._folder)
        self._moves.clear()


def is_done(ended: Sequence[str], attempts: int) -> bool:
    """Tell by how its attempts ended whether a trial is done with.

    It is once it was measured, and once it was as steady as it gets in all its attempts.
    """
    return "measured" in ended[-1:] or (len(ended) >= attempts and "unsteady" in ended)


def accepted_attempt(attempts: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return which of a trial's attempts, in their order, counts; None where none does.

    It is the last that was measured or, where none was, the steadiest of those on a machine that
    stood still.
    """
    if measured := [each for each in attempts if each["status"] == "measured"]:
        return measured[-1]
    unsteady = [each for each in attempts if each["status"] == "unsteady"]
    # Records made before attempts were held against each other do not say how unsteady they are.
    return min(unsteady, key=lambda each: each.get("times_limit", math.inf), default=None)


class RawStore:
    """The trials of one run: one experiment on one testbed under one campaign."""

    def __init__(self, root: Path, testbed: str, campaign: str, experiment: str) -> None:
        self.root = root
        self.testbed, self.campaign, self.experiment = testbed, campaign, experiment
        self.folder = root / testbed / campaign / experiment

    # --- writing ------------------------------------------------------------------------------

    def put(
        self,
        trial: Named,
        attempt: int,
        document: dict[str, Any],
        outputs: Mapping[str, str | bytes],
    ) -> Path:
        """Write one trial durably and return its folder.

        ``outputs`` maps a file name to what a tool printed or wrote; a name that ends in ``.gz`` is
        compressed. Until the last step the folder has a temporary name.

        Raises
        ------
        RecordError
            The trial is there already: nothing measured is overwritten.
        """
        final = self.folder / trial.name(attempt)
        if final.exists():
            raise RecordError("this trial is recorded already", str(final))
        partial = _new_partial(final)
        for name, data in packed(document, outputs).items():
            _write(partial / name, data)
        _sync_folder(partial)
        partial.rename(final)
        _sync_folder(self.folder)
        return final

    def put_environment(self, facts: dict[str, Any], batch: Batch | None = None) -> str:
        """Keep the facts about the testbed's machines and return their digest (16 hex digits).

        As part of a batch, they are there when the batch is committed.
        """
        digest = _digest(facts)
        path = self._environment(digest)
        if path.exists():
            return digest
        data = json.dumps(facts, indent=1, ensure_ascii=False).encode()
        if batch is not None:
            batch.file(path, data)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, data)
            _sync_folder(path.parent)
        return digest

    def _environment(self, digest: str) -> Path:
        return self.root / self.testbed / "environments" / f"{digest}.json"

    # --- reading ------------------------------------------------------------------------------

    def environment(self, digest: str) -> dict[str, Any]:
        """Return the facts about the testbed's machines that have a digest.

        Raises
        ------
        RecordError
            They are missing, or others than those that were recorded.
        """
        path = self._environment(digest)
        facts = read_object(path, "the facts of the testbed cannot be read")
        if _digest(facts) != digest:
            raise RecordError(
                "the facts of the testbed do not match their digest: they were altered",
                str(path),
                "Restore the file from a copy",
            )
        return facts

    def attempts(self, trial: Named) -> list[Path]:
        """Return the recorded attempts at a trial, in order."""
        found = []
        while (folder := self.folder / trial.name(len(found) + 1)).is_dir():
            found.append(folder)
        return found

    def ended(self, trial: Named) -> list[str]:
        """Return how each recorded attempt at a trial ended, without a look at checksums."""
        return [str(read_trial(folder).get("status")) for folder in self.attempts(trial)]

    def documents(self) -> Iterator[dict[str, Any]]:
        """Yield the documents of all trials of this run, whatever became of them.

        One is read at a time: a campaign of days records more than it is to hold in memory.
        """
        folders = self.folder.glob(f"*/{DOCUMENT}")
        whole = [path.parent for path in folders if not path.parent.name.startswith(PARTIAL_PREFIX)]
        return map(self.read, sorted(whole))

    def read(self, folder: Path) -> dict[str, Any]:
        """Return a trial's document after checking every file against its checksum.

        The folder's name and the checksum of its list of checksums are added as ``trial`` and
        ``sha256``.

        Raises
        ------
        RecordError
            A file is missing or was altered.
        """
        try:
            sums = (folder / SUMS).read_bytes()
            for name, expected in _listed(sums, folder).items():
                if sha256_of(folder / name) != expected:
                    raise RecordError(
                        "the file does not match its checksum: it was altered",
                        str(folder / name),
                        "Restore it from a copy, or remove the trial's folder to measure it again",
                    )
        except FileNotFoundError as error:
            raise RecordError("a file of the record is missing", str(error.filename)) from error
        except (OSError, ValueError) as error:
            raise RecordError(f"the record cannot be read: {error}", str(folder)) from error
        return read_trial(folder) | {
            "trial": folder.name,
            "sha256": hashlib.sha256(sums).hexdigest(),
        }

    def sha256(self, folder: Path) -> str:
        """Return the checksum of a trial's list of checksums, which stands for the trial."""
        return hashlib.sha256((folder / SUMS).read_bytes()).hexdigest()

    def output_bytes(self, trial: str, name: str) -> bytes:
        """Return what a tool printed during a trial, from its file (``.gz`` is unpacked)."""
        data = (self.folder / trial / name).read_bytes()
        return gzip.decompress(data) if name.endswith(".gz") else data

    @contextmanager
    def opened_output(self, trial: str, name: str) -> Iterator[BinaryIO]:
        """Open what a tool printed, to be read from its beginning (``.gz`` is unpacked)."""
        path = self.folder / trial / name
        with gzip.open(path) if name.endswith(".gz") else path.open("rb") as file:
            yield cast(BinaryIO, file)

    def output(self, trial: str, name: str) -> str:
        """Return what a tool printed during a trial, as text."""
        return self.output_bytes(trial, name).decode()


def read_trial(folder: Path) -> dict[str, Any]:
    """Return the document in a trial's folder, without a look at checksums.

    Raises
    ------
    RecordError
        It is missing or holds something else.
    """
    return read_object(folder / DOCUMENT, "the trial's document cannot be read")


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(facts: dict[str, Any]) -> str:
    return hashlib.sha256(canonical(facts)).hexdigest()[:16]


def _listed(sums: bytes, folder: Path) -> dict[str, str]:
    """Return the checksum of each file that a trial's list of checksums names."""
    *lines, end = sums.decode().split("\n")
    pairs = (line.partition("  ") for line in lines)
    listed = {name: expected for expected, _, name in pairs}
    # A name that leads out of the folder could lead to a device that never ends.
    if end or DOCUMENT not in listed or not all(map(is_file_name, listed)):
        raise RecordError("the list of checksums was altered", str(folder / SUMS))
    return listed


def _new_partial(final: Path) -> Path:
    partial = final.with_name(f"{PARTIAL_PREFIX}{final.name}")
    try:
        partial.mkdir(parents=True)
    except FileExistsError:
        shutil.rmtree(partial)  # what an interruption left is no record
        partial.mkdir()
    return partial


def _encoded(name: str, output: str | bytes) -> bytes:
    data = output.encode() if isinstance(output, str) else output
    # No time stamp in the header: equal output is equal bytes.
    return gzip.compress(data, compresslevel=6, mtime=0) if name.endswith(".gz") else data


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that is there whole or not at all, in the place of an older one.

    Two processes that write it at once do not meet before it is whole.
    """
    partial = path.with_name(f"{PARTIAL_PREFIX}{os.getpid()}-{path.name}")
    _write(partial, data)
    partial.rename(path)


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_file_system(folder: Path) -> None:
    """Wait until all that was written to a folder's file system is on its disk.

    ``syncfs`` is Linux's; unlike ``sync`` it tells of errors (syncfs(2), since Linux 5.8).
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(libc, "syncfs"):
            os.sync()
        elif libc.syncfs(handle):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(folder))
    finally:
        os.close(handle)

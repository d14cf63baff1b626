"""The raw store: trials written whole or not at all, never changed, never deleted.

Folders and files::

    ROOT/<testbed>/<campaign>/<experiment>/<trial>/trial.json      factors, commands, counts
                                                  /...             outputs of the tools
                                                  /SHA256SUMS      over all of the above
    ROOT/<testbed>/environments/<digest>.json                      facts about the hosts
    ROOT/<testbed>/originals/<sha256>/...                          files that an import came from

A trial's name is readable and ends in a digest of its factors and its attempt, so that the same
trial is found again after an interruption, and a changed campaign adds trials beside the old ones.
A *run* is one experiment on one testbed under one campaign; its manifest, ``run.json`` below
results/, lists the trials that count.
"""

import gzip
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar, cast

from tsnrepro.common.errors import RecordError
from tsnrepro.records.files import (
    PARTIAL_PREFIX,
    Batch,
    canonical_json,
    is_file_name,
    new_partial_folder,
    read_json_object,
    sha256_of,
    sync_folder,
    write_and_sync,
    write_atomically,
)

SUMS = "SHA256SUMS"
DOCUMENT = "trial.json"
RUN_FILE = "run.json"

_Attempt = TypeVar("_Attempt")

_MAX_OUTPUT_BYTES, _MAX_RATIO = 64 << 20, 100

SKIPPED = "skipped"
"""Status of an attempt that a user ended: its trial does not count and is not measured again."""
WITHDRAWN = "withdrawn"
"""Status of a record that says why the attempts before it no longer count."""

# Outputs of trials that both writers and readers name.
ARRIVALS = "arrivals.parquet"
"""A listener's log of every datagram; see :func:`tsnrepro.native.streams.log.compress`."""
SOCKPERF_LOG = "sockperf-log.csv.gz"
"""Every half round trip, as logged by sockperf."""
HALF_ROUND_TRIPS = "half-round-trips-ps.npy.gz"
"""Every half round trip of the model: integers in picoseconds, in numpy's format."""
COUNTERS_BEFORE, COUNTERS_AFTER = "counters-before.json.gz", "counters-after.json.gz"
"""Outputs of the counting tools on every host."""
QUEUE_DEPTH = "queue-depth.csv.gz"
"""Largest depth of a queue of the model in each of many spans of time."""


def arrivals_file(stream: int) -> str:
    """Return the name of a listener's log of one of several streams."""
    return f"arrivals-{stream:02d}.parquet"


VARIED = "varied"
"""Factor of trials: the settings of the testbed that their campaign varies, by name."""


@dataclass(frozen=True)
class Trial:
    """One planned measurement: an experiment's factors and the number of the repetition."""

    experiment: str
    label: str
    """Short and readable, for names and progress: ``frer-1472B-500M``."""
    factors: dict[str, Any]
    """All that determines what is measured; equal factors are the same trial."""
    repetition: int
    code: str = ""
    """Digest of the code, for trials that are computed; changed code is another trial."""

    @property
    def digest(self) -> str:
        """SHA-256 (10 hex digits) of experiment, factors, repetition and, where given, code."""
        identity = [self.experiment, self.factors, self.repetition]
        identity += [self.code] if self.code else []
        return hashlib.sha256(canonical_json(identity)).hexdigest()[:10]

    def name(self, attempt: int) -> str:
        """Return the folder name of the given attempt, counted from 1."""
        return f"{self.label}-r{self.repetition}-{self.digest}-a{attempt}"


class NamedTrial(Protocol):
    """A trial as the store needs it."""

    def name(self, attempt: int) -> str:
        """Return the folder name of the given attempt, counted from 1."""
        ...


def trial_files(document: dict[str, Any], outputs: Mapping[str, str | bytes]) -> dict[str, bytes]:
    """Return the files of a trial's folder by name, the list of their checksums last."""
    files = {name: _encoded(name, output) for name, output in outputs.items()}
    files[DOCUMENT] = json.dumps(document, indent=1, ensure_ascii=False).encode()
    sums = "".join(
        f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items())
    )
    return files | {SUMS: sums.encode()}


def is_done(statuses: Sequence[str], attempts: int) -> bool:
    """Return whether a trial needs no further attempt.

    Parameters
    ----------
    statuses
        Status of each recorded attempt, in order.
    attempts
        Most attempts at a trial. After these an unsteady trial is done as well.
    """
    statuses = standing(statuses, str)
    last = statuses[-1] if statuses else ""
    return last in ("measured", SKIPPED) or (len(statuses) >= attempts and "unsteady" in statuses)


def standing(attempts: Sequence[_Attempt], status: Callable[[_Attempt], str]) -> list[_Attempt]:
    """Return the attempts at a trial since the last :data:`WITHDRAWN` one: the others are void."""
    kept: list[_Attempt] = []
    for each in attempts:
        kept = [] if status(each) == WITHDRAWN else [*kept, each]
    return kept


def accepted_attempt(attempts: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the attempt at a trial that counts, of all in order; None if none does.

    It is the last measured one or, where there is none, the steadiest of the unsteady ones. None
    counts of a trial that was skipped, and none that was withdrawn.
    """
    attempts = standing(attempts, lambda each: each["status"])
    if attempts and attempts[-1]["status"] == SKIPPED:
        return None
    if measured := [each for each in attempts if each["status"] == "measured"]:
        return measured[-1]
    unsteady = [each for each in attempts if each["status"] == "unsteady"]
    # Older records do not contain how unsteady an attempt was.
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
        trial: NamedTrial,
        attempt: int,
        document: dict[str, Any],
        outputs: Mapping[str, str | bytes],
    ) -> Path:
        """Write one trial durably and return its folder.

        ``outputs`` maps file names to outputs of tools; those whose name ends in ``.gz`` are
        compressed. The folder has a temporary name until it is complete.

        Raises RecordError if the trial exists already, as nothing measured is overwritten,
        or cannot be written, as on a full disk.
        """
        final = self.folder / trial.name(attempt)
        if final.exists():
            raise RecordError("this trial is recorded already", str(final))
        try:
            partial = new_partial_folder(final)
            for name, data in trial_files(document, outputs).items():
                write_and_sync(partial / name, data)
            sync_folder(partial)
            partial.rename(final)
            sync_folder(self.folder)
        except OSError as error:
            raise RecordError(
                f"the trial cannot be recorded: {error.strerror or error}",
                str(final),
                "Free space or grant write access there, and run this again: all trials before it "
                "are recorded",
            ) from error
        return final

    def put_environment(self, facts: dict[str, Any], batch: Batch | None = None) -> str:
        """Write the facts about the testbed's hosts and return their digest (16 hex digits).

        As part of a batch, they are written when the batch is committed.
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
            write_atomically(path, data)
            sync_folder(path.parent)
        return digest

    def _environment(self, digest: str) -> Path:
        return self.root / self.testbed / "environments" / f"{digest}.json"

    # --- reading ------------------------------------------------------------------------------

    def environment(self, digest: str) -> dict[str, Any]:
        """Return the facts about the testbed's hosts that have a digest.

        Raises RecordError if they are missing or were altered.
        """
        if not is_file_name(digest):
            raise RecordError("the digest of the testbed's facts was altered", str(self.folder))
        path = self._environment(digest)
        facts = read_json_object(path, "the facts of the testbed cannot be read")
        if _digest(facts) != digest:
            raise RecordError(
                "the facts of the testbed do not match their digest: they were altered",
                str(path),
                "Restore the file from a copy",
            )
        return facts

    def attempts(self, trial: NamedTrial) -> list[Path]:
        """Return the folders of the recorded attempts at a trial, in order."""
        found = []
        while (folder := self.folder / trial.name(len(found) + 1)).is_dir():
            found.append(folder)
        return found

    def attempt_statuses(self, trial: NamedTrial) -> list[str]:
        """Return the status of each recorded attempt at a trial; checksums are not verified."""
        return [str(read_trial(folder).get("status")) for folder in self.attempts(trial)]

    def documents(self) -> Iterator[dict[str, Any]]:
        """Yield the documents of all trials of this run, whatever their status.

        One is read at a time: those of a long campaign do not fit into memory together.
        """
        folders = self.folder.glob(f"*/{DOCUMENT}")
        whole = [path.parent for path in folders if not path.parent.name.startswith(PARTIAL_PREFIX)]
        return map(self.read, sorted(whole))

    def read(self, folder: Path) -> dict[str, Any]:
        """Return a trial's document after checking every file against its checksum.

        The folder's name and the checksum of its list of checksums are added as ``trial`` and
        ``sha256``.

        Raises RecordError if a file is missing or was altered.
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
        """Return an output of a trial (``.gz`` is decompressed).

        Raises RecordError if it is decompressed to much more than any output.
        """
        path = self.folder / trial / name
        if not name.endswith(".gz"):
            return path.read_bytes()
        most = max(_MAX_OUTPUT_BYTES, _MAX_RATIO * path.stat().st_size)
        with gzip.open(path) as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise RecordError(
                "the output is decompressed to over a hundred times its size", str(path)
            )
        return data

    @contextmanager
    def open_output(self, trial: str, name: str) -> Iterator[BinaryIO]:
        """Open an output of a trial for reading (``.gz`` is decompressed)."""
        path = self.folder / trial / name
        with gzip.open(path) if name.endswith(".gz") else path.open("rb") as file:
            yield cast(BinaryIO, file)

    def output(self, trial: str, name: str) -> str:
        """Return an output of a trial as text."""
        return self.output_bytes(trial, name).decode()


def read_trial(folder: Path) -> dict[str, Any]:
    """Return the document in a trial's folder; checksums are not verified.

    Raises RecordError if it is missing or not a JSON object.
    """
    return read_json_object(folder / DOCUMENT, "the trial's document cannot be read")


def _digest(facts: dict[str, Any]) -> str:
    return hashlib.sha256(canonical_json(facts)).hexdigest()[:16]


def _listed(sums: bytes, folder: Path) -> dict[str, str]:
    """Return the checksum of each file in a trial's list of checksums."""
    *lines, end = sums.decode().split("\n")
    pairs = (line.partition("  ") for line in lines)
    listed = {name: expected for expected, _, name in pairs}
    # A name that leads out of the folder could lead to a device that never ends.
    if end or DOCUMENT not in listed or not all(map(is_file_name, listed)):
        raise RecordError("the list of checksums was altered", str(folder / SUMS))
    return listed


def _encoded(name: str, output: str | bytes) -> bytes:
    data = output.encode() if isinstance(output, str) else output
    # No time stamp in the header: equal output is equal bytes.
    return gzip.compress(data, compresslevel=6, mtime=0) if name.endswith(".gz") else data


# --- runs -------------------------------------------------------------------------------------


def open_run(manifest_path: str | Path) -> tuple[RawStore, dict[str, Any]]:
    """Return the store and the manifest of a run.

    Raises RecordError if the manifest is missing or not one.
    """
    path = Path(manifest_path)
    what, remedy = "this is not a run's manifest", "Remove it, and it is written again"
    if not path.is_file():
        raise RecordError("no such run", str(path), "Measure it first: snakemake --cores 4")
    manifest = read_json_object(path, what, remedy)
    try:
        root = (path.parent / manifest["folder"]).resolve().parents[2]
        names = [manifest[key] for key in ("testbed", "campaign", "experiment")]
        lists = [manifest["trials"], manifest.get("failed_attempts", [])]
    except (OSError, ValueError, KeyError, TypeError, IndexError, RuntimeError) as error:
        raise RecordError(f"{what}: {error!r}", str(path), remedy) from error
    optional = [manifest["environment"]] if manifest.get("environment") is not None else []
    invalid = [name for name in (*names, *optional, *root.parts[1:]) if not is_file_name(name)]
    if invalid:
        raise RecordError(f"{what}: invalid name {invalid[0]!r:.40}", str(path), remedy)
    if not all(isinstance(listed, list) for listed in lists):
        raise RecordError(f"{what}: its trials are not a list", str(path), remedy)
    if not all(_is_named(entry) for listed in lists for entry in listed) or not all(
        isinstance(entry.get("sha256"), str) for entry in lists[0]
    ):
        raise RecordError("a trial of the run has no name or no checksum", str(path), remedy)
    return RawStore(root, *names), manifest


def _is_named(entry: object) -> bool:
    return isinstance(entry, dict) and is_file_name(entry.get("trial"))


def recorded_trials(manifest_path: str | Path) -> Iterator[dict[str, Any]]:
    """Yield the document of each trial that a manifest lists, checked against its checksums.

    Raises RecordError if a trial is missing or was altered.
    """
    store, manifest = open_run(manifest_path)
    for entry in manifest["trials"]:
        yield read_listed_trial(store, entry)


def read_listed_trial(store: RawStore, entry: dict[str, Any]) -> dict[str, Any]:
    """Return the document of a trial in a manifest, checked against its checksums and the run's.

    Raises RecordError if the trial is missing, was altered, or is another.
    """
    folder = store.folder / entry["trial"]
    document = store.read(folder)
    if document["sha256"] != entry["sha256"]:
        raise RecordError("the trial is not the one that the run lists", str(folder))
    return document

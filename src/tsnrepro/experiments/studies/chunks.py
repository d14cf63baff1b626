"""Chunks of a study: computed by jobs or local processes, checked, collected into one table.

    FOLDER/chunks/00000.json ...     rows of some consecutive points, one file per job
           study.csv, study.parquet  all rows, in the order of the points

They contain no times, hosts or paths, so that every machine writes the same bytes.
"""

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tsnrepro.common.errors import ConfigurationError, RecordError
from tsnrepro.experiments.studies.study import Study, load_study
from tsnrepro.records.files import PARTIAL_PREFIX, write_atomically


def chunk_files(name: str) -> list[str]:
    """Return the paths of all chunks of a study of config/studies, for the workflow.

    Raises
    ------
    ConfigurationError
        There is no such study, or its file is invalid.
    """
    study = load_study(f"config/studies/{name}.yaml")
    folder = Path("results/studies") / name
    return [str(chunk_path(folder, number)) for number in range(study.chunk_count())]


def results_of_study(name: str | None) -> list[str]:
    """Return the final outputs of a study: its table, or values and figures for papers.

    Papers use studies whose name begins with ``threshold``. Without a name there are none.
    """
    if name is None:
        return []
    analysed = ["values.json", "figures", "study.sha256"]
    parts = analysed if name.startswith("threshold") else ["study.parquet"]
    return [f"results/studies/{name}/{part}" for part in parts]


def notebook_of(name: str) -> str:
    """Return the notebook that analyses a study of config/studies, by its kind of measure.

    Raises
    ------
    ConfigurationError
        There is no such study, or its file is invalid.
    """
    study = load_study(f"config/studies/{name}.yaml")
    return f"notebooks/analyse/{study.measure.kind}-study.ipynb"


def chunk_path(folder: Path, number: int) -> Path:
    """Return the path of a chunk in its study's folder."""
    return folder / "chunks" / f"{number:05d}.json"


def code_digest() -> str:
    """Return a checksum of the sources that a point's row depends on: the model's and a study's."""
    from tsnrepro.model.compiled import SOURCE_DIGEST  # noqa: PLC0415 - numba takes a second

    digest = hashlib.sha256(f"{SOURCE_DIGEST:x}".encode())
    for name in ("study", "scenario", "measures"):
        digest.update(Path(__file__).with_name(f"{name}.py").read_bytes())
    return digest.hexdigest()


def compute_chunk(study: Study, number: int) -> dict[str, Any]:
    """Return the rows of a chunk's points, with checksums of the study and the code."""
    # Numba takes a second.
    from tsnrepro.experiments.studies.measures import measure_point  # noqa: PLC0415

    rows = [measure_point(study, point) for point in study.chunk(number)]
    return {
        "study_sha256": study.sha256,
        "code_sha256": code_digest(),
        "chunk": number,
        "rows": rows,
    }


def write_chunk(study: Study, number: int, target: Path) -> None:
    """Compute a chunk and write it atomically: a job may be killed at any time."""
    text = json.dumps(compute_chunk(study, number), indent=1, allow_nan=False) + "\n"
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, text.encode())


def _read_rows(study: Study, folder: Path) -> list[dict[str, Any]]:
    """Return the rows of all chunks below a folder, in the order of the points.

    Raises
    ------
    RecordError
        A chunk is missing, truncated, or of another version of the study file or the code.
    """
    rows: list[dict[str, Any]] = []
    digests: dict[str, Path] = {}
    for number in range(study.chunk_count()):
        path = chunk_path(folder, number)
        document = read_chunk(study, path, number)
        digests.setdefault(document["code_sha256"], path)
        rows += document["rows"]
    if len(digests) > 1:
        paths = " and ".join(str(path) for path in digests.values())
        raise RecordError("chunks were computed by different versions of the code", paths, _REMEDY)
    return rows


_REMEDY = "Remove it, and it is computed again"


def read_chunk(study: Study, path: Path, number: int) -> dict[str, Any]:
    """Return a chunk as it was written.

    Raises
    ------
    RecordError
        It is missing, truncated, or of another version of the study file.
    """
    if not path.is_file():
        raise RecordError(
            "a chunk of the study is missing", str(path), "Compute it: tsnrepro study run"
        )
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        found = {key: document[key] for key in ("study_sha256", "code_sha256", "rows")}
        numbers = [row["point"] for row in found["rows"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RecordError(f"not a chunk of a study: {error!r:.200}", str(path), _REMEDY) from error
    if found["study_sha256"] != study.sha256:
        raise RecordError(
            "the chunk was computed for another version of the study file", str(path), _REMEDY
        )
    if numbers != (expected := [point.number for point in study.chunk(number)]):
        raise RecordError(
            f"the chunk does not have points {expected[0]} to {expected[-1]}", str(path), _REMEDY
        )
    return found


def collect(study: Study, folder: Path) -> int:
    """Write study.csv and study.parquet from the chunks; return the number of rows.

    Raises
    ------
    RecordError
        As :func:`_read_rows`.
    """
    import pandas as pd  # noqa: PLC0415 - half a second that a chunk's job does not need

    table = pd.DataFrame(_read_rows(study, folder))
    # Otherwise the type of a column without any value would differ between studies.
    for name in ("threshold_mbps", "threshold_kpps", "loss_percent"):
        if name in table:
            table[name] = table[name].astype(float)
    write_atomically(folder / "study.csv", table.to_csv(index=False, lineterminator="\n").encode())
    partial = folder / f"{PARTIAL_PREFIX}study.parquet"
    table.to_parquet(partial, index=False)
    partial.replace(folder / "study.parquet")
    return len(table)


# --- on one machine ---------------------------------------------------------------------------


def compile_model(target: Path) -> None:
    """Compile the model into numba's cache, and write its digest."""
    from tsnrepro.model.compiled import SOURCE_DIGEST  # noqa: PLC0415 - numba takes a second
    from tsnrepro.model.engine import warm_up  # noqa: PLC0415

    warm_up()
    target.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(target, f"{SOURCE_DIGEST:014x}\n".encode())


def run_locally(study: Study, folder: Path, processes: int) -> Iterator[int]:
    """Compute the missing chunks in local processes; yield the number of points of each chunk.

    Existing chunks are used, as after an interruption.

    Raises
    ------
    ConfigurationError
        Fewer than one process.
    """
    if processes < 1:
        raise ConfigurationError(
            f"{processes} processes cannot compute", "--jobs", "Give 1 or more"
        )
    missing = []
    for number in range(study.chunk_count()):
        if is_computed(study, folder, number):
            yield len(study.chunk(number))
        else:
            missing.append(number)
    if not missing:
        return
    # Fresh processes: a fork would inherit the threads of the parent's libraries.
    context = get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(missing)), mp_context=context) as pool:
        started = {
            pool.submit(write_chunk, study, number, chunk_path(folder, number)): number
            for number in missing
        }
        for done in as_completed(started):
            done.result()
            yield len(study.chunk(started[done]))


def is_computed(study: Study, folder: Path, number: int) -> bool:
    """Return whether a chunk exists, complete, of this version of the study file and the code."""
    try:
        document = read_chunk(study, chunk_path(folder, number), number)
    except RecordError:
        return False
    return document["code_sha256"] == code_digest()

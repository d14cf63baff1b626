"""A study's results on disk: one small file a job, and the table that they make together.

    FOLDER/chunks/00000.json ...   the rows of so many points, as each job computed them
           study.csv, study.parquet  all rows, in the order of the points

No time, host or path is in any of them: whoever computes a study writes the same bytes.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from tsnrepro.common.errors import RecordError
from tsnrepro.studies.study import Study, load_study


def chunk_files(name: str) -> list[str]:
    """Return the files of all jobs of a study of config/studies, as the workflow names them.

    Raises
    ------
    ConfigurationError
        There is no such study, or its file is none.
    """
    study = load_study(f"config/studies/{name}.yaml")
    folder = Path("results/studies") / name
    return [str(chunk_path(folder, number)) for number in range(study.chunk_count())]


def results_of_study(name: str | None) -> list[str]:
    """Return what a study ends in, as the workflow names it: its table, or what a paper prints.

    Papers print studies whose name begins with ``threshold``. Without a name there is none.
    """
    if name is None:
        return []
    parts = ["values.json", "figures"] if name.startswith("threshold") else ["study.parquet"]
    return [f"results/studies/{name}/{part}" for part in parts]


def notebook_of(name: str) -> str:
    """Return the notebook that analyses a study of config/studies: one for each kind of measure.

    Raises
    ------
    ConfigurationError
        There is no such study, or its file is none.
    """
    study = load_study(f"config/studies/{name}.yaml")
    return f"notebooks/analyse/{study.measure.kind}-study.ipynb"


def chunk_path(folder: Path, number: int) -> Path:
    """Return where a chunk lies below its study's folder."""
    return folder / "chunks" / f"{number:05d}.json"


def code_digest() -> str:
    """Return a checksum of the sources that a point's row depends on: the model and this room's."""
    from tsnrepro.model.compiled import SOURCE_DIGEST  # noqa: PLC0415 - numba takes a second

    digest = hashlib.sha256(f"{SOURCE_DIGEST:x}".encode())
    for name in ("study", "scenario", "measures"):
        digest.update(Path(__file__).with_name(f"{name}.py").read_bytes())
    return digest.hexdigest()


def compute_chunk(study: Study, number: int) -> dict[str, Any]:
    """Return what one job computes: the rows of its points and what they rest on."""
    from tsnrepro.studies.measures import measure_point  # noqa: PLC0415 - numba takes a second

    rows = [measure_point(study, point) for point in study.chunk(number)]
    return {
        "study_sha256": study.sha256,
        "code_sha256": code_digest(),
        "chunk": number,
        "rows": rows,
    }


def write_chunk(study: Study, number: int, target: Path) -> None:
    """Compute a chunk and write it, whole or not at all: a job may be killed at any time."""
    text = json.dumps(compute_chunk(study, number), indent=1, allow_nan=False) + "\n"
    replace_text(target, text)


def replace_text(target: Path, text: str) -> None:
    """Write a file under another name first, then rename it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _read_rows(study: Study, folder: Path) -> list[dict[str, Any]]:
    """Return the rows of all chunks below a folder, in the order of the points.

    Raises
    ------
    RecordError
        A chunk is missing, was cut, or is of another study file or another state of the code.
    """
    rows: list[dict[str, Any]] = []
    digests: dict[str, Path] = {}
    for number in range(study.chunk_count()):
        path = chunk_path(folder, number)
        document = read_chunk(study, path, number)
        digests.setdefault(document["code_sha256"], path)
        rows += document["rows"]
    if len(digests) > 1:
        places = " and ".join(str(path) for path in digests.values())
        raise RecordError("chunks were computed by different states of the code", places, _AGAIN)
    return rows


_AGAIN = "Remove it and have it computed again"


def read_chunk(study: Study, path: Path, number: int) -> dict[str, Any]:
    """Return a chunk as it was written.

    Raises
    ------
    RecordError
        It is missing, was cut, or is of another study file.
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
        raise RecordError(f"not a chunk of a study: {error!r:.200}", str(path), _AGAIN) from error
    if found["study_sha256"] != study.sha256:
        raise RecordError(
            "the chunk was computed for another state of the study file", str(path), _AGAIN
        )
    if numbers != (expected := [point.number for point in study.chunk(number)]):
        raise RecordError(
            f"the chunk does not hold points {expected[0]} to {expected[-1]}", str(path), _AGAIN
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
    # A column without any value would else be of no type in one study and of numbers in the next.
    for name in ("threshold_mbps", "threshold_kpps", "loss_percent"):
        if name in table:
            table[name] = table[name].astype(float)
    replace_text(folder / "study.csv", table.to_csv(index=False, lineterminator="\n"))
    partial = folder / ".study.parquet"
    table.to_parquet(partial, index=False)
    partial.replace(folder / "study.parquet")
    return len(table)

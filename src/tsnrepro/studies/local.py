"""A study on one machine without Snakemake, and the compilation that comes before many jobs."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from tsnrepro.common.errors import ConfigurationError, RecordError
from tsnrepro.studies.chunks import chunk_path, code_digest, read_chunk, replace_text, write_chunk
from tsnrepro.studies.study import Study


def compile_model(target: Path) -> None:
    """Compile and store the model, and write its digest."""
    from tsnrepro.model.compiled import SOURCE_DIGEST  # noqa: PLC0415 - numba takes a second
    from tsnrepro.model.engine import warm_up  # noqa: PLC0415

    warm_up()
    replace_text(target, f"{SOURCE_DIGEST:014x}\n")


def run_here(study: Study, folder: Path, processes: int) -> Iterator[int]:
    """Compute the chunks that are missing; yield how many points each of them had.

    Chunks that are there already are taken, as after an interruption.

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
    # A fresh process for each: a fork would carry threads of the parent's libraries along.
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
    """Tell whether a chunk is there, whole, of this study file and of this state of the code."""
    try:
        document = read_chunk(study, chunk_path(folder, number), number)
    except RecordError:
        return False
    return document["code_sha256"] == code_digest()

r"""The generated inputs of a manuscript: values as LaTeX macros, tables, and provenance.

``values.tex`` and ``published.tex`` set fields that the commands of ``paper/tsnrepro.sty`` print::

    \tsnset{tcp.goodput.frer.mbps}{print}{937.8}

so that ``\val{tcp.goodput.frer.mbps}`` stands where a number would.
"""

import shutil
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tsnrepro.common.code_digest import code_digest
from tsnrepro.common.errors import PublishError, TsnreproError
from tsnrepro.common.latex import escape
from tsnrepro.common.repository import short_commit
from tsnrepro.config.papers import sources_of
from tsnrepro.config.registry import MODEL, experiment
from tsnrepro.papers.columns import COMMIT, STUDY, Column, Columns
from tsnrepro.papers.manuscript import Used, check_known, scan, scan_text
from tsnrepro.papers.provenance import Made, PrintedFile, Provenance, unit
from tsnrepro.papers.tables import (
    LOSS_PAYLOADS,
    LOSS_PHASES,
    LOSS_ROWS,
    LOSS_SUMMARY,
    PAYLOAD_ROWS,
    SWEEP_ROWS,
    load_loss_payloads,
    load_loss_phases,
    load_loss_summary,
    loss_rows,
    payload_rows,
    published_lengths,
    published_loss,
    sweep_rows,
)
from tsnrepro.published import documents as published
from tsnrepro.published.tables import Cell
from tsnrepro.records.runs import open_run
from tsnrepro.records.seal import RUN_FILE
from tsnrepro.records.store import sha256_of
from tsnrepro.records.values import Result
from tsnrepro.results import numbers
from tsnrepro.results.numbers import TEX

# What a calculation in the manuscript meets where nothing is known: Lua's word for it.
_NOTHING = "nil"


def write_paper_inputs(
    manuscript: Path,
    output: Path,
    columns: Columns,
    verdicts: Path | None = None,
) -> None:
    """Write everything of a manuscript that is generated, and bring its figures beside it.

    Parameters
    ----------
    manuscript
        Folder with the hand-written LaTeX. Its sources name the published document that cells of
        three parts (``table/row/column``) belong to.
    output
        Folder for ``values.tex``, ``published.tex``, ``provenance.tex``, ``provenance.json``,
        ``verdicts.tex``, ``tables/`` and ``figures/``; made where missing.
    columns
        The runs whose values and figures it prints.
    verdicts
        The audit's macros; without them the manuscript prints no verdicts.

    Raises
    ------
    PublishError
        A value, cell or figure that the manuscript names is neither there nor promised by an
        experiment; the message says where it is named.

    """
    sources = sources_of(manuscript.name)
    document = sources.document
    columns = columns.declaring(sources.columns, sources.optional_columns)
    values = columns.values()
    used = scan(manuscript)
    tables = _tables(used, columns, document)
    for name, text in tables.items():
        scan_text(text, name, used)
    for key in used.measured:
        if key not in values and (empty := columns.unmeasured(key)):
            values[key] = empty
    check_known(used.measured, values, "measured value")
    cells = _cells(used, document)
    measured = {key: values[key] for key in sorted(used.measured) if not columns.lack(key)}
    provenance = Provenance(
        commit=_commit(values),
        commits=columns.commits(measured.values()),
        measured=measured,
        published=cells,
        files=(*_figures(used, columns, output), *_table_files(used, columns)),
        places=used.measured | used.published,
        columns=tuple(columns.names),
    )
    if verdicts is not None:
        tables["verdicts.tex"] = verdicts.read_text(encoding="utf-8")
    for name, text in {
        "values.tex": "".join(_value_lines(values.values())),
        "published.tex": "".join(_cell_lines(cells)),
        "provenance.tex": provenance.as_tex(),
        "provenance.json": provenance.as_json(),
        **tables,
    }.items():
        path = output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _cells(used: Used, document: str) -> dict[str, Cell]:
    """Return the cells that keys name: ``table/row/column``, or with a document before it."""
    tables, found = published.catalog(), {}
    for key, places in sorted(used.published.items()):
        where = ", ".join(places)
        if key.count("/") not in (2, 3):
            raise PublishError(f"'{key}' is no published cell: write table/row/column", where)
        try:
            found[key] = tables.cell(key if key.count("/") == 3 else f"{document}/{key}")
        except TsnreproError as error:
            raise PublishError(f"{error.what}. {error.remedy}", where) from error
    return found


def _tables(used: Used, columns: Columns, document: str) -> dict[str, str]:
    """Return the text of the generated tables that the manuscript inputs, by file."""
    check_known(used.tables, [LOSS_ROWS, SWEEP_ROWS, PAYLOAD_ROWS], "generated table")
    if not used.tables:
        return {}
    runs = [column.runs.get("loss") for column in columns.columns]
    first, *others = [load_loss_summary(loss) if loss else [] for loss in runs]
    phases, *other_phases = [load_loss_phases(loss) if loss else [] for loss in runs]
    found = {}
    if LOSS_ROWS in used.tables:
        lengths = published_lengths(document)
        found[LOSS_ROWS] = loss_rows(first, published_loss(document), phases, lengths)
    if SWEEP_ROWS in used.tables:
        beside = others and not _of_model(columns.columns[0])
        simulated = (others[0], other_phases[0]) if beside else (None, ())
        found[SWEEP_ROWS] = sweep_rows(first, simulated[0], document, phases, simulated[1])
    if PAYLOAD_ROWS in used.tables:
        found[PAYLOAD_ROWS] = payload_rows(load_loss_payloads(runs[0]) if runs[0] else [])
    return found


def _of_model(column: Column) -> bool:
    """Tell whether a column is the model's: what is simulated has no second column beside it."""
    kind = column.values().get("testbed.kind")
    return kind is not None and kind.value == MODEL


def _table_files(used: Used, columns: Columns) -> Iterator[PrintedFile]:
    """Yield the tables of results that generated tables were made from."""
    for number, column in enumerate(columns.columns):
        loss = column.runs.get("loss")
        files = []
        if SWEEP_ROWS in used.tables or (LOSS_ROWS in used.tables and not number):
            files += [LOSS_SUMMARY, LOSS_PHASES]
        if PAYLOAD_ROWS in used.tables and not number:
            files.append(LOSS_PAYLOADS)
        for file in files:
            if loss and (loss / file).is_file():
                prefix = f"{column.name}/" if number else ""
                yield PrintedFile(f"{prefix}loss/{file}", sha256_of(loss / file), _made(loss))


def _commit(values: dict[str, Result]) -> str:
    commit = values.get(COMMIT)
    if commit is None or not isinstance(commit.value, str):
        raise PublishError(f"the values lack '{COMMIT}'", "testbed.json")
    return commit.value


def _figures(used: Used, columns: Columns, output: Path) -> list[PrintedFile]:
    """Copy the figures that a manuscript prints beside it, and return them with checksums.

    The folder holds no others, so that what is not measured any more is not printed either.
    """
    folder = output / "figures"
    shutil.rmtree(folder, ignore_errors=True)
    there = dict(columns.files())
    # Of a run many figures are printed.
    made = cache(_made)
    printed = []
    for name, places in sorted(used.files.items()):
        if name not in there:
            if columns.declares_figure(name):
                continue  # the manuscript says in its place that it was not measured
            check_known({name: places}, there, "figure")
        target = folder / f"{name}.pdf"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(there[name], target)
        printed.append(
            PrintedFile(f"{name}.pdf", sha256_of(target), made(there[name].parent.parent))
        )
    return printed


def _made(folder: Path) -> Made:
    """Return what the files of an analysed run, or of a study, were made by."""
    run = folder / RUN_FILE
    if not run.is_file():
        return _made_of_study(folder)
    _, listed = open_run(run)
    program = experiment(listed["experiment"]).analysing_notebook
    return Made(
        rule="analyse",
        program=program,
        code=code_digest(program),
        experiment=listed["experiment"],
        trials=len(listed["trials"]),
        run=sha256_of(run),
    )


def _made_of_study(folder: Path) -> Made:
    program = "notebooks/analyse/threshold-study.ipynb"
    table = folder / "study.csv"
    # The table has its columns' names in the first line, and a line a search.
    searches = table.read_bytes().count(b"\n") - 1 if table.is_file() else 0
    return Made(
        rule="analyse_study",
        program=program,
        code=code_digest(program),
        experiment=f"{STUDY} {folder.name}",
        trials=searches,
        run=sha256_of(table) if table.is_file() else "",
    )


def _lines(key: str, fields: dict[str, str]) -> Iterator[str]:
    for field, text in fields.items():
        yield f"\\tsnset{{{key}}}{{{field}}}{{{text}}}\n"


def _value_lines(values) -> Iterator[str]:
    for item in values:
        yield from _lines(item.key, _value_fields(item))


def _value_fields(item: Result) -> dict[str, str]:
    if isinstance(item.value, str):
        word = escape(short_commit(item.value) if item.key == COMMIT else item.value)
        fields = dict.fromkeys(("print", "interval", "raw"), word)
        fields |= dict.fromkeys(("lo", "hi", "bounds"), TEX.unknown)
        return fields | {"unit": "", "decimals": "0", "rawlo": _NOTHING, "rawhi": _NOTHING}
    digits = item.digits
    how = {"signed": item.signed, "seen": item.is_range}
    # No sentence may decide by values that happened to be seen.
    low, high = (item.low, item.high) if item.decides else (None, None)

    def shown(value: float | None) -> str:
        return numbers.number(value, digits, TEX, signed=item.signed)

    return {
        "print": shown(item.value),
        "lo": shown(item.low),
        "hi": shown(item.high),
        "bounds": numbers.limits(item.low, item.high, digits, TEX, **how),
        "interval": numbers.estimate(item, TEX),
        "unit": unit(item.unit),
        "decimals": str(0 if item.value is None else digits),
        "raw": _raw(item.value),
        "rawlo": _raw(low),
        "rawhi": _raw(high),
    }


def _raw(value: float | None) -> str:
    if value is None:
        return _NOTHING
    # In Lua two minus signs in a row begin a comment.
    return f"({value!r})" if value < 0 else repr(value)


def _cell_lines(cells: Mapping[str, Cell]) -> Iterator[str]:
    for key, cell in cells.items():
        text, value = cell.printed, cell.value
        fields = {
            "print": numbers.printed(escape(text), cell.qualifier, TEX),
            "unit": unit("" if cell.unit == "1" else cell.unit),
            "decimals": str(len(text.partition(".")[2])),
            # Truth values and words calculate as little as in measured values.
            "raw": escape(text) if isinstance(value, str | bool) else _raw(value),
        }
        yield from _lines(key, fields)

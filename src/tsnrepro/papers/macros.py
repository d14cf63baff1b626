r"""The generated inputs of a manuscript: values as LaTeX macros, tables, figures, provenance.

``values.tex`` and ``published.tex`` set fields for the commands of ``paper/tsnrepro.sty``::

    \tsnset{tcp.goodput.frer.mbps}{print}{937.8}

so that ``\val{tcp.goodput.frer.mbps}`` prints the number.
"""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tsnrepro.common.code_digest import code_digest
from tsnrepro.common.errors import PublishError, TsnreproError
from tsnrepro.common.latex import escape
from tsnrepro.common.repository import short_commit
from tsnrepro.config.papers import SOURCES, sources_of
from tsnrepro.config.registry import MODEL, experiment, experiments
from tsnrepro.papers import device_report, loss_tables
from tsnrepro.papers.assertions import (
    ASSERTIONS_FILE,
    Assertion,
    as_json,
    assertion_fields,
    assertions,
    exploratory_sentences,
)
from tsnrepro.papers.data_sources import COMMIT, STUDY, DataSource, DataSources
from tsnrepro.papers.expansion import is_korean
from tsnrepro.papers.manuscript import UsedNames, check_known, scan, scan_text
from tsnrepro.papers.provenance import FileOrigin, PrintedFile, Provenance, unit
from tsnrepro.published import documents as published
from tsnrepro.published.families import judged_together, primary_of_papers
from tsnrepro.published.tables import Cell
from tsnrepro.records.files import sha256_of
from tsnrepro.records.store import RUN_FILE, open_run
from tsnrepro.records.values import KOREAN_FOLDER, Result
from tsnrepro.results import numbers
from tsnrepro.results.language import in_korean
from tsnrepro.results.numbers import TEX

# The unknown value in a calculation of the manuscript, which is in Lua.
_UNKNOWN = "nil"


def write_paper_inputs(
    manuscript: Path,
    output: Path,
    sources: DataSources,
    verdicts: Path | None = None,
) -> list[Path]:
    """Write the generated files of a manuscript, copy its figures, and return all of them.

    Parameters
    ----------
    manuscript
        Folder with the LaTeX source. Its ``sources.yaml`` names the published document of cells
        with a path of three parts (``table/row/column``).
    output
        Folder for ``values.tex``, ``published.tex``, ``provenance.tex``, ``provenance.json``,
        ``assertions.json``, ``verdicts.tex``, ``tables/`` and ``figures/``, which is created if
        necessary. Sentences that the values do not carry, and those that rest on an exploratory
        comparison, are listed on standard error.
    sources
        The runs with the values and figures that it prints.
    verdicts
        The macros of the audit; without them the manuscript cannot print verdicts.

    Raises
    ------
    PublishError
        A value, cell or figure in the manuscript does not exist and no experiment declares it; the
        message has its place.
    """
    declared = sources_of(manuscript.name)
    korean = is_korean((manuscript / "main.tex").read_text(encoding="utf-8"))
    document = declared.document
    sources = sources.with_declared(declared.columns, declared.optional_columns)
    papers = [declared.primary, *primary_of_papers()]
    values = judged_together(sources.values(), papers, sources.names[1:])
    used = scan(manuscript)
    tables = _tables(used, sources, document)
    report = _device_report(manuscript, used, sources, values)
    if report:
        tables |= report.tables()
        values |= report.derived
    for name, text in tables.items():
        scan_text(text, name, used)
    for key in used.measured:
        if key not in values and (empty := sources.unmeasured(key)):
            values[key] = empty
    check_known(used.measured, values, "measured value")
    judged = assertions(manuscript, values)
    cells = _cells(used, document)
    measured = {key: values[key] for key in sorted(used.measured) if not sources.omits(key)}
    provenance = Provenance(
        commit=_commit(values),
        commits=sources.commits(measured.values()),
        measured=measured,
        published=cells,
        files=(*_figures(used, sources, output, korean=korean), *_table_files(used, sources)),
        places=used.measured | used.published,
        sources=tuple(sources.names),
    )
    if verdicts is not None:
        tables["verdicts.tex"] = verdicts.read_text(encoding="utf-8")
    texts = {
        "values.tex": "".join(
            (
                *_value_lines(values.values()),
                *_assertion_lines(judged),
                *_figure_lines(sources, manuscript, korean=korean),
            )
        ),
        "published.tex": "".join(_cell_lines(cells)),
        "provenance.tex": provenance.as_tex(),
        "provenance.json": provenance.as_json(),
        ASSERTIONS_FILE: as_json(judged),
        **tables,
    }
    # Of an earlier record.
    shutil.rmtree(output / "tables", ignore_errors=True)
    if report:
        report.write_figures(output)
        texts[f"{manuscript.name}.json"] = report.as_json()
    for name, text in texts.items():
        path = output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for one in judged:
        if not one.carried:
            print(f"{manuscript.name}/{one.text}", file=sys.stderr)
    for text in exploratory_sentences(manuscript, values, declared.primary):
        print(f"{manuscript.name}/{text}", file=sys.stderr)
    return [*map(output.joinpath, texts), *(output / "figures").rglob("*.pdf")]


def _cells(used: UsedNames, document: str | None) -> dict[str, Cell]:
    """Return the published cells by key: ``table/row/column`` or ``document/table/row/column``."""
    tables, found = published.catalog(), {}
    for key, places in sorted(used.published.items()):
        where = ", ".join(places)
        if key.count("/") not in (2, 3):
            raise PublishError(f"'{key}' is not table/row/column", where)
        whole = key.count("/") == 3
        if not whole and document is None:
            raise _no_document(f"'{key}'", where)
        try:
            found[key] = tables.cell(key if whole else f"{document}/{key}")
        except TsnreproError as error:
            raise PublishError(f"{error.what}. {error.remedy}", where) from error
    return found


def _no_document(what: str, where: str) -> PublishError:
    return PublishError(
        f"{what} is of a document, and the paper names none",
        where,
        f"Name it in {SOURCES} (document: ...), or write document/table/row/column",
    )


def _tables(used: UsedNames, sources: DataSources, document: str | None) -> dict[str, str]:
    """Return the generated tables that the manuscript inputs, by file."""
    check_known(used.tables, (*loss_tables.GENERATED, *device_report.GENERATED), "generated table")
    if not used.tables.keys() & {*loss_tables.GENERATED}:
        return {}
    for name in (loss_tables.LOSS_ROWS, loss_tables.SWEEP_ROWS):
        if name in used.tables and document is None:
            raise _no_document(f"the table '{name}'", ", ".join(used.tables[name]))
    runs = [source.runs.get("loss") for source in sources.sources]
    first, *others = [loss_tables.load_summary(loss) if loss else [] for loss in runs]
    phases, *other_phases = [loss_tables.load_phases(loss) if loss else [] for loss in runs]
    found = {}
    if document and loss_tables.LOSS_ROWS in used.tables:
        found[loss_tables.LOSS_ROWS] = loss_tables.loss_rows(
            first,
            loss_tables.published_loss(document),
            phases,
            loss_tables.published_durations(document),
        )
    if document and loss_tables.SWEEP_ROWS in used.tables:
        has_simulated = others and not _is_model(sources.sources[0])
        simulated = (others[0], other_phases[0]) if has_simulated else (None, ())
        found[loss_tables.SWEEP_ROWS] = loss_tables.sweep_rows(
            first, simulated[0], document, phases, simulated[1]
        )
    if loss_tables.PAYLOAD_ROWS in used.tables:
        points = loss_tables.load_payloads(runs[0]) if runs[0] else []
        found[loss_tables.PAYLOAD_ROWS] = loss_tables.payload_rows(points)
    return found


def _device_report(
    manuscript: Path, used: UsedNames, sources: DataSources, values: dict[str, Result]
) -> device_report.DeviceReport | None:
    """Return the generated parts of a device report, None for any other manuscript."""
    if not used.tables.keys() & {*device_report.GENERATED}:
        return None
    return device_report.DeviceReport(manuscript / device_report.WORDS_FILE, sources, values)


def _is_model(source: DataSource) -> bool:
    """Return whether a source is simulated; then there is no second simulated column."""
    kind = source.values().get("testbed.kind")
    return kind is not None and kind.value == MODEL


def _table_files(used: UsedNames, sources: DataSources) -> Iterator[PrintedFile]:
    """Yield the tables of results that generated tables use."""
    for number, source in enumerate(sources.sources):
        loss = source.runs.get("loss")
        files = []
        if loss_tables.SWEEP_ROWS in used.tables or (
            loss_tables.LOSS_ROWS in used.tables and not number
        ):
            files += [loss_tables.SUMMARY, loss_tables.PHASES]
        if loss_tables.PAYLOAD_ROWS in used.tables and not number:
            files.append(loss_tables.PAYLOADS)
        for file in files:
            if loss and (loss / file).is_file():
                prefix = f"{source.name}/" if number else ""
                yield PrintedFile(f"{prefix}loss/{file}", sha256_of(loss / file), _origin(loss))


def _commit(values: dict[str, Result]) -> str:
    commit = values.get(COMMIT)
    if commit is None or not isinstance(commit.value, str):
        raise PublishError(f"there is no value '{COMMIT}'", "testbed.json")
    return commit.value


def _figures(
    used: UsedNames, sources: DataSources, output: Path, *, korean: bool
) -> list[PrintedFile]:
    """Copy the figures of a manuscript to its output, and return them with checksums.

    The folder is emptied before, so that figures of earlier results are not printed.
    """
    folder = output / "figures"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)  # also where nothing was measured that has a figure
    known = dict(sources.figures())
    origin = cache(_origin)
    printed = []
    for name, places in sorted(used.files.items()):
        if name not in known:
            if sources.declares_figure(name):
                continue  # the manuscript prints that it was not measured
            check_known({name: places}, known, "figure")
        target = folder / f"{name}.pdf"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_of_language(known[name], korean=korean), target)
        printed.append(
            PrintedFile(f"{name}.pdf", sha256_of(target), origin(known[name].parent.parent))
        )
    return printed


def _of_language(figure: Path, *, korean: bool) -> Path:
    """Return a figure in the language of the manuscript; one of the reader's own has only one."""
    translated = figure.parent / KOREAN_FOLDER / figure.name
    return translated if korean and translated.is_file() else figure


def _origin(folder: Path) -> FileOrigin:
    """Return the origin of the files of an analysed run or a study."""
    run = folder / RUN_FILE
    if not run.is_file():
        return _study_origin(folder)
    _, manifest = open_run(run)
    program = experiment(manifest["experiment"]).analysing_notebook
    return FileOrigin(
        rule="analyse",
        program=program,
        code=code_digest(program),
        experiment=manifest["experiment"],
        trials=len(manifest["trials"]),
        run=sha256_of(run),
    )


def _study_origin(folder: Path) -> FileOrigin:
    program = "notebooks/analyse/threshold-study.ipynb"
    table = folder / "study.csv"
    # A header line, and one line per search.
    searches = table.read_bytes().count(b"\n") - 1 if table.is_file() else 0
    return FileOrigin(
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


def _assertion_lines(judged: list[Assertion]) -> Iterator[str]:
    for key, fields in assertion_fields(judged):
        yield from _lines(key, fields)


def _figure_lines(sources: DataSources, manuscript: Path, *, korean: bool) -> Iterator[str]:
    """Yield the path of each figure, relative to the folder of the manuscript, and what it shows.

    LaTeX finds one there that the text names since the inputs were written.
    """
    for name, path in sources.figures():
        shown = _of_language(path, korean=korean)
        place = os.path.relpath(shown.resolve(), manuscript.resolve())
        yield from _lines(name, {"figure": place, "alt": _alternative(name, korean=korean)})


def _alternative(name: str, *, korean: bool) -> str:
    """Return what a figure shows, in the language of the manuscript, for who does not see it."""
    *_, of, figure = name.split("/")
    declared = experiments().get(of)
    caption = (declared.caption(figure) if declared else None) or figure.replace("-", " ")
    return escape(in_korean(caption) if korean else caption)


def _value_fields(item: Result) -> dict[str, str]:
    if isinstance(item.value, str):
        word = escape(short_commit(item.value) if item.key == COMMIT else item.value)
        fields = dict.fromkeys(("print", "interval", "raw"), word)
        fields |= dict.fromkeys(("lo", "hi", "bounds"), TEX.unknown)
        return fields | {"unit": "", "decimals": "0", "rawlo": _UNKNOWN, "rawhi": _UNKNOWN}
    digits = item.digits
    # A sentence may not depend on a mere range of observed values.
    low, high = (item.low, item.high) if item.decides else (None, None)

    def text(value: float | None) -> str:
        return numbers.number(value, digits, TEX, signed=item.signed)

    shown, lo, hi = (text(number) for number in (item.value, item.low, item.high))
    bounds = numbers.limits(
        item.low, item.high, digits, TEX, signed=item.signed, seen=item.is_range
    )
    return {
        "print": shown,
        "lo": lo,
        "hi": hi,
        "bounds": TEX.unknown if lo == shown == hi else bounds,
        "interval": numbers.estimate(item, TEX),
        "unit": unit(item.unit),
        "decimals": str(0 if item.value is None else digits),
        "raw": _raw(item.value),
        "rawlo": _raw(low),
        "rawhi": _raw(high),
    }


def _raw(value: float | None) -> str:
    if value is None:
        return _UNKNOWN
    # Two minus signs begin a comment in Lua.
    return f"({value!r})" if value < 0 else repr(value)


def _cell_lines(cells: Mapping[str, Cell]) -> Iterator[str]:
    for key, cell in cells.items():
        text, value = cell.printed, cell.value
        fields = {
            "print": numbers.printed(escape(text), cell.qualifier, TEX),
            "unit": unit("" if cell.unit == "1" else cell.unit),
            "decimals": str(len(text.partition(".")[2])),
            # Booleans and texts are no numbers in calculations.
            "raw": escape(text) if isinstance(value, str | bool) else _raw(value),
        }
        yield from _lines(key, fields)

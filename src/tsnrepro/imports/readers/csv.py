"""CSV: one row per line; columns are named by the header or by the mapping."""

import csv
import io

from tsnrepro.common.errors import RecordError
from tsnrepro.imports.files import SourceFile
from tsnrepro.imports.mapping import MappedTable
from tsnrepro.imports.readers.row import DataRow, FileRows, names_available
from tsnrepro.imports.screening import NoMeasurementError, why_not_table


def read(file: SourceFile, table: MappedTable) -> FileRows:
    """Return the rows of a CSV file.

    Raises
    ------
    NoMeasurementError
        The file is an error or usage message, or has a header but no rows.
    RecordError
        A required column is missing or ambiguous, or the text is not CSV.
    """
    text = file.text(table.csv.encoding)
    try:
        return _read(text, table)
    except csv.Error as error:
        if reason := why_not_table(text):
            raise NoMeasurementError(reason) from error
        raise RecordError(f"not CSV: {error}", "", "Correct the delimiter") from error


def _read(text: str, table: MappedTable) -> FileRows:
    options = table.csv
    reader = csv.reader(io.StringIO(text), delimiter=options.delimiter)
    lines = (
        (reader.line_num, [cell.strip() for cell in cells])
        for cells in reader
        if reader.line_num > options.skip_lines
        and any(cell.strip() for cell in cells)
        and not (options.comment and cells[0].lstrip().startswith(options.comment))
    )
    names = options.columns or next(lines, (0, []))[1]
    needed = [source.column for source in table.fields.values() if source.column]
    if absent := [name for name in needed if name not in names]:
        if reason := why_not_table(text):
            raise NoMeasurementError(reason)
        raise RecordError(
            f"there is no column '{absent[0]}'",
            f"line {options.skip_lines + 1}",
            f"{names_available(names)}; correct the column or the delimiter",
        )
    if repeated := sorted({name for name in names if name in needed and names.count(name) > 1}):
        raise RecordError(f"two columns are named '{repeated[0]}'", "line 1", "Rename one")
    first, last = table.row_range or (1, len(text))
    rows, skipped = [], []
    for number, (line, cells) in enumerate(lines, start=1):
        if number > last:
            break
        if number < first:
            continue
        if len(cells) == len(names):
            rows.append(DataRow(f"line {line}", dict(zip(names, cells, strict=True))))
        else:
            skipped.append((f"line {line}", f"it has {len(cells)} cells for {len(names)} columns"))
    if not rows and not skipped:
        raise NoMeasurementError("it has columns but no row")
    return FileRows(rows, skipped)

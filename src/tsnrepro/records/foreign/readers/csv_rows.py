"""CSV: one row a line, columns by the names in the first line or by the mapping."""

import csv
from collections.abc import Sequence
from itertools import islice

from tsnrepro.errors import RecordError
from tsnrepro.records.foreign.readers.row import Reading, Row
from tsnrepro.records.foreign.refusal import NoMeasurementError, complaint


def read(
    text: str, needed: Sequence[str], delimiter: str, columns: Sequence[str], comment: str
) -> Reading:
    """Return the rows of a CSV file.

    Parameters
    ----------
    text
        The file.
    needed
        Columns that the mapping takes.
    delimiter
        The character between cells.
    columns
        Names of the columns where the file has no line of names.
    comment
        Lines that start with it are passed over; empty passes over none.

    Raises
    ------
    NoMeasurementError
        The file is an error message or a usage text, or has names but no rows.
    RecordError
        A needed column is missing, or the columns have one name twice.
    """
    reader = csv.reader(text.splitlines(), delimiter=delimiter)
    lines = (
        (reader.line_num, [cell.strip() for cell in cells])
        for cells in reader
        if any(cell.strip() for cell in cells)
        and not (comment and cells[0].lstrip().startswith(comment))
    )
    names = list(columns) or next((cells for _, cells in islice(lines, 1)), [])
    if absent := [name for name in needed if name not in names]:
        if said := complaint(text):
            raise NoMeasurementError(said)
        raise RecordError(
            f"there is no column '{absent[0]}'",
            "line 1",
            f"There are: {', '.join(names) or 'none'}; correct the column or the delimiter",
        )
    if twice := sorted({name for name in names if name in needed and names.count(name) > 1}):
        raise RecordError(f"two columns are called '{twice[0]}'", "line 1", "Rename one")
    rows, skipped = [], []
    for number, cells in lines:
        place = f"line {number}"
        if len(cells) == len(names):
            rows.append(Row(place, dict(zip(names, cells, strict=True))))
        else:
            skipped.append((place, f"it has {len(cells)} cells for {len(names)} columns"))
    if not rows:
        raise NoMeasurementError("it has columns but no row")
    return Reading(rows, skipped)

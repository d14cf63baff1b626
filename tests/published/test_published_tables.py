"""Published tables: what is written is read back, and what is damaged is named."""

import csv
import io
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tsnrepro.published import documents as published

CELLS = {
    "number": st.from_regex(r"[-+]?[0-9]{1,9}(\.[0-9]{1,6})?", fullmatch=True),
    "integer": st.from_regex(r"[-+]?[0-9]{1,15}", fullmatch=True),
    "boolean": st.sampled_from(["true", "false"]),
    "string": st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20),
}
VALUE_OF = {"number": float, "integer": int, "boolean": "true".__eq__, "string": str}
OTHERS = {  # what programs read as a number, or what a hand slips to
    "number": [
        "nan",
        "inf",
        "1e3",
        "1_0",
        " 1",
        "1 ",
        "1,5",
        "0x1",
        "1.",
        ".5",
        "--1",
        "\u0661",
        "~1",
    ],
    "integer": ["1.0", "1_0", " 1", "1e3", "nan", "\u0661", "9" * 16],
    "boolean": ["True", "TRUE", "yes", "1", " true"],
}
QUALIFIERS = ["approximately", "below", "above", "at-least", "at-most"]
KEY = st.from_regex(r"[a-z0-9][a-z0-9-]{0,9}", fullmatch=True)


@st.composite
def tables(draw):
    """Return the types of the columns by name and the rows, as they are printed."""
    kinds = draw(st.lists(st.sampled_from(sorted(CELLS)), min_size=1, max_size=5))
    types = {f"column_{n}": kind for n, kind in enumerate(kinds)}
    keys = draw(st.lists(KEY, min_size=1, max_size=6, unique=True))
    cells = [st.just("") | CELLS[kind] for kind in kinds]
    qualifier, unit = st.sampled_from(["", *QUALIFIERS]), st.sampled_from(["Mb/s", "us", "%"])
    return types, [
        draw(st.tuples(st.just(k), CELLS["string"], unit, qualifier, *cells)) for k in keys
    ]


def field(name, kind="string", **others):
    return {"name": name, "type": kind, "title": name.upper(), **others}


def package(types):
    """Return the description of one table whose first column has units and qualifiers."""
    required = {"constraints": {"required": True}}
    fields = [field("row", **required), field("origin", **required), field("unit", **required)]
    fields.append(field("qualifier", constraints={"enum": QUALIFIERS}))
    fields += [field(name, kind) for name, kind in types.items()]
    fields[4] |= {"tsnrepro:unit-column": "unit", "tsnrepro:qualifier": "qualifier"}
    resource = {"tsnrepro:document": "d", "tsnrepro:table": "t", "path": "t.csv"}
    return {"resources": [resource | {"schema": {"fields": fields}}]}


def as_csv(rows):
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue()


def read(types, text, reader=published.published_table):
    """Return the table of a CSV text, or of bytes."""
    content = text if isinstance(text, bytes) else text.encode()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, published.PACKAGE_FILE).write_text(json.dumps(package(types)))
        Path(folder, "t.csv").write_bytes(content)
        return reader("d", "t", Path(folder))


def refusal(types, text):
    with pytest.raises(published.PublishedDataError) as error:
        read(types, text)
    return str(error.value)


def heading(types):
    return ["row", "origin", "unit", "qualifier", *types]


@given(tables())
@example(({"column_0": "string"}, [("a", 'of "b", c\r\nd', "us", "", "\ufeff\0\n")]))
def test_a_table_is_read_back(written):
    types, rows = written
    text = as_csv([heading(types), *rows])
    table = read(types, text)
    assert (list(table.keys), list(table.origins)) == ([r[0] for r in rows], [r[1] for r in rows])
    for place, (name, kind) in enumerate(types.items(), 4):
        cells = [table.cell(index, name) for index in range(len(rows))]
        assert [cell.printed for cell in cells] == [row[place] for row in rows]
        assert [cell.value for cell in cells] == [
            VALUE_OF[kind](row[place]) if row[place] else None for row in rows
        ]
    first = [table.cell(index, "column_0") for index in range(len(rows))]
    assert [(cell.unit, cell.qualifier or "") for cell in first] == [(r[2], r[3]) for r in rows]
    frame = read(types, text, published.load_table)
    assert frame["column_0"].notna().tolist() == [bool(row[4]) for row in rows]


@given(tables(), st.data())
def test_a_wrong_cell_is_named_with_file_row_and_column(written, data):
    types, rows = written
    names = heading(types)
    wrong = {"row": [""], "origin": [""], "unit": [""], "qualifier": ["about", "Below", " below"]}
    wrong |= {name: OTHERS[kind] for name, kind in types.items() if kind in OTHERS}
    column = data.draw(st.sampled_from(sorted(wrong)))
    number = data.draw(st.integers(0, len(rows) - 1))
    cell = data.draw(st.sampled_from(wrong[column]))
    damaged = [list(row) for row in rows]
    damaged[number][names.index(column)] = cell
    said = refusal(types, as_csv([names, *damaged]))
    assert f"t.csv, row {damaged[number][0]!r}, column {column!r}: " in said
    assert (repr(cell) if cell else "the cell is empty") in said


@given(tables(), st.data())
def test_a_wrong_line_is_named_with_its_number(written, data):
    types, rows = written
    number = data.draw(st.integers(0, len(rows) - 1))
    lines = [as_csv([line]) for line in [heading(types), *rows]]
    damaged = data.draw(
        st.sampled_from(
            [
                as_csv([rows[number][:-1]]),
                as_csv([(*rows[number], "")]),
                "\r\n",
                '"a"b' + lines[number + 1],
                b"\xff\r\n",
            ]
        )
    )
    parts = [line.encode() for line in lines]
    before = b"".join(parts[: number + 1])
    parts[number + 1] = damaged if isinstance(damaged, bytes) else damaged.encode()
    said = refusal(types, b"".join(parts))
    line = int(said.partition("t.csv, line ")[2].partition(":")[0])
    ends = len(before.splitlines()) + 1
    assert ends <= line <= ends + len(parts[number + 1].splitlines()), said


@given(tables(), st.data())
def test_keys_and_headings_that_are_wrong_are_named(written, data):
    types, rows = written
    again = data.draw(st.sampled_from(rows))
    assert repr(again[0]) in refusal(types, as_csv([heading(types), *rows, again]))
    names = heading(types)
    names[data.draw(st.integers(0, len(names) - 1))] = "unknown"
    said = refusal(types, as_csv([names, *rows]))
    assert "t.csv: columns" in said
    assert "'unknown'" in said


def test_an_open_quotation_and_an_empty_file_are_named():
    types, rows = {"column_0": "string"}, [("a", "b", "us", "", "c")]
    text = as_csv([heading(types), *rows])
    assert "t.csv, line 3: not CSV: unexpected end" in refusal(types, text + '"b,c')
    assert refusal(types, "").endswith("t.csv is empty")

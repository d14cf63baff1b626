"""The transcription against its schema and, where they are at hand, against the documents."""

import csv
import json
import re
import shutil
from collections import Counter
from pathlib import Path

import frictionless
import pandas as pd
import pytest
from outside_files import DOCUMENTS, needs_documents
from tracked_files import tracked

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.published import documents as published
from tsnrepro.published.tables import UnknownNameError

REPOSITORY = Path(__file__).resolve().parents[2]
PUBLISHED = REPOSITORY / "data" / "published"
SEED_FILES = {
    "frer-fail-operational": "000-frer-fail-operational.ko.md",
    "methodology": "001-methodology.en.md",
    "frer-udp": "002-frer-udp.en.md",
    "tas-i210-i225": "003-tas-i210-i225.ko.md",
    "software-bridge": "004-software-bridge.ko.md",
}
PACKAGE = json.loads((PUBLISHED / published.PACKAGE_FILE).read_text(encoding="utf-8"))
RESOURCES = {(r["tsnrepro:document"], r["tsnrepro:table"]): r for r in PACKAGE["resources"]}
TABLES = list(RESOURCES)
CATALOG = published.catalog()
OURS = ("row", "origin")
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?")


def _rows(document, table):
    """Return the rows of a CSV file as printed strings."""
    with (PUBLISHED / document / f"{table}.csv").open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def _seed(document):
    """Return a document without thousands separators inside numbers."""
    text = (DOCUMENTS / SEED_FILES[document]).read_text(encoding="utf-8")
    return re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)


# --- the package -------------------------------------------------------------------------------


def test_package_and_all_tables_are_valid():
    report = frictionless.validate(str(PUBLISHED / published.PACKAGE_FILE))
    assert report.valid, report.flatten(["name", "type", "rowNumber", "fieldName", "note"])
    assert report.stats["tasks"] == len(TABLES)


def test_every_file_is_in_the_package_and_the_other_way_round():
    on_disk = {path.relative_to(PUBLISHED).as_posix() for path in tracked("data/published/*/*.csv")}
    assert on_disk == {resource["path"] for resource in PACKAGE["resources"]}


@pytest.mark.parametrize(("document", "table"), TABLES)
def test_columns_match_the_schema_and_row_keys_are_unique(document, table):
    path = PUBLISHED / document / f"{table}.csv"
    with path.open(encoding="utf-8", newline="") as handle:
        header, *rows = csv.reader(handle)
    assert header == [field["name"] for field in RESOURCES[document, table]["schema"]["fields"]]
    assert tuple(header[:2]) == OURS
    assert rows
    keys = [row[0] for row in rows]
    assert len(set(keys)) == len(keys)
    assert all(row[1] for row in rows)


@pytest.mark.parametrize(("document", "table"), TABLES)
def test_every_column_is_described_and_every_number_has_a_unit(document, table):
    fields = RESOURCES[document, table]["schema"]["fields"]
    names = {field["name"] for field in fields}
    for field in fields:
        assert field["title"], field
        assert field["description"], field
        if field["type"] in {"number", "integer"}:
            assert ("tsnrepro:unit" in field) != ("tsnrepro:unit-column" in field), field
        assert field.get("tsnrepro:unit-column", "row") in names
        assert field.get("tsnrepro:qualifier", "row") in names


@pytest.mark.parametrize(("document", "table"), TABLES)
def test_low_ends_do_not_exceed_high_ends(document, table):
    frame = published.load_table(document, table)
    for low in [name for name in frame.columns if "_low_" in name]:
        high = low.replace("_low_", "_high_")
        assert (frame[low].isna() == frame[high].isna()).all(), low
        both = frame[[low, high]].dropna()
        assert (both[low] <= both[high]).all(), low


@pytest.mark.parametrize("document", SEED_FILES)
def test_running_text_holds_a_number_with_unit_or_a_word(document):
    for row in _rows(document, "text-values"):
        assert bool(row["value"]) != bool(row["text"]), row
        assert bool(row["value"]) == bool(row["unit"]), row
        assert not (row["qualifier"] and row["text"]), row


def test_printed_differences_of_the_bridge_follow_from_its_latencies():
    latency = published.load_table("software-bridge", "figure-4").set_index("row")["latency_us"]
    differences = published.load_table("software-bridge", "figure-4-differences")
    computed = latency[differences["minuend"]].array - latency[differences["subtrahend"]].array
    assert computed.tolist() == differences["difference_us"].tolist()


# --- the loader --------------------------------------------------------------------------------


def test_documents_have_a_folder_and_a_description_each():
    found = published.documents()
    assert list(found) == list(SEED_FILES)
    for name, document in found.items():
        assert (PUBLISHED / name).is_dir()
        assert document.name == name
        assert document.title
        assert document.platform
        assert document.description.endswith(".")


def test_load_table_types_columns_by_the_schema():
    frame = published.load_table("frer-udp", "table-a-2")
    assert frame["rate_mbps"].dtype == "float64"
    assert frame["threshold"].dtype == "boolean"
    assert isinstance(frame["outcome"].dtype, pd.StringDtype)
    assert frame.loc[frame["threshold"], "row"].tolist() == ["single-path-398", "frer-530"]
    assert frame.set_index("row").loc["frer-540", "loss_percent"] != 0
    assert pd.isna(frame.set_index("row").loc["frer-540", "loss_percent"])
    packets = published.load_table("tas-i210-i225", "table-load")["samples"]
    assert packets.dtype == "Int64"


@pytest.mark.parametrize(
    ("path", "value", "printed", "unit", "origin", "qualifier"),
    [
        (
            *("frer-udp/table-4-1/single-path/throughput_mbps", 941.0, "941.0", "Mb/s"),
            *("Table 4.1, row Single-Path", None),
        ),
        (
            *("frer-udp/table-4-3/64/frer_loss_percent", 0.5, "0.5", "%"),
            *("Table 4.3, row 64 bytes", "approximately"),
        ),
        (
            *("frer-udp/text-values/abstract-buffer-time-frer/value", 60.0, "60", "ms"),
            *("Abstract, running text", "approximately"),
        ),
    ],
)
def test_cell_keeps_printed_digits_unit_origin_and_qualifier(
    path, value, printed, unit, origin, qualifier
):
    cell = CATALOG.cell(path)
    assert (cell.value, cell.printed, cell.unit) == (value, printed, unit)
    assert (cell.origin, cell.qualifier) == (origin, qualifier)


def test_cell_of_words_truth_values_and_empty_cells():
    word = CATALOG.cell("methodology/text-values/setup-iperf3-version/text")
    assert (word.value, word.printed, word.unit) == ("3.9", "3.9", "")
    assert CATALOG.cell("frer-udp/table-a-2/frer-530/threshold").value is True
    empty = CATALOG.cell("frer-udp/table-a-3/p50/frer_latency_us")
    assert (empty.value, empty.printed, empty.unit) == (None, "", "us")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("frer-tcp/table-4-1/single-path/throughput_mbps", r"frer-tcp.*frer-udp"),
        ("frer-udp/table-4.1/single-path/throughput_mbps", r"table-4\.1.*table-4-1"),
        ("frer-udp/table-4-1/singlepath/throughput_mbps", r"singlepath.*single-path"),
        ("frer-udp/table-4-1/single-path/throughput", r"throughput'.*throughput_mbps"),
        ("frer-udp/table-4-1/single-path/###", r"There are: row, origin"),
    ],
)
def test_unknown_names_are_answered_with_near_ones(path, message):
    with pytest.raises(UnknownNameError, match=message):
        CATALOG.cell(path)


def test_tables_are_found_by_document_and_name():
    with pytest.raises(UnknownNameError, match=r"frer-tcp.*frer-udp"):
        published.load_table("frer-tcp", "table-4-1")
    with pytest.raises(UnknownNameError, match=r"table-4\.1.*table-4-1"):
        published.load_table("frer-udp", "table-4.1")


def test_a_folder_without_published_numbers_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=re.escape(str(tmp_path))):
        published.load_table("frer-udp", "table-4-1", root=tmp_path)


@pytest.fixture
def copied(tmp_path):
    """A writable copy of the published numbers."""
    return Path(shutil.copytree(PUBLISHED, tmp_path / "published"))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("throughput_mbps", "throughput", r"table-4-1\.csv: columns .* do not match"),
        ("frer-dual-path", "single-path", r"duplicate row keys: \['single-path'\]"),
        ("941.42", "941,42", r"table-4-1\.csv, line 3: 7 cells under 6 headings"),
        (",0,+0.04", ",0", r"table-4-1\.csv, line 3: 5 cells under 6 headings"),
        ("941.42", "fast", r"'frer-dual-path', column 'throughput_mbps': 'fast' is not of type"),
    ],
)
def test_files_that_contradict_their_schema_are_refused(copied, before, after, message):
    path = copied / "frer-udp" / "table-4-1.csv"
    text = path.read_text(encoding="utf-8")
    assert before in text
    published.load_table("frer-udp", "table-4-1", root=copied)
    path.write_text(text.replace(before, after), encoding="utf-8")
    with pytest.raises(published.PublishedDataError, match=message):
        published.load_table("frer-udp", "table-4-1", root=copied)


def test_a_missing_file_and_a_broken_document_entry_are_named(copied):
    (copied / "frer-udp" / "table-4-1.csv").unlink()
    with pytest.raises(published.PublishedDataError, match=r"table-4-1\.csv is missing"):
        published.load_table("frer-udp", "table-4-1", root=copied)
    (copied / published.DOCUMENTS_FILE).write_text("frer-udp: {authors: [x], colour: red}\n")
    with pytest.raises(ConfigurationError, match="'frer-udp'"):
        published.documents(root=copied)


# --- the documents' tables ---------------------------------------------------------------------

MARKDOWN_TABLES = {
    "frer-fail-operational": [
        *("section-2-2", "table-1", "table-2", "table-3", "table-4", "table-5", "table-6"),
        *("table-7", "table-7a", "table-8", "section-5-2", "table-9", "table-9a", "table-9b"),
        *("table-9c", "table-9d", "table-10", "table-10a", "table-10b", "section-6-1-1"),
        *("section-6-1-2", "table-11", "table-12"),
    ],
    "methodology": ["section-2-2-results", "section-2-4-results"],
    "frer-udp": [
        *("table-4-1", "table-4-2", "table-4-3", "table-4-4", "table-5-2"),
        *("table-a-1", "table-a-3"),
    ],
}


def _markdown_tables(text):
    """Return the tables of a Markdown text, each as a list of rows of cells without emphasis."""
    found, current = [], []
    for line in [*text.splitlines(), ""]:
        stripped = line.strip()
        if stripped.startswith("|") and stripped.count("|") > 2:
            cells = [part.strip().replace("**", "") for part in stripped.strip("|").split("|")]
            if not all(re.fullmatch(r":?-+:?", part) for part in cells):
                current.append(cells)
        elif current:
            found.append(current)
            current = []
    return found


def _numbers(text):
    """Return the numbers of a printed cell with their signs; a dash in a range is no sign."""
    text = re.sub(r"(?<!\d)-(\d+)-(\d+)", r"-\1 -\2", text)
    return Counter(NUMBER.findall(re.sub(r"(?<=\d)-(?=\d)", " ", text)))


def _transcribed_numbers(fields, row, heading):
    """Return the numbers of the columns under one heading; equal ends of a range count once."""
    counted = Counter()
    for field in fields:
        name = field["name"]
        if field["title"] != heading:
            continue
        if "_high_" in name and row[name] == row[name.replace("_high_", "_low_")]:
            continue
        counted += _numbers(row[name])
    return counted


def _markdown_cases():
    return [(document, n) for document, names in MARKDOWN_TABLES.items() for n in range(len(names))]


@needs_documents
@pytest.mark.parametrize("document", SEED_FILES)
def test_no_markdown_table_is_left_out(document):
    names = MARKDOWN_TABLES.get(document, [])
    assert len(_markdown_tables(_seed(document))) == len(names)


@needs_documents
@pytest.mark.parametrize(("document", "number"), _markdown_cases())
def test_cells_of_a_markdown_table_hold_the_printed_numbers(document, number):
    table = MARKDOWN_TABLES[document][number]
    headings, *body = _markdown_tables(_seed(document))[number]
    fields = [f for f in RESOURCES[document, table]["schema"]["fields"] if f["name"] not in OURS]
    assert {f["title"] for f in fields if not f["title"].startswith("(")} == set(headings)
    rows = _rows(document, table)
    assert len(rows) == len(body)
    for row, cells in zip(rows, body, strict=True):
        assert row["origin"].endswith(f"row {cells[0]}")
        for heading, printed in zip(headings, cells, strict=True):
            found = _transcribed_numbers(fields, row, heading)
            assert found == _numbers(printed), f"{table}, {row['row']}, {heading}"


@needs_documents
@pytest.mark.parametrize(("document", "number"), _markdown_cases())
def test_approximations_and_bounds_of_a_markdown_table_are_kept(document, number):
    table = MARKDOWN_TABLES[document][number]
    headings, *body = _markdown_tables(_seed(document))[number]
    fields = RESOURCES[document, table]["schema"]["fields"]
    for row, cells in zip(_rows(document, table), body, strict=True):
        for heading, printed in zip(headings, cells, strict=True):
            under = [f for f in fields if f["title"] == heading]
            qualifiers = [row[f["name"]] for f in under if f["name"].endswith("_qualifier")]
            if qualifiers:
                expected = {r"~\d": "approximately", r"< ?\d": "below"}
                marks = [word for mark, word in expected.items() if re.search(mark, printed)]
                assert [q for q in qualifiers if q] == marks, f"{table}, {row['row']}, {heading}"
            elif any(f["type"] == "number" for f in under):
                assert "~" not in printed, f"{table}, {row['row']}, {heading}"
    assert body


@needs_documents
@pytest.mark.parametrize("table", ["table-idle", "table-load", "table-prio"])
def test_cells_of_the_tas_tables_agree_with_both_printings(table):
    rows = _rows("tas-i210-i225", table)
    with (DOCUMENTS / "003-tables.csv").open(encoding="utf-8", newline="") as handle:
        lines = [r for r in csv.DictReader(handle) if f"table-{r['table']}" == table]
    expected = [
        [r[name] for name in ("mode", "count", "mean_ns", "p50_ns", "p95_ns", "p99_ns", "max_ns")]
        for r in lines
    ]
    assert [[v for k, v in row.items() if k not in OURS] for row in rows] == expected
    run_together = _seed("tas-i210-i225")
    assert all("".join(values) in run_together for values in expected)


@needs_documents
def test_gate_control_lists_agree_with_the_line_printed_run_together():
    text = _seed("tas-i210-i225")
    for row in _rows("tas-i210-i225", "gate-control-lists"):
        assert f"{row['cycle_us']} µs{row['open_us']} µs{row['closed_us']} µs" in text


# --- the documents' lists ----------------------------------------------------------------------

LISTS = [
    (
        *("frer-udp", "table-a-2", None, "A.2"),
        r"(?P<rate_mbps>\d+) Mbps: (?:(?P<loss_percent>[\d.]+)% loss|Connection failure)"
        r"(?: (?:✓|✗))?(?: \((?P<duration_s>\d+)s test\))?",
    ),
    (
        *("methodology", "section-2-1-results", None, "2.1"),
        r"- \*\*(?:(?P<duration_s>\d+)s|Average):\*\* (?P<throughput_mbps>[\d.]+) Mbps"
        r"(?: \((?P<retransmits>\d+) retransmits\))?",
    ),
    (
        *("methodology", "section-2-3-phases", None, "2.3"),
        r"(?s)\*\*Phase (?P<phase>\d): [^*(]*(?:\((?P<step_mbps>\d+) Mbps steps\))?\*\*"
        r".*?-t (?P<duration_s>\d+) -l (?P<payload_bytes>\d+)",
    ),
    (
        *("methodology", "section-2-3-results", "phase-[34]-.*", "2.3"),
        r"- \*\*(?P<rate_low_mbps>\d+)(?:-(?P<rate_high_mbps>\d+))? Mbps:\*\* "
        r"(?:(?P<loss_low_percent>[\d.]+)(?:-(?P<loss_high_percent>[\d.]+))?% loss"
        r"(?: \((?P<packets_lost>\d+) packets lost\))?|Connection failure"
        r"|Catastrophic failure \(collapse to (?P<rate_reached_mbps>\d+) Mbps\))",
    ),
    (
        *("methodology", "section-2-3-results", "finding-.*", "2.3"),
        r"- \*\*(?:Zero-Loss Threshold|Marginal Loss|Catastrophic Point):\*\* "
        r"(?P<rate_low_mbps>\d+)(?:-(?P<rate_high_mbps>\d+))? Mbps"
        r"(?: \((?:(?P<loss_low_percent>[\d.]+)-(?P<loss_high_percent>[\d.]+)%|"
        r"(?P<throughput_drop_percent>\d+)% throughput collapse)\))?",
    ),
    (
        *("methodology", "section-2-5-results", r"\d+", "2.5"),
        r"(?s)\*\*(?P<frame_size_bytes>\d+)-byte frames:\*\*.*?"
        r"Throughput Ceiling:\*\* ~(?P<ceiling_mbps>\d+)",
    ),
    (
        *("methodology", "section-2-5-results", r".*load.*", "2.5"),
        r"(?P<loss_low_percent>[\d.]+)%(?: loss)? at (?P<load_percent>\d+)% load",
    ),
    (
        *("methodology", "section-2-6-results", None, "2.6"),
        r"- \*\*(?P<tool>mausezahn|iperf3 RFC 2544|iperf3 Direct):\*\* (?P<throughput_mbps>[\d.]+)",
    ),
    (
        *("methodology", "section-3-2-reproducibility", None, "3.2"),
        r"\(?(?P<rate_low_mbps>\d+)(?:-(?P<rate_high_mbps>\d+))? Mbps[^*\n]*\*\* "
        r"CV [<=] (?P<variation_percent>[\d.]+)%",
    ),
    (
        *("methodology", "section-3-2-intervals", None, "3.2"),
        r"\[(?P<lower_mbps>\d+), (?P<upper_mbps>\d+)\] Mbps",
    ),
    (
        *("methodology", "section-4-2-precision", None, "4.2"),
        r"(?s)\*\*(?P<quantity>Throughput|Latency|Packet Loss):\*\*\n"
        r"- \*\*Resolution:\*\* (?P<resolution>[\d.]+).*?"
        r"- \*\*Accuracy:\*\* ±(?P<accuracy>[\d.]+)",
    ),
    (
        *("frer-fail-operational", "figure-1", None, "5.3"),
        r"(?P<part>[A-Z][\w &-]+): ~?(?P<rate_mbps>\d+) Mbps(?: \((?P<share_percent>\d+)%\))?",
    ),
    (
        *("frer-fail-operational", "figure-5", r"(?!mausezahn-\d).*", "5.5"),
        r"(?:● |━ )(?P<series>[A-Za-z][^:\n]*): ~?(?P<throughput_mbps>\d+)",
    ),
    (
        *("software-bridge", "figure-4", "(?:direct|tas|cbs)-mean", "3.2"),
        r"‘(?P<series>Direct|TAS|CBS)’의 평균 지연은 (?P<latency_us>\d+)",
    ),
    (
        *("software-bridge", "figure-4", "be-mean", "3.2"),
        r"(?P<series>BE)의 경우는 평균 지연시간이 (?P<latency_us>\d+)",
    ),
    (
        *("software-bridge", "figure-4", "(?:cbs|be)-loaded-mean", "3.2"),
        r"(?P<shaper>CBS|BE)의 경우는 평균 지연시간이 \d+ μ s에서 (?P<latency_us>\d+)",
    ),
]


@needs_documents
@pytest.mark.parametrize(
    ("document", "table", "keys", "section", "pattern"),
    LISTS,
    ids=[f"{case[0]}-{case[1]}-{n}" for n, case in enumerate(LISTS)],
)
def test_lists_are_transcribed_in_full_and_in_order(document, table, keys, section, pattern):
    matches = [m.groupdict() for m in re.finditer(pattern, _section(document, section))]
    assert matches
    for values in matches:
        for name in [n for n in values if "_high_" in n]:
            values[name] = values[name] or values[name.replace("_high_", "_low_")]
    rows = [r for r in _rows(document, table) if re.fullmatch(keys or ".*", r["row"])]
    names = list(matches[0])
    assert [[r[n] for n in names] for r in rows] == [[m[n] or "" for n in names] for m in matches]


@needs_documents
def test_threshold_list_keeps_marks_and_configurations():
    lines = re.findall(r"^\d+ Mbps: .*$|^\*\*(?:Single|FRER).*$", _section("frer-udp", "A.2"), re.M)
    marks = {"✓": "pass", "✗": "fail"}
    expected, configuration = [], ""
    for line in lines:
        if line.startswith("**"):
            configuration = line.strip("*").split(" (")[0]
            continue
        outcome = next((marks[m] for m in marks if m in line), "connection-failure")
        expected.append((configuration, outcome, str("Threshold" in line).lower()))
    rows = _rows("frer-udp", "table-a-2")
    assert [(r["configuration"], r["outcome"], r["threshold"]) for r in rows] == expected


@needs_documents
def test_rates_and_sizes_printed_in_a_line_are_all_there():
    loops = re.findall(r"for bw in ([\d ]+);", _section("methodology", "2.3"))
    expected = [(str(n), rate) for n, loop in enumerate(loops, 1) for rate in loop.split()]
    rates = _rows("methodology", "section-2-3-rates")
    assert [(r["phase"], r["rate_mbps"]) for r in rates] == expected
    lists = re.findall(r"(?:Frame|Payload) Sizes:\*\* ([\d, ]+)", _section("methodology", "2.2"))
    frames, payloads = [line.strip().split(", ") for line in lists]
    sizes = _rows("methodology", "section-2-2-sizes")
    assert [r["frame_size_bytes"] for r in sizes] == frames
    assert [r["payload_bytes"] for r in sizes] == payloads


# --- the documents' drawings -------------------------------------------------------------------


def _drawing(caption):
    """Return the lines of a character drawing above its axis as (axis label or None, line)."""
    text = _seed("frer-fail-operational")
    block = text.split(f"**{caption}. ", 1)[1].split("```")[1]
    lines = []
    for line in block.splitlines():
        match = re.match(r" *(\d*) *\|(.*)$", line)
        if match:
            lines.append((match[1] or None, match[2]))
    return lines


def _marks(caption):
    """Return (column, axis label or None, number at the mark or None), left to right."""
    return sorted(
        (found.start(), label, found[1])
        for label, line in _drawing(caption)
        for found in re.finditer(r"●(?: \(([\d.]+)\))?", line)
    )


@needs_documents
def test_marks_of_figures_2_and_3_are_those_drawn():
    drawn = [label for _, label, _ in _marks("Figure 2")]
    assert [r["drawn_mbps"] for r in _rows("frer-fail-operational", "figure-2")] == drawn
    drawn = [(label or "", number) for _, label, number in _marks("Figure 3")]
    rows = _rows("frer-fail-operational", "figure-3")
    assert [(r["drawn_us"], r["p99_9_latency_us"]) for r in rows] == drawn


@needs_documents
def test_marks_of_figure_4_are_those_drawn():
    loads = ["50", "60", "70", "80", "90", "95", "98", "100"]
    lines = _drawing("Figure 4")
    columns = sorted({m.start() for _, line in lines for m in re.finditer("●", line)})
    assert len(columns) == len(loads)
    labels = [label for label, _ in lines]
    expected, number = [], 0
    for index, (label, line) in enumerate(lines):
        marks = [m.start() for m in re.finditer("●", line)]
        number += bool(marks)
        high = label or next(one for one in reversed(labels[:index]) if one)
        low = label or next(one for one in labels[index:] if one)
        word = re.search(r"\d+B$", line)
        expected += [
            (str(number), loads[columns.index(m)], low, high, word[0] if word else "")
            for m in marks
        ]
    names = ("line", "load_percent", "axis_low_percent", "axis_high_percent", "line_label")
    rows = _rows("frer-fail-operational", "figure-4")
    assert [tuple(r[n] for n in names) for r in rows] == expected


@needs_documents
def test_marks_of_figure_5_stand_on_the_lines_drawn():
    lines = _drawing("Figure 5")
    labels = [label for label, _ in lines]
    rows = _rows("frer-fail-operational", "figure-5")
    for row in rows:
        if not row["throughput_mbps"]:
            continue
        (label,) = [one for one, line in lines if row["series"] in line]
        assert (row["axis_low_mbps"], row["axis_high_mbps"]) == (label, label)
    (index,) = [n for n, (_, line) in enumerate(lines) if line.count("●") > 1]
    unnumbered = [row for row in rows if not row["throughput_mbps"]]
    assert lines[index][1].count("●") == len(unnumbered)
    bounds = {(row["axis_low_mbps"], row["axis_high_mbps"]) for row in unnumbered}
    assert bounds == {(labels[index + 1], labels[index - 1])}


# --- every number stands where it is said to stand ---------------------------------------------

PLAIN_HEADINGS = {
    "tas-i210-i225": r"(?:초록|소개|실험 방법|결과|결론|참고문헌)\s*$",
    "software-bridge": r"(?:요약|ABSTRACT|References)\s*$|(?:I|II|III|IV)\. |3\.\d ",
}
LABEL_SECTIONS = {
    ("frer-fail-operational", "figure-1"): "5.3",
    ("frer-fail-operational", "figure-2"): "5.1.4",
    ("frer-fail-operational", "figure-3"): "5.2",
    ("frer-fail-operational", "figure-4"): "5.4.4",
    ("frer-fail-operational", "figure-5"): "5.5",
    ("software-bridge", "table-3"): "3.1",
    ("software-bridge", "figure-4"): "3.2",
    ("software-bridge", "figure-4-differences"): "3.2",
    ("tas-i210-i225", "gate-control-lists"): "실험 방법",
    ("tas-i210-i225", "figures"): "결과",
    ("tas-i210-i225", "table-idle"): None,
    ("tas-i210-i225", "table-load"): None,
    ("tas-i210-i225", "table-prio"): None,
    ("software-bridge", "table-1"): None,
    ("software-bridge", "table-2"): None,
}


def _headings(document, text):
    """Return (offset, depth, heading) for every heading of a document."""
    if document in PLAIN_HEADINGS:
        found = re.finditer(rf"^(?:{PLAIN_HEADINGS[document]}).*$", text, re.M)
        return [(m.start(), 1, m[0]) for m in found]
    found = re.finditer(r"^(##+) (?:Appendix \w: )?(.*)$|^\*\*(\d+\.\d+\.\d+ .*)\*\*$", text, re.M)
    return [(m.start(), len(m[1]) if m[1] else 9, m[2] or m[3]) for m in found]


def _section(document, section):
    """Return the text of a section from its heading to the next of its depth or above."""
    text = _seed(document)
    headings = _headings(document, text)
    start = next(
        (n for n, (_, _, h) in enumerate(headings) if re.match(rf"{re.escape(section)}(?!\w)", h)),
        None,
    )
    assert start is not None, f"{document} has no section {section}"
    offset, depth, _ = headings[start]
    end = next((o for o, d, _ in headings[start + 1 :] if d <= depth), len(text))
    return text[offset:end]


def _stands_in(printed, text):
    """Tell whether a printed number, with its sign where it has one, stands in a text."""
    digits = re.escape(printed.lstrip("+-"))
    sign = re.escape(printed[0]) if printed[0] in "+-" else ""
    return re.search(rf"(?<![\d.]){sign}{digits}(?!\d|\.\d)", text) is not None


@needs_documents
@pytest.mark.parametrize("document", SEED_FILES)
def test_values_of_the_running_text_stand_in_their_section(document):
    for row in _rows(document, "text-values"):
        text = _section(document, row["section"])
        if row["value"]:
            assert _stands_in(row["value"], text), row
        else:
            assert row["text"] in text, row


OTHER_TABLES = [
    (document, table)
    for document, table in TABLES
    if table != "text-values" and table not in MARKDOWN_TABLES.get(document, [])
]


@needs_documents
@pytest.mark.parametrize(("document", "table"), OTHER_TABLES)
def test_every_number_of_a_table_stands_in_the_document(document, table):
    section = LABEL_SECTIONS.get((document, table), _section_of_label(document, table))
    text = _section(document, section) if section else _seed(document)
    if document == "tas-i210-i225" and section is None:
        text += (DOCUMENTS / "003-tables.csv").read_text(encoding="utf-8")
    fields = RESOURCES[document, table]["schema"]["fields"]
    numeric = [f["name"] for f in fields if f["type"] in {"number", "integer"}]
    numeric = [name for name in numeric if name not in {"line", "step"}]
    for row in _rows(document, table):
        for name in numeric:
            assert not row[name] or _stands_in(row[name], text), (row["row"], name)


def _section_of_label(document, table):
    match = re.match(
        r"(?:Section|Table) ([\dA]+\.\d+)", RESOURCES[document, table]["tsnrepro:label"]
    )
    return match and match[1]

"""The documentation's table of outputs is what the readers do."""

import re

import outputs_table


def test_the_page_of_outputs_is_what_the_readers_do():
    expected = outputs_table.page()
    assert outputs_table.PAGE.read_text(encoding="utf-8") == expected, (
        "run tests/imports/outputs_table.py"
    )
    rows = [line.split(" | ") for line in expected.splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 60
    assert all(re.match("(?:read|refused): .", row[2]) for row in rows)

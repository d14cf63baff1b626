"""How full pages are, and where floats stand, on pages whose layout is known."""

import numpy as np
import page_layout
import pytest

HEIGHT, WIDTH = 400, 200


@pytest.mark.parametrize(
    ("left", "right", "expected"), [(1.0, 1.0, 1.0), (1.0, 0.0, 0.5), (0.5, 0.5, 0.5), (0, 0, 0)]
)
def test_a_page_is_as_full_as_its_columns_reach_down(left, right, expected):
    image = np.full((HEIGHT, WIDTH), 255, np.uint8)
    image[5, :] = 0  # a running head
    top, bottom = int(page_layout._TOP * HEIGHT), int(page_layout._BOTTOM * HEIGHT)
    for share, columns in ((left, slice(WIDTH // 2)), (right, slice(WIDTH // 2, None))):
        image[top : top + int(share * (bottom - top)), columns] = 0
    assert page_layout._fill(image) == pytest.approx(expected, abs=0.01)


LABELS = r"""
\newlabel{fig:a}{{2}{3}{}{figure.caption.1}{}}
\newlabel{tab:b}{{IV}{1}{}{table.caption.2}{}}
\newlabel{tab:c}{{5}{2}{}{table.caption.3}{}}
\newlabel{sec:d}{{I}{1}{}{section.1}{}}
"""


def test_a_float_has_the_page_of_its_first_mention(tmp_path, monkeypatch):
    texts = [
        "Fig. 2. A caption. TABLE IV and 원 논문의 표 5",
        "as Tables III and IV say, and Fig. 4 of the report",
        "(Fig. 2) 표 4와 5를",
    ]
    monkeypatch.setattr(page_layout, "pages", lambda pdf: texts)
    (tmp_path / "a.aux").write_text(LABELS, encoding="utf-8")
    found = list(page_layout.floats_and_mentions(tmp_path / "a.pdf"))
    assert found == [("figure", "2", 3, 3), ("table", "IV", 1, 2), ("table", "5", 2, 3)]


def column(*lines, left=50.0, top=60.0):
    """Return lines of (text, indent, width), 12 points apart."""
    return [
        page_layout.Line(text, left + indent, top + 12 * number, left + indent + width)
        for number, (text, indent, width) in enumerate(lines)
    ]


FULL, OTHER = ("a line of the text", 0, 250), ("another line of", 0, 250)
LAST, FIRST = ("ends here.", 0, 60), ("A paragraph begins", 10, 240)


@pytest.mark.parametrize(
    ("foot", "head", "alone"),
    [
        ([FULL, OTHER], [LAST, FIRST, FULL], ["ends here."]),
        ([FULL, OTHER], [OTHER, LAST, FIRST], []),
        ([FULL, LAST], [("A. Heading", 0, 60), FIRST, FULL], []),
        ([FIRST, FULL], [FIRST, FULL, LAST], []),
    ],
    ids=["alone", "two lines", "heading", "paragraph"],
)
def test_a_last_line_alone_at_the_head_of_a_column_is_found(foot, head, alone):
    columns = [column(*foot), column(*head, left=320.0)]
    assert [line.text for line in page_layout.last_lines_alone(columns)] == alone


def test_cells_of_a_table_are_no_last_lines():
    head = [*column(LAST, FIRST, left=320.0), page_layout.Line("12.3", 400.0, 61.0, 420.0)]
    head.sort(key=lambda line: line.top)
    assert not list(page_layout.last_lines_alone([column(FULL, OTHER), head]))

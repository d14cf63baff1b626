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

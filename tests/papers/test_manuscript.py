"""The names in the LaTeX source of a manuscript."""

import pytest

from tsnrepro.common.errors import PublishError
from tsnrepro.papers.manuscript import MEASURED_COMMANDS, check_known, scan, scan_text


def test_keys_are_found_with_their_places():
    used = scan_text("a\n\\val{a.b} \\interval{c.d_e}\n\\pub{t/r/c} \\val{a.b}", "x.tex")
    assert used.measured == {"a.b": ["x.tex:2", "x.tex:3"], "c.d_e": ["x.tex:2"]}
    assert used.published == {"t/r/c": ["x.tex:3"]}


@pytest.mark.parametrize("command", MEASURED_COMMANDS)
def test_every_command_is_scanned(command):
    assert list(scan_text(f"\\{command}{{a.b}}", "x").measured) == ["a.b"]


def test_keys_are_found_inside_other_commands():
    text = r"\textbf{\val{a.a}} \calc{1}{100*(\rawval{b.b}/\rawpub{t/r/c} - 1)} \valto{2}{c.c}"
    used = scan_text(text, "x")
    assert set(used.measured) == {"a.a", "b.b", "c.c"}
    assert set(used.published) == {"t/r/c"}


def test_the_keys_of_a_row_of_cells_are_found():
    text = "\n\\cells[bounds]{a.{b,c_d}.us} & \\pubcells{t/{r,s}/c}"
    used = scan_text(text, "x")
    assert used.measured == {"a.b.us": ["x:2"], "a.c_d.us": ["x:2"]}
    assert set(used.published) == {"t/r/c", "t/s/c"}


def test_keys_of_every_branch_are_found():
    text = r"\ifval{a.a}{word}{\val{b.b}}{\val{c.c}} \caseval{d.d}{{x}{\lo{e.e}}{y}{\hi{f.f}}}"
    assert set(scan_text(text, "x").measured) == {"a.a", "b.b", "c.c", "d.d", "e.e", "f.f"}


def test_comments_do_not_count_but_escaped_percent_signs_do_not_comment():
    used = scan_text("% \\val{a.a}\n5\\,\\% \\val{b.b} % \\val{c.c}", "x")
    assert set(used.measured) == {"b.b"}


def test_figures_and_generated_tables_are_found():
    used = scan_text(r"\measuredfigure[width=\linewidth]{figures/f} \tablerows{tables/t.tex}", "x")
    assert list(used.files) == ["figures/f"]
    assert list(used.tables) == ["tables/t.tex"]


@pytest.mark.parametrize("text", [r"\val{a.\size.b}", r"\pub{t/#1/c}", r"\cells{a.#1.{b,c}}"])
def test_a_key_with_a_macro_is_an_error(text):
    with pytest.raises(PublishError, match=r"x\.tex:1"):
        scan_text(text, "x.tex")


def test_all_files_of_a_manuscript_are_read(tmp_path):
    (tmp_path / "sections").mkdir()
    (tmp_path / "main.tex").write_text(r"\val{a.a}")
    (tmp_path / "sections" / "more.tex").write_text(r"\val{b.b}")
    used = scan(tmp_path)
    assert used.measured == {"a.a": ["main.tex:1"], "b.b": ["sections/more.tex:1"]}


def test_an_empty_manuscript_is_an_error(tmp_path):
    with pytest.raises(PublishError, match=r"has no \.tex file"):
        scan(tmp_path)


def test_an_unknown_name_is_an_error_with_its_place_and_similar_names():
    with pytest.raises(PublishError, match=r"goodputt.*near: tcp\.goodput.*main\.tex:7"):
        check_known({"tcp.goodputt": ["main.tex:7"]}, ["tcp.goodput", "x.y"], "value")

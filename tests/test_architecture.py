"""The picture of the architecture follows the code, and rooms import only to their left."""

import ast
from collections import Counter
from itertools import chain

from tsnrepro.architecture import ABOUT, COLUMNS, arrows, rooms, shown_arrows, write
from tsnrepro.repository import root


def column_of(room):
    return next(number for number, names in enumerate(COLUMNS) if room in names)


def test_every_room_is_in_the_picture_with_what_it_is_about():
    assert sorted(chain(*COLUMNS)) == rooms() == sorted(ABOUT)


def test_no_room_uses_one_to_its_right():
    assert [(a, b) for a, b in arrows() if column_of(a) > column_of(b)] == []


def test_no_two_rooms_use_each_other():
    assert [(a, b) for a, b in arrows() if (b, a) in arrows()] == []


def test_arrows_are_the_codes():
    assert ("settings", "records") in arrows()
    assert ("records", "publish") in arrows()
    assert ("publish", "records") not in arrows()
    assert shown_arrows() < arrows()


def test_the_picture_is_the_one_that_the_code_draws(tmp_path):
    write(tmp_path / "architecture.svg")
    drawn = (tmp_path / "architecture.svg").read_bytes()
    assert drawn == (root() / "docs" / "architecture.svg").read_bytes(), (
        "draw it again: python -m tsnrepro.architecture docs/architecture.svg"
    )


def test_no_class_name_stands_for_two_things():
    trees = (ast.parse(path.read_text("utf-8")) for path in (root() / "src").rglob("*.py"))
    classes = (
        node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    )
    assert [name for name, times in Counter(classes).items() if times > 1] == []

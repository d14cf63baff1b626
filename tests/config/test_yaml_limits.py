"""YAML that is written to exhaust or deceive its reader: every reader refuses it in a sentence."""

import re

import pytest
from yaml_readers import READERS

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.repository import root
from tsnrepro.config.yaml_files import parse_yaml
from tsnrepro.published.documents import PACKAGE_FILE
from tsnrepro.workflow.notebooks import parse_parameters

NINE = ", ".join(["*a{}"] * 9)
BOMB = "a0: &a0 [x]\n" + "".join(
    f"a{n}: &a{n} [{NINE.replace('{}', str(n - 1))}]\n" for n in range(1, 10)
)
MERGED = "a0: &a0 {x: 1, y: 2}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{NINE.replace('{}', str(n - 1))}]}}\n" for n in range(1, 10)
)
HOSTILE = {
    "aliases of aliases": (BOMB.encode(), "more than 100000 values"),
    "merged aliases": (MERGED.encode(), "more than 100000 values"),
    "an alias of itself": (b"a: &a {b: [*a]}", "an alias of itself in line 1"),
    "lists in lists": (b"a: " + b"[" * 500_000, "nested deeper than 32 levels in line 1"),
    "size": (b"# " + b"x" * (2 << 20), "larger than 1 MiB"),
    "values": (b"a: [" + b"1," * 400_000 + b"]", "more than 100000 values"),
    "a key twice": (b"a: 1\n'a': 2", "key 'a' twice, in line 2"),
    "a key twice by its alias": (b"&k a: 1\n*k : 2", "key 'a' twice, in line 2"),
    "a long key twice": (b"? " + b"k" * 5000 + b"\n? " + b"k" * 5000, "twice, in line 2"),
    "UTF-16": ("a: 1".encode("utf-16"), "not UTF-8"),
    "Latin-1": ("a: \u00e9".encode("latin-1"), "not UTF-8"),
    "NUL": (b"a: b\0c", "not YAML: unacceptable character"),
    "a Python object": (b"a: !!python/object/apply:os.system [id]", "tag '!!python/object"),
    "a damaged date": (b"a: !!timestamp foo", "tag '!!timestamp' in line 1"),
    "a damaged truth": (b"a: 1\nb: !!bool maybe", "tag '!!bool' in line 2"),
    "a key of bytes": (b"? !!binary aaaa\n: 1", "tag '!!binary' in line 1"),
    "a set": (b"!!set {a, b}", "tag '!!set' in line 1"),
    "a tag of one's own": (b"a: !mine b", "tag '!mine' in line 1"),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", HOSTILE)
def test_every_reader_refuses_it_in_one_sentence(tmp_path, name, kind):
    content, says = HOSTILE[kind]
    path = tmp_path / name.rsplit("/", 1)[-1]
    (tmp_path / PACKAGE_FILE).write_text("{}")
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=re.escape(says)) as error:
        READERS[name](path)
    said = str(error.value)
    assert path.name in said
    assert "\n" not in said
    assert len(said) < 2500


def test_aliases_that_somebody_writes_are_read():
    text = b"a: &a {x: 1}\nb: [*a, *a]\n&k c: 2\nd: *k"
    assert parse_yaml(text, "a file") == {"a": {"x": 1}, "b": [{"x": 1}] * 2, "c": 2, "d": "c"}


def test_a_parameter_of_a_notebook_is_read_by_the_same_reader():
    assert parse_parameters(["a=1e3", "b=", "c=[x]"]) == {"a": 1000.0, "b": None, "c": ["x"]}
    with pytest.raises(ConfigurationError, match=r"not YAML: .* \(notebook parameters, a\)"):
        parse_parameters(["a=[1"])


def test_no_other_module_reads_yaml_by_itself():
    loads = re.compile(r"yaml\.\w*load\w*\(|yaml\.(parse|compose|scan)|\bfrom (ruamel|yaml) ")
    sources = sorted((root() / "src").rglob("*.py"))
    assert [path.name for path in sources if loads.search(path.read_text(encoding="utf-8"))] == [
        "yaml_files.py"
    ]

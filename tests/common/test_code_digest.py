"""The code of a rule follows from the imports of its entry points."""

import ast

import pytest

from tsnrepro.common import code_digest as dependencies
from tsnrepro.common.code_digest import code_digest, code_of
from tsnrepro.common.repository import root
from tsnrepro.config.registry import experiments


@pytest.mark.parametrize("name", list(experiments()))
def test_an_analysis_depends_on_its_module_and_the_statistics_below(name):
    found = code_of(f"notebooks/analyse/{name}.ipynb")
    assert f"notebooks/analyse/{name}.ipynb" in found
    assert "src/tsnrepro/stats/estimate.py" in found
    assert "src/tsnrepro/results/output.py" in found
    assert not [path for path in found if "/publish/" in path or "/workflow/" in path]


@pytest.mark.parametrize("name", list(experiments()))
def test_measuring_depends_on_backends_and_testbeds_but_not_on_pages(name):
    found = code_of(f"notebooks/measure/{name}.ipynb", f"tsnrepro.experiments.{name}.measure")
    assert "src/tsnrepro/records/store.py" in found
    on_model = "model" in experiments()[name].kinds
    assert "src/tsnrepro/model/engine.py" in found or not on_model
    assert not [path for path in found if "/publish/" in path or "/audit/" in path]
    # Of statistics only those of a search, not those of stopping rules.
    assert "src/tsnrepro/stats/thresholds.py" not in found or name == "rfc2544"
    assert "src/tsnrepro/experiments/stopping_rules.py" not in found


def test_one_analysis_does_not_depend_on_another():
    found = code_of("notebooks/analyse/tcp.ipynb")
    assert "src/tsnrepro/experiments/tcp/analysis.py" in found
    assert "src/tsnrepro/experiments/failure/analysis.py" not in found


def test_a_command_depends_on_the_imports_of_its_function_only():
    found = code_of("tsnrepro.cli.papers:_paper_inputs")
    assert "src/tsnrepro/papers/macros.py" in found
    assert "src/tsnrepro/report/site.py" not in found
    assert "src/tsnrepro/report/site.py" in code_of("tsnrepro.cli.report:_report")


def test_templates_and_sources_beside_a_module_are_included():
    assert "src/tsnrepro/report/templates/overview.html.j2" in code_of("tsnrepro.report.site")
    switch = code_of("tsnrepro.native.frer")
    assert "src/tsnrepro/native/frer/switch.bpf.c" in switch
    assert {f"src/tsnrepro/native/{name}" for name in ("Makefile", "program.c")} <= {*switch}
    assert "src/tsnrepro/native/bridge/bridge.c" not in switch


def test_imports_are_found_without_parsing_the_rest_of_a_module():
    for path in (root() / "src").rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        whole = dependencies._imports(ast.parse(source))
        found = dependencies._imports(dependencies._import_statements(source))
        # Text for users of the package that contains imports of it.
        assert found - {"tsnrepro"} == whole - {"tsnrepro"}, path


@pytest.mark.parametrize(
    "source",
    [
        "from tsnrepro.records import store",
        "import tsnrepro.records.store as kept",
        "def late():\n    from tsnrepro.records import (  # noqa\n        store,\n    )\n",
        '"""\nfrom tsnrepro it is taken\n"""\nfrom tsnrepro.records import store\n',
        "try:\n    pass\nexcept OSError:\n    import tsnrepro.records.store\nelse:\n    x = 1",
    ],
)
def test_imports_are_found_anywhere(source):
    found = dependencies._imports(dependencies._import_statements(source))
    assert "tsnrepro.records.store" in found
    assert found == dependencies._imports(ast.parse(source))


def test_a_missing_function_is_an_error():
    with pytest.raises(LookupError, match="no function _nothing"):
        code_of("tsnrepro.cli.report:_nothing")


def test_the_digest_changes_with_an_imported_module(monkeypatch, tmp_path):
    entry, before = "tsnrepro.model.engine", code_digest("tsnrepro.model.engine")
    for path in code_of(entry):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes((root() / path).read_bytes())
    monkeypatch.setattr("tsnrepro.common.code_digest.root", lambda: tmp_path)
    assert code_digest(entry) == before
    ports = tmp_path / "src/tsnrepro/model/ports.py"
    ports.write_text(ports.read_text() + "# changed\n")
    assert code_digest(entry) != before

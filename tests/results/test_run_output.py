"""What an experiment does not declare is not written; the error names where to declare it."""

import re

import pandas as pd
import pytest
from matplotlib.figure import Figure

from tsnrepro.common.errors import ConfigurationError, RecordError
from tsnrepro.common.repository import root
from tsnrepro.results import output
from tsnrepro.results.results import Results


@pytest.fixture
def of_run(tmp_path, monkeypatch):
    """Return the output of a run of ``loss``, of which nothing but the experiment is known."""
    monkeypatch.setattr(output, "open_run", lambda run: (run.parent, {"experiment": "loss"}))
    return output.RunOutput(tmp_path / "run.json")


def results_of_a_test():
    found = Results("loss", pd.DataFrame(columns=["trial", "sha256"]))
    found.value("loss.of_a_test", 1, [])
    return found


@pytest.mark.parametrize(
    ("write", "error"),
    [
        (lambda of_run: of_run.table("of_a_test", pd.DataFrame()), ConfigurationError),
        (lambda of_run: of_run.save(Figure(), "of_a_test"), ConfigurationError),
        (lambda of_run: of_run.values(results_of_a_test()), RecordError),
    ],
)
def test_the_file_that_declares_is_named(of_run, write, error):
    with pytest.raises(error, match="of_a_test") as caught:
        write(of_run)
    (path,) = re.findall(r"src/\S+\.py", str(caught.value))
    assert "EXPERIMENT = Experiment(" in (root() / path).read_text(encoding="utf-8")

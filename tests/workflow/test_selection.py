"""What one call of ``snakemake`` measures and prints."""

import pytest
from tracked_files import tracked

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.config import files
from tsnrepro.config.campaigns import Selection
from tsnrepro.config.files import campaign
from tsnrepro.config.papers import sources_of
from tsnrepro.testbeds import choose
from tsnrepro.workflow.selection import SelectedRun, plan

_TRACKED = (path.parent.name for path in tracked("paper/*/sources.yaml"))
# One's own may be tracked too; it reproduces no document.
OURS = tuple(name for name in _TRACKED if sources_of(name).document)


@pytest.fixture(autouse=True)
def _papers_of_the_repository(monkeypatch):
    """Leave out the papers of who runs the tests."""
    monkeypatch.setattr("tsnrepro.workflow.selection.manuscripts", lambda: OURS)


def test_all_of_a_campaign_that_the_testbed_can_measure():
    found = plan(Selection(testbed="model", campaign="quick"))
    assert {run.experiment for run in found.runs} | {*found.skipped} == {
        *campaign("quick").experiments
    }
    assert found.name == "model-quick"


def test_some_experiments_of_a_campaign_with_the_papers_that_they_fill():
    found = plan(Selection(testbed="model", experiments=["tcp", "shaping"]))
    assert [run.experiment for run in found.runs] == ["tcp", "shaping"]
    assert [paper.name for paper in found.papers] == ["software-bridge", "tas-evaluation"]
    assert found.report == "results/reports/model-quick-tcp-shaping"


def test_an_experiment_that_the_campaign_has_not_is_an_error_with_those_it_has():
    with pytest.raises(ConfigurationError, match=r"'smoke' has no experiment 'shaping'.*loss, tcp"):
        plan(Selection(campaign="smoke", experiments=["shaping"]))


def test_a_paper_that_prints_nothing_of_what_is_asked_for_is_an_error():
    with pytest.raises(ConfigurationError, match=r"'tas-evaluation' needs shaping"):
        plan(Selection(testbed="model", experiments=["tcp"], papers=["tas-evaluation"]))


def test_a_paper_prints_what_the_campaign_has_beside_its_own_experiments():
    found = {paper.name: paper for paper in plan(Selection(testbed="emulated")).papers}["frer-udp"]
    measured = [run.experiment for run in found.columns["measured"]]
    assert measured == ["loss", "tcp", "latency", "failure", "traffic"]
    # The emulated testbed has no buffers to fill: the model does, in a column of its own.
    assert [run.experiment for run in found.columns["simulated"]] == [*measured, "occupancy"]


def test_a_paper_is_printed_without_what_it_only_prints_beside():
    chosen = Selection(testbed="model", experiments=["loss", "tcp", "latency"])
    (found,) = plan(chosen).papers
    assert found.name == "frer-udp"
    assert {run.experiment for run in found.runs} == {"loss", "tcp", "latency"}


def test_a_paper_that_does_not_describe_the_testbed_is_not_printed():
    cards = Selection(testbed="i210-example", campaign="quick", experiments=["shaping"])
    assert [paper.name for paper in plan(cards).papers] == ["tas-evaluation"]
    asked = cards.model_copy(update={"papers": ["software-bridge"]})
    with pytest.raises(ConfigurationError, match="describes no testbed of kind nic-pair"):
        plan(asked)


def test_data_of_others_are_printed_without_a_study_unless_one_is_named(monkeypatch):
    monkeypatch.setattr(
        "tsnrepro.workflow.selection.manifest.imported_testbeds", lambda _: ["others"]
    )
    held = ["loss", "tcp", "latency"]
    monkeypatch.setattr(
        "tsnrepro.workflow.selection.manifest.imported_experiments", lambda *_: held
    )
    (unasked,) = plan(Selection(testbed="others")).papers
    (asked,) = plan(Selection(testbed="others", study="threshold")).papers
    assert (unasked.name, unasked.study, asked.study) == ("frer-udp", None, "threshold")
    (own,) = plan(Selection(testbed="model", experiments=held, papers=["frer-udp"])).papers
    assert own.study == campaign("quick").study


class TestWithoutRoot:
    """What ``auto`` takes where nothing of one's own can be measured on the emulated testbed."""

    @pytest.fixture
    def recorded(self, monkeypatch):
        """Return the runs, experiment first, that the record has."""
        runs = set()
        monkeypatch.setattr("tsnrepro.workflow.selection.is_recorded", lambda *run: run in runs)
        monkeypatch.setattr(
            choose,
            "missing_on_machine",
            lambda kind: ["root"] if kind in ("emulated", "guest") else [],
        )
        return runs

    def test_what_was_measured_is_printed(self, recorded):
        recorded.update({("loss", "emulated", "quick"), ("capture", "emulated", "quick")})
        found = plan(Selection(experiments=["loss", "tcp", "capture"]))
        assert {run.experiment: run.testbed for run in found.runs} == {
            "loss": "emulated",
            "tcp": "model",
            "capture": "emulated",
        }
        assert found.reasons["emulated"] == "its trials are recorded"

    def test_another_campaign_was_not(self, recorded):
        recorded.add(("loss", "emulated", "documents"))
        (run,) = plan(Selection(experiments=["loss"])).runs
        assert run.testbed == "model"

    def test_a_testbed_that_can_be_used_comes_before_one_whose_trials_are_there(
        self, recorded, monkeypatch
    ):
        recorded.add(("shaping", "guest", "quick"))
        monkeypatch.setattr(choose, "missing_on_machine", lambda kind: [])
        (run,) = plan(Selection(experiments=["shaping"])).runs
        assert run.testbed == "emulated"


class TestOptionalColumns:
    """The guest's column of software-bridge: there where all of it is recorded, else left out."""

    GUEST = SelectedRun("guest", "quick", "shaping")

    @pytest.fixture
    def recorded(self, monkeypatch):
        """Return the runs, experiment first, that the record is asked for and has."""
        runs = {("shaping", "guest", "quick"), ("shaping", "guest", "documents")}
        monkeypatch.setattr("tsnrepro.workflow.selection.is_recorded", lambda *run: run in runs)
        return runs

    @staticmethod
    def columns(**chosen):
        (paper,) = plan(
            Selection(experiments=["shaping"], papers=["software-bridge"], **chosen)
        ).papers
        return paper.columns

    @pytest.mark.parametrize("testbed", ["emulated", "model"])
    def test_one_stands_beside_whatever_is_selected(self, recorded, testbed):
        found = self.columns(testbed=testbed)
        assert [*found] == ["selected", "simulated", "guest"]
        assert found["guest"] == (self.GUEST,)

    def test_one_is_skipped_and_nothing_is_measured_for_it(self, recorded):
        recorded.clear()
        assert [*self.columns(testbed="emulated")] == ["selected", "simulated"]

    def test_the_selected_testbed_stands_there_once(self, recorded):
        found = self.columns(testbed="guest")
        assert found["selected"] == (self.GUEST,)
        assert "guest" not in found

    def test_of_another_campaign_it_is_none(self, recorded):
        recorded.remove(("shaping", "guest", "quick"))
        assert "guest" not in self.columns(testbed="emulated")

    @pytest.mark.parametrize(
        ("testbed", "lacks", "there"),
        [("auto", [], True), ("auto", ["qemu"], False), ("emulated", [], False)],
    )
    def test_a_campaign_may_have_it_measured(self, recorded, monkeypatch, testbed, lacks, there):
        """By ``auto`` alone, which takes what a machine can run."""
        recorded.clear()
        missing = {"guest": lacks}
        monkeypatch.setattr(
            "tsnrepro.testbeds.choose.missing_on_machine", lambda kind: missing.get(kind, [])
        )
        monkeypatch.setattr("tsnrepro.testbeds.choose.missing_qdiscs", list)
        assert campaign("documents").compare_with == ["guest"]
        found = self.columns(testbed=testbed, campaign="documents")
        assert found["selected"][0].testbed == "emulated"
        assert ("guest" in found) == there


def test_a_bench_has_no_papers_about_frer_switches():
    chosen = Selection(testbed="bench-example", experiments=["loss", "tcp", "latency"])
    found = plan(chosen)
    assert [run.experiment for run in found.runs] == chosen.experiments
    assert found.papers == ()
    with pytest.raises(ConfigurationError, match="describes no testbed of kind bench"):
        plan(chosen.model_copy(update={"papers": ["frer-udp"]}))


class TestDeviceReport:
    """Printed for any testbed, of whatever was measured; of a bench beside its baseline."""

    REPORT = "device-report"

    @pytest.fixture(autouse=True)
    def _one_paper(self, monkeypatch):
        monkeypatch.setattr("tsnrepro.workflow.selection.manuscripts", lambda: [self.REPORT])

    @pytest.fixture
    def bench(self, monkeypatch):
        """Return a function that sets the settings of the benches `device` and `cable`."""
        settings_of = files.testbed_settings
        known = {"bench-example": settings_of("bench-example")}

        def chosen(**cable):
            own = known["bench-example"]
            known["device"] = own.model_copy(update={"baseline": "cable"})
            known["cable"] = own.model_copy(update={"device": "none"} | cable)

        for place in ("workflow.selection", "runner.plan"):
            monkeypatch.setattr(
                f"tsnrepro.{place}.testbed_settings",
                lambda name: known.get(name) or settings_of(name),
            )
        monkeypatch.setattr(choose, "check_name", lambda *_: None)
        monkeypatch.setattr("tsnrepro.workflow.selection.is_recorded", lambda *_: True)
        return chosen

    @pytest.mark.parametrize("experiment", ["tcp", "rfc2544", "shaping"])
    def test_any_experiment_that_it_prints_is_enough(self, experiment):
        (paper,) = plan(Selection(testbed="model", experiments=[experiment])).papers
        assert paper.name == self.REPORT
        assert [*paper.columns] == ["selected"]

    def test_of_others_there_is_nothing_to_report(self):
        chosen = Selection(testbed="model", experiments=["meshed"])
        assert plan(chosen).papers == ()
        with pytest.raises(ConfigurationError, match="needs rfc2544, loss"):
            plan(chosen.model_copy(update={"papers": [self.REPORT]}))

    def test_it_is_the_paper_of_a_bench(self):
        (paper,) = plan(Selection(testbed="bench-example", experiments=["loss"])).papers
        assert paper.name == self.REPORT

    def test_the_baseline_stands_beside(self, bench):
        bench()
        found = plan(Selection(testbed="device", experiments=["loss", "latency"]))
        (paper,) = found.papers
        # The device is cabled now, so the cable is not measured.
        assert found.unselected_benches == ["cable"]
        assert plan(Selection(testbed="cable", experiments=["loss"])).unselected_benches == []
        assert [run.testbed for run in paper.columns["selected"]] == ["device"] * 2
        assert paper.columns["baseline"] == (
            SelectedRun("cable", "quick", "loss"),
            SelectedRun("cable", "quick", "latency"),
        )

    @pytest.mark.parametrize(
        ("cable", "says"),
        [
            ({"device": "GS308"}, "'cable' is no bench with `device: none`"),
            ({"link_rate_mbps": 100}, "the links of 'cable' have 100 Mb/s, not 1000"),
        ],
    )
    def test_only_a_cable_at_the_same_rate_is_a_baseline(self, bench, cable, says):
        bench(**cable)
        with pytest.raises(ConfigurationError, match=says):
            plan(Selection(testbed="device", experiments=["loss"]))

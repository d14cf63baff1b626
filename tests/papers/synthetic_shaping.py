"""Made-up results of ``shaping`` for the keys of a manuscript."""

from manuscript_checks import PageChecks
from synthetic_results import entry_by_pattern, facts_of_testbed, write_figures, write_run

from tsnrepro.papers.data_sources import DataSource, DataSources
from tsnrepro.papers.macros import write_paper_inputs
from tsnrepro.papers.manuscript import scan

EXPERIMENT, SIMULATED = "shaping", "simulated"
UNITS = {"us": "us", "mbps": "Mb/s", "bytes": "B", "percent": "%", "s": "s"}
TESTBEDS = {
    "nic-pair": ("NIC pair testbed (two hosts whose network cards a cable joins)", "Measured on"),
    "model": ("model testbed (simulated queues, no measurement)", "Simulated on"),
    "guest": ("guest testbed (namespaces in a virtual machine)", "Measured on"),
    "emulated": ("emulated testbed (queues of its own kernel)", "Measured on"),
}

# The shaper of each kind of testbed, unless a test chooses another.
SHAPERS = {"nic-pair": "card", "model": "model", "guest": "kernel", "emulated": "kernel"}

# Values by pattern of the key; three numbers are a value with its limits.
DEFAULTS = {
    "*.alike.verdict": "equivalent",
    "*.verdict": "cannot tell",
    "*.below_*": "yes",
    "*.medium": "invented",
    "*.runs.count": 3,
    "*.count": 123_456,
    "*.bytes": 1530,
    "*.schedule.*": 1000.0,
    "*.conditions.threads": "one",
    "*.conditions.*": 1000.0,
    "*.max.us": 1434.75,
    "*.ratio": (1.234, 0.987, 65.432),
    "*.percent": (12.345, 10.123, 14.567),
    "*": (1234.5, 1034.25, 1434.75),
}


def facts_of(kind):
    label, verb = TESTBEDS[kind]
    virtual = {"acceleration": "tcg"} if kind == "guest" else {}
    return facts_of_testbed(kind=kind, label=label, verb=verb, **virtual)


def prepared(paper, folder, kind="guest", measured=True, chosen=None, beside=()):
    """Write results and the inputs of a manuscript, and return their folder.

    ``chosen`` are values by pattern of their keys; ``beside`` are kinds of testbeds, each with an
    optional data source of its name.
    """
    used, sources = scan(paper.folder), []
    kinds = {"selected": kind, SIMULATED: "model", **{name: name for name in beside}}
    for source, testbed in kinds.items():
        prefix = f"{source}." if sources else ""
        bare = [key.removeprefix(prefix) for key in used.measured if key.startswith(prefix)]
        keys = sorted(key for key in bare if key.startswith(f"{EXPERIMENT}."))
        values = {**(chosen or {})}
        values.setdefault("*.shaper", SHAPERS[testbed])
        patterns = [*values.items(), *DEFAULTS.items()]
        items = [
            entry_by_pattern(key, patterns, units=UNITS, run=EXPERIMENT, decimals=2, prefix=prefix)
            for key in (keys if measured else ())
        ]
        run = folder / source / EXPERIMENT
        write_run(run, items, facts_of(testbed), testbed=testbed)
        if measured:
            names = {name.split("/")[-1] for name in used.files}
            write_figures(run / "figures", sorted(names))
        sources.append(DataSource(source, {EXPERIMENT: run}))
    write_paper_inputs(paper.folder, folder / "paper", DataSources(sources))
    return folder


class PagesOfShaping(PageChecks):
    """Checks of the pages of every manuscript that prints ``shaping``."""

    points = 2

    @classmethod
    def prepared(cls, folder, **options):
        return prepared(cls.paper, folder, **options)

    def test_measured_and_simulated_stand_beside_each_other(self, built):
        text = self.paper.squeezed(built)
        assert "측정값(게스트테스트베드)과95%구간" in text
        assert "시뮬레이션(모델테스트베드)과95%구간" in text

    def test_a_model_alone_is_never_called_measured(self, tmp_path):
        results = self.paper.typeset(self.prepared(tmp_path, kind="model"))
        text = self.paper.squeezed(results)
        assert "시뮬레이션(모델테스트베드)과95%구간" in text
        assert "측정값" not in text
        self.paper.assert_nothing_is_missing_or_off_the_page(results, points=2)

    def test_what_was_not_measured_prints_a_dash(self, tmp_path):
        results = self.paper.typeset(self.prepared(tmp_path, measured=False))
        assert "이캠페인에서는측정하지않았다." in self.paper.squeezed(results)
        self.paper.assert_nothing_is_missing_or_off_the_page(results, points=2)

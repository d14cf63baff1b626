"""The report of a selection: a self-contained site of static pages.

It has an overview, a page for each experiment, a list of its trials and a page for each of them,
the executed notebooks, the published and measured values, the provenance, and the ledger of claims.
Every number links to its trials. The pages open from files, with a content security policy that
forbids external resources.
"""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tsnrepro.published.families import judged_by_run
from tsnrepro.records.values import TABLES_FOLDER, VALUES_FILE, Result, load_file
from tsnrepro.report.figures import (
    as_script,
    figures_of,
    intervals_plot,
    origin,
    trials_plot,
    vega_bundle,
)
from tsnrepro.report.overview import compared, document_title, loss_locations
from tsnrepro.report.provenance_graph import Node, experiments_of_paper, graph
from tsnrepro.report.questions import answered
from tsnrepro.report.trial_pages import trial_page
from tsnrepro.report.trials import list_columns, relative, table_of, trial_rows, trials_of_values
from tsnrepro.results.language import method_in, translator
from tsnrepro.results.runs import AnalysedRun
from tsnrepro.results.templates import environment
from tsnrepro.results.verdicts import with_power
from tsnrepro.workflow.notebooks import PAGE

_OVERVIEW, _LEDGER = "index.html", "ledger.html"
_UNMEASURED = "not-given"
_PUBLISHED, _PROVENANCE = "published.html", "provenance.html"
_TEMPLATES = {
    _OVERVIEW: "overview.html.j2",
    _PUBLISHED: "published.html.j2",
    _PROVENANCE: "provenance.html.j2",
    "experiment": "experiment.html.j2",
    "trials": "trials.html.j2",
    "trial": "trial.html.j2",
}
_ASSETS = ("site.css", "site.js")
_VEGA = "vega.js"
# What the script of the pages prints.
_SCRIPT_TEXTS = (
    *("{count} values", "the first {shown} of {count} values", "value", "Rows with ", "Show more"),
    *("{count} rows", "the first {shown} of {count} rows", "{count} trials behind "),
    "Show all trials",
)
# Local scripts and images only; inline styles are for the plots.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'"
)
_MAX_ROWS = 400
_PAPERS = "papers"
_PAPER, _PAPER_RECORD = ("*.pdf", "*.html"), "provenance.json"


def write_report(
    output: Path,
    runs: Sequence[Path],
    papers: Sequence[Path] = (),
    reason: str = "",
    language: str = "en",
) -> None:
    """Write the site of runs into a folder.

    Parameters
    ----------
    output
        Folder for ``index.html`` and the other pages; made where missing. A ledger that is
        in it is linked.
    runs
        Folders of analysed runs, one per experiment, of one or several testbeds.
    papers
        Folders of built papers, of which the site has copies.
    reason
        One line on what was measured where and why; may be empty.
    language
        ``en`` or ``ko``. Keys are in English in both.

    Raises
    ------
    RecordError
        A run has no results.
    PublishError
        The facts of a run do not name its testbed.
    """
    site = _Site(
        Path(output), [AnalysedRun.load(Path(folder)) for folder in runs], papers, language
    )
    site.output.mkdir(parents=True, exist_ok=True)
    site.copy_papers()
    for run in site.runs:
        site.write_experiment(run)
    site.write(_PUBLISHED, _PUBLISHED, "Published against measured", **site.published())
    site.write(_PROVENANCE, _PROVENANCE, "Provenance", graph=graph(site.nodes()))
    for name in _ASSETS:
        (site.output / name).write_bytes((Path(__file__).parent / "templates" / name).read_bytes())
    (site.output / _VEGA).write_text(vega_bundle(), encoding="utf-8")
    site.write(
        _OVERVIEW,
        _OVERVIEW,
        "Overview",
        commit=site.runs[0].facts["commit"],
        reason=reason,
        questions=site.questions,
        rows=site.compared,
        loss_locations=list(loss_locations(site.values)),
        runs=[site.described(run) for run in site.runs],
        testbeds=site.testbeds(),
        by_testbed=site.by_testbed(),
        links=_links(site.runs, site.papers, site.output),
    )


class _Site:
    """The pages of runs, and the links to each value in them."""

    def __init__(
        self, output: Path, runs: Sequence[AnalysedRun], papers: Sequence[Path], language: str
    ) -> None:
        self.output, self.runs, self.language = output, runs, language
        self.text = translator(language)
        self.papers = [Path(paper) for paper in papers]
        self.values_of = judged_by_run(
            {run.experiment.name: load_file(run.folder / VALUES_FILE) for run in runs}
        )
        self.values = {key: item for own in self.values_of.values() for key, item in own.items()}
        self.addresses = {
            key: f"{name}.html#{_UNMEASURED if _is_unmeasured(item) else key}"
            for name, found in self.values_of.items()
            for key, item in found.items()
        }
        self.compared = list(compared(self.values, self.addresses, self.text))
        self.titles = {run.experiment.name: run.experiment.title for run in runs}
        self.figures = {run.experiment.name: list(figures_of(run, self.text)) for run in runs}
        by_name = {figure["path"]: figure for found in self.figures.values() for figure in found}
        self.questions = list(answered(self.values, self.addresses, by_name, self.text))
        self._environment = environment("tsnrepro.report")
        self._environment.globals["_"] = self.text

    def copy_papers(self) -> None:
        """Copy the papers with their provenance into the site, whose links lead there."""
        shutil.rmtree(self.output / _PAPERS, ignore_errors=True)
        copies = [self.output / _PAPERS / paper.name for paper in self.papers]
        for paper, copy in zip(self.papers, copies, strict=True):
            copy.mkdir(parents=True)
            for path in (path for kind in (*_PAPER, _PAPER_RECORD) for path in paper.glob(kind)):
                shutil.copyfile(path, copy / path.name)
        self.papers = copies

    def write(self, template: str, page: str, title: str, **content: Any) -> None:
        """Write one page at its path in the site."""
        text = self._environment.get_template(_TEMPLATES[template]).render(
            {
                "title": title,
                "language": self.language,
                "script_texts": as_script({text: self.text(text) for text in _SCRIPT_TEXTS}),
                "campaign": self.runs[0].facts["campaign"],
                "pages": self._pages(),
                "experiments": {f"{name}.html": title for name, title in self.titles.items()},
                "current": page,
                "up": "../" * page.count("/"),
                "policy": _POLICY,
                **content,
            }
        )
        path = self.output / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def _pages(self) -> list[dict[str, str]]:
        """Return the links in the head of every page."""
        named = {_OVERVIEW: "Overview", _PUBLISHED: "Published", _PROVENANCE: "Provenance"}
        if (self.output / _LEDGER).is_file():
            named[_LEDGER] = "Claims"
        return [{"address": address, "title": title} for address, title in named.items()]

    def described(self, run: AnalysedRun) -> dict[str, Any]:
        """Return the description of a run for templates."""
        name = run.experiment.name
        pages = {"page": f"{name}.html", "trial_page": f"trials/{name}.html"}
        return run.described() | pages | {"origin": origin(run, self.text)}

    def testbeds(self) -> list[dict[str, Any]]:
        """Return each testbed once, with its facts and experiments."""
        found: dict[tuple, dict[str, Any]] = {}
        for run in self.runs:
            entry = found.setdefault(tuple(run.facts.items()), {"facts": run.facts, "of": []})
            entry["of"].append(self.text(run.experiment.title))
        return list(found.values())

    def by_testbed(self) -> dict[str, list[str]]:
        """Return the experiments by their origin, such as "Measured on the emulated testbed"."""
        found: dict[str, list[str]] = {}
        for run in self.runs:
            found.setdefault(origin(run, self.text), []).append(self.text(run.experiment.title))
        return found

    def write_experiment(self, run: AnalysedRun) -> None:
        """Write the page of an experiment, the list of its trials, and a page for each of them."""
        name, title = run.experiment.name, run.experiment.title
        described, table = self.described(run), table_of(run)
        notebook = f"notebooks/{name}.html"
        if (page := run.folder / PAGE).is_file():
            (self.output / notebook).parent.mkdir(exist_ok=True)
            shutil.copyfile(page, self.output / notebook)
        values = self.values_of[name]
        questions = [question for question in self.questions if question["experiment"] == name]
        shown_above = [question["figure"] for question in questions]
        self.write(
            "experiment",
            described["page"],
            title,
            run=described,
            notebook=notebook if (self.output / notebook).is_file() else "",
            questions=questions,
            plot=None if table is None else trials_plot(table, described["trial_page"]),
            intervals=intervals_plot(values),
            figures=[figure for figure in self.figures[name] if figure not in shown_above],
            values=[
                self._value_row(item)
                for _, item in sorted(values.items())
                if not _is_unmeasured(item)
            ],
            unmeasured=_keys_by_reason(values, self.language),
            unmeasured_anchor=_UNMEASURED,
        )
        self._write_trials(run, described, table)

    def _write_trials(self, run: AnalysedRun, described: dict[str, Any], table: Any) -> None:
        """Write the list of the trials of a run, and a page for each whose record is there."""
        name, title = run.experiment.name, run.experiment.title
        folder = self.output / "trials" / name
        shutil.rmtree(folder, ignore_errors=True)
        columns = list_columns(table, run.experiment.outcomes)
        rows = trial_rows(run, table, columns)
        self.write(
            "trials",
            described["trial_page"],
            f"{self.text(title)}: {self.text('trials')}",
            run=described,
            columns=columns,
            rows=rows,
            sets=as_script(trials_of_values(name, rows, self.values)),
        )
        for row in rows:
            if row["folder"]:
                page = f"trials/{row['page']}"
                found = trial_page(row["folder"], (self.output / page).parent)
                self.write("trial", page, row["trial"], run=described, row=row, **found)

    def _value_row(self, item: Result) -> dict[str, Any]:
        """Return the row of a value, with links to its trials by experiment."""
        names = [name for name in item.run.split("+") if name in self.titles]
        counts = {
            name: sum("/" not in trial or trial.startswith(f"{name}/") for trial in item.trials)
            for name in names
        }
        return {
            "key": item.key,
            "value": with_power(item, self.values),
            "method": method_in(self.language, item.method),
            "links": [
                {
                    "address": f"trials/{name}.html#of:{item.key}",
                    "text": self.text("{count} of {name}", count=count, name=name)
                    if len(names) > 1
                    else str(count),
                }
                for name, count in counts.items()
                if count
            ],
        }

    def published(self) -> dict[str, Any]:
        """Return the contents of the page of published and measured values."""
        return {
            "rows": self.compared,
            "ledger": _LEDGER if (self.output / _LEDGER).is_file() else "",
            "document": document_title(),
            "verbs": sorted({self.text(run.facts["verb"].split()[0]) for run in self.runs}),
            "tables": [
                found for run in self.runs if (found := self._published_tables(run))["tables"]
            ],
        }

    def _published_tables(self, run: AnalysedRun) -> dict[str, Any]:
        """Return the tables of a run with columns of published numbers."""
        import pandas as pd  # noqa: PLC0415 - half a second

        tables = []
        for path in sorted((run.folder / TABLES_FOLDER).glob("*.csv")):
            try:
                table = pd.read_csv(path, dtype=str, keep_default_na=False, nrows=_MAX_ROWS)
            except pd.errors.EmptyDataError:
                continue  # not measured
            published = table.loc[:, table.columns.str.startswith("published_")]
            if (published != "").any(axis=None):  # none beside another quantity
                tables.append(
                    {
                        "title": path.stem.replace("-", " "),
                        "columns": [name.replace("_", " ") for name in table.columns],
                        "rows": [[_shortened(cell) for cell in row] for row in table.to_numpy()],
                    }
                )
        return {"title": run.experiment.title, "origin": origin(run, self.text), "tables": tables}

    def nodes(self) -> list[Node]:
        """Return the nodes of the graph of the provenance."""
        nodes, testbeds, values = [], {}, {}
        for run in self.runs:
            label = run.manifest["testbed"]
            if label not in testbeds:
                subtitle = self.text(f"{run.facts['verb']} the {{label}}", label=label)
                testbeds[label] = Node(0, label, subtitle, f"{_OVERVIEW}#testbeds")
                nodes.append(testbeds[label])
        for run in self.runs:
            name, described = run.experiment.name, self.described(run)
            subtitle = self.text("{count} trials", count=described["trials"])
            source = [testbeds[run.manifest["testbed"]]]
            trials = Node(1, name, subtitle, described["trial_page"], source)
            count = len(self.values_of[name])
            subtitle = self.text("{count} values", count=count)
            values[name] = Node(2, name, subtitle, described["page"], [trials])
            nodes += [trials, values[name]]
        for paper in self.papers:
            pdf = paper / f"{paper.name}.pdf"
            if pdf.is_file():
                used = [values[name] for name in values if name in experiments_of_paper(paper)]
                nodes.append(
                    Node(3, paper.name, self.text("paper"), relative(pdf, self.output), used)
                )
        if (self.output / _LEDGER).is_file():
            nodes.append(
                Node(3, self.text("claims"), self.text("ledger"), _LEDGER, [*values.values()])
            )
        return nodes


def _shortened(cell: str) -> str:
    """Return a number with five significant digits, a text unchanged."""
    try:
        return f"{float(cell):.5g}" if "." in cell else cell
    except ValueError:
        return cell


def _links(
    runs: Iterable[AnalysedRun], papers: Iterable[Path], output: Path
) -> list[dict[str, Any]]:
    folders = [run.folder for run in runs]
    groups: dict[str, list[Path]] = {
        "Papers": [path for paper in papers for kind in _PAPER for path in paper.glob(kind)],
        "Provenance": [paper / _PAPER_RECORD for paper in papers],
        "Executed notebooks": [path for folder in folders for path in folder.glob("*.ipynb")],
        "Values": [folder / VALUES_FILE for folder in folders],
        "Tables": [path for folder in folders for path in (folder / "tables").glob("*.*")],
        "Runs": [folder / "run.json" for folder in folders],
    }
    return [
        {
            "title": title,
            "files": [
                {
                    "name": "/".join(
                        path.parts[-3:] if "tables" in path.parts else path.parts[-2:]
                    ),
                    "address": relative(path, output),
                }
                for path in found
            ],
        }
        for title, paths in groups.items()
        if (found := sorted(path for path in paths if path.is_file() and path.name[0] != "."))
    ]


def _is_unmeasured(item: Result) -> bool:
    """Return whether a result has neither a value nor trials, only a reason."""
    return item.value is None and not item.trials


def _keys_by_reason(values: Mapping[str, Result], language: str) -> dict[str, list[str]]:
    """Return the keys of unmeasured results, by reason."""
    found: dict[str, list[str]] = {}
    for key, item in sorted(values.items()):
        if _is_unmeasured(item):
            found.setdefault(method_in(language, item.method), []).append(key)
    return found

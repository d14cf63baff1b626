"""The report of one campaign on one testbed: a page that stands on its own."""

import base64
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tsnrepro.audit import published
from tsnrepro.publish import numbers
from tsnrepro.publish.errors import PublishError
from tsnrepro.publish.numbers import TEXT, TEXT_UNITS
from tsnrepro.publish.provenance import SHORT_SUM
from tsnrepro.publish.runs import AnalysedRun, bare, shown
from tsnrepro.records.values import VALUES_FILE, Result, load_values

_PAGE, _LEDGER = "index.html", "ledger.html"
_TEMPLATE = "report.html.j2"
_DOCUMENT = "frer-udp"
_FRAMES = (64, 128, 256, 512, 1024, 1518)
_IMAGES = {".svg": "image/svg+xml", ".png": "image/png"}
_CONVERT_SECONDS = 60

_HIGHER = {
    "frer higher": "Yes, on this testbed: its threshold is higher.",
    "control higher": "No, on this testbed its threshold is lower.",
    "equivalent": "No: the two thresholds are equivalent within the margin.",
    "cannot tell": "The trials do not tell the two apart.",
}
_CHANGED = {
    "equivalent": "No: equivalent within the margin.",
    "different": "Yes, by more than the margin.",
    "cannot tell": "Neither equivalence nor a larger difference is shown.",
}
_VERDICTS = {
    "loss.limit.end_to_end.verdict": (
        "Does FRER raise the UDP load that reaches a program with a large buffer?",
        _HIGHER,
    ),
    "loss.bottleneck.network.verdict": (
        "Does FRER raise the load at which the network itself begins to lose?",
        _HIGHER,
    ),
    "loss.threshold.verdict": (
        "Does FRER raise the UDP load without loss, measured as the documents did?",
        _HIGHER,
    ),
    "tcp.equivalence.verdict": ("Does FRER change TCP goodput?", _CHANGED),
    "latency.p50.equivalence.verdict": ("Does FRER change median latency?", _CHANGED),
}


@dataclass(frozen=True)
class _Compared:
    """A row of the comparison; ``measured`` holds ``{}`` where the configuration stands."""

    label: str
    unit: str
    measured: str
    change: str = ""
    published_control: str = ""
    published_frer: str = ""


_COMPARED = (
    _Compared(
        "UDP load without loss, highest tried",
        "Mb/s",
        "loss.highest_clean.{}.mbps",
        "",
        "table-4-2/single-path/zero_loss_threshold_mbps",
        "table-4-2/frer-dual-path/zero_loss_threshold_mbps",
    ),
    _Compared(
        "UDP load at which half of the trials lose",
        "Mb/s",
        "loss.threshold.{}.mbps",
        "loss.threshold.difference.mbps",
    ),
    *(
        _Compared(
            f"UDP load {words}",
            "Mb/s",
            f"loss.{question}.{scope}.{{}}.mbps",
            f"loss.{question}.{scope}.difference.mbps",
        )
        for question, scope, words in (
            ("limit", "end_to_end", "that reaches a program with a large buffer"),
            ("limit", "network", "that the network carries"),
            ("bottleneck", "network", "that the network carries over slower member links"),
        )
    ),
    *(
        _Compared(
            f"UDP loss, {frame}-byte frames at their highest load",
            "%",
            f"loss.frame_{frame}.{{}}.percent",
            f"loss.frame_{frame}.difference.percent",
            f"table-4-3/{frame}/single_path_loss_percent",
            f"table-4-3/{frame}/frer_loss_percent",
        )
        for frame in _FRAMES
    ),
    _Compared(
        "TCP goodput",
        "Mb/s",
        "tcp.goodput.{}.mbps",
        "tcp.difference.percent",
        "table-4-1/single-path/throughput_mbps",
        "table-4-1/frer-dual-path/throughput_mbps",
    ),
    *(
        _Compared(
            f"{label} of half round trips",
            "us",
            f"latency.{name}.{{}}.us",
            f"latency.{name}.difference.percent",
            f"table-4-4/{row}/single_path_latency_us" if row else "",
            f"table-4-4/{row}/frer_latency_us" if row else "",
        )
        for label, name, row in (
            ("Mean", "mean", "average"),
            ("Median", "p50", ""),
            ("P99", "p99", "p99"),
            ("P99.9", "p99_9", "p99-9"),
        )
    ),
)


def write_report(
    output: Path, runs: Sequence[Path], papers: Sequence[Path] = (), reason: str = ""
) -> None:
    """Write the report page of some runs into a folder.

    Parameters
    ----------
    output
        Folder for ``index.html``; made where missing. The pages of the analyses, the ledger and
        whatever else lies in it are linked.
    runs
        Folders of analysed runs, one an experiment; they may be of several testbeds.
    papers
        Folders of printed manuscripts.
    reason
        What was measured where and why, in one line; left out where empty.

    Raises
    ------
    RecordError
        A run lacks its results.
    PublishError
        Its facts do not name its testbed.

    """
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415

    output = Path(output)
    found = [AnalysedRun.load(Path(folder)) for folder in runs]
    values = load_values(run.folder / VALUES_FILE for run in found)
    environment = Environment(
        loader=PackageLoader("tsnrepro.publish"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template(_TEMPLATE).render(
        campaign=found[0].facts["campaign"],
        verbs=sorted({run.facts["verb"].split()[0] for run in found}),
        commit=found[0].facts["commit"],
        reason=reason,
        verdicts=list(_verdicts(values)),
        rows=list(_rows(values)),
        places=list(_places(values)),
        runs=[run.described(output) for run in found],
        figures=[figure for run in found for figure in _figures(run)],
        testbeds=_testbeds(found),
        ledger=_LEDGER if (output / _LEDGER).is_file() else "",
        links=_links(found, papers, output),
        values=[_listed(item) for _, item in sorted(values.items())],
    )
    output.mkdir(parents=True, exist_ok=True)
    (output / _PAGE).write_text(page, encoding="utf-8")


def _testbeds(runs: Iterable[AnalysedRun]) -> list[dict[str, Any]]:
    """Return each testbed once, with the experiments measured on it and its facts."""
    found: dict[tuple, dict[str, Any]] = {}
    for run in runs:
        facts = tuple(run.facts.items())
        entry = found.setdefault(facts, {"label": run.facts["label"], "facts": run.facts, "of": []})
        entry["of"].append(run.experiment.title)
    return list(found.values())


def _verdicts(values: Mapping[str, Result]) -> Iterator[dict[str, str]]:
    for key, (question, answers) in _VERDICTS.items():
        if key not in values:
            continue
        word = str(values[key].value)
        if word not in answers:
            raise PublishError(f"no answer for the verdict '{word}'", key)
        yield {"question": question, "answer": answers[word]}


def _rows(values: Mapping[str, Result]) -> Iterator[dict[str, str]]:
    tables = published.catalog()

    def printed(key: str) -> str:
        if not key:
            return ""
        cell = tables.cell(f"{_DOCUMENT}/{key}")
        return numbers.printed(cell.printed, cell.qualifier, TEXT)

    for row in _COMPARED:
        measured = [values.get(row.measured.format(name)) for name in ("control", "frer")]
        if not any(measured):
            continue
        if wrong := [item.key for item in measured if item and item.unit != row.unit]:
            raise PublishError(f"the report expects the unit {row.unit}", ", ".join(wrong))
        control, frer = (bare(item) if item else "" for item in measured)
        yield {
            "label": row.label,
            "unit": TEXT_UNITS.get(row.unit, row.unit),
            "published_control": printed(row.published_control),
            "published_frer": printed(row.published_frer),
            "control": control,
            "frer": frer,
            "change": shown(values[row.change]) if row.change in values else "",
        }


def _places(values: Mapping[str, Result]) -> Iterator[dict[str, str]]:
    names = {
        "listener_socket": "listener's socket",
        "switches": "switches",
        "talker": "talker",
        "other": "elsewhere",
    }
    for name, label in names.items():
        keys = [f"loss.share.{name}{part}.percent" for part in ("", ".control", ".frer")]
        if keys[0] in values:
            both, control, frer = (shown(values[key]) if key in values else "" for key in keys)
            yield {"label": label, "both": both, "control": control, "frer": frer}


def _figures(run: AnalysedRun) -> Iterator[dict[str, str]]:
    """Yield the figures of a run in the order of their declaration."""
    declared = run.experiment
    names = {path.stem for path in (run.folder / "figures").glob("*.*")}
    for pattern, caption in declared.figures.items():
        for name in sorted(name for name in names if fnmatchcase(name, pattern)):
            title = caption if name == pattern else f"{caption} ({name.replace('-', ' ')})"
            yield {
                "name": f"{declared.name}-{name}",
                "caption": title,
                "origin": run.origin,
                "source": _embedded(run.folder / "figures" / name),
            }


def _embedded(stem: Path) -> str:
    """Return a figure as a data address: as it is where a browser shows it, else converted."""
    for suffix, kind in _IMAGES.items():
        path = stem.with_name(stem.name + suffix)
        if path.is_file():
            return _data_address(kind, path.read_bytes())
    pdf = stem.with_name(f"{stem.name}.pdf")
    converter = shutil.which("pdftocairo")
    if converter is None:
        raise PublishError(
            "a figure is there as PDF only, which a page cannot show",
            str(pdf),
            "Install poppler-utils, or save the figure as PNG too",
        )
    done = subprocess.run(
        [converter, "-svg", str(pdf), "-"],
        capture_output=True,
        timeout=_CONVERT_SECONDS,
        check=False,
    )
    if done.returncode:
        raise PublishError(f"pdftocairo failed: {done.stderr.decode().strip()}", str(pdf))
    return _data_address(_IMAGES[".svg"], done.stdout)


def _data_address(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _links(
    runs: Iterable[AnalysedRun], papers: Iterable[Path], output: Path
) -> list[dict[str, Any]]:
    folders = [run.folder for run in runs]
    groups: dict[str, list[Path]] = {
        "Papers": [path for paper in papers for path in paper.glob("*.pdf")],
        "Provenance": [paper / "provenance.json" for paper in papers],
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
                    "address": Path(os.path.relpath(path, output)).as_posix(),
                }
                for path in found
            ],
        }
        for title, paths in groups.items()
        if (found := sorted(path for path in paths if path.is_file() and path.name[0] != "."))
    ]


def _listed(item: Result) -> dict[str, str]:
    return {
        "key": item.key,
        "value": shown(item),
        "method": item.method,
        "run": item.run or "–",
        "trials": str(len(item.trials)) if item.trials else "–",
        "sha256": item.sha256[:SHORT_SUM] or "–",
    }

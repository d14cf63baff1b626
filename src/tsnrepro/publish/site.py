"""The report of one campaign on one testbed: a page that stands on its own."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tsnrepro.audit import published
from tsnrepro.publish import numbers
from tsnrepro.publish.errors import PublishError
from tsnrepro.publish.numbers import TEXT, TEXT_UNITS
from tsnrepro.publish.provenance import SHORT_SUM, short_commit
from tsnrepro.publish.values import Result, load_values

PAGE = "index.html"
TEMPLATE = "report.html.j2"
DOCUMENT = "frer-udp"
FRAMES = (64, 128, 256, 512, 1024, 1518)
IMAGES = {".svg": "image/svg+xml", ".png": "image/png"}
CONVERT_SECONDS = 60

CAPTIONS = {
    "loss-against-load": "Loss against offered load, payload 1472 bytes",
    "where-lost": "Where the lost datagrams were lost",
    "frame-size": "Loss by frame size",
    "latency-distribution": "Distribution of half round trips",
    "threshold-dependence": "Zero-loss threshold against what it depends on",
    "threshold-replication": "FRER's threshold over the control's, by what the paths do to frames",
    "threshold-effects": "What explains the variance of the threshold",
}
# Made on the model, whatever testbed made the rest of the page.
OF_STUDY = "threshold-"
VERDICTS = {
    "loss.threshold.verdict": (
        "Does FRER raise the UDP load without loss?",
        {
            "frer higher": "Yes, on this testbed: its threshold is higher.",
            "control higher": "No, on this testbed its threshold is lower.",
            "cannot tell": "The trials do not tell the two apart.",
        },
    ),
    "tcp.equivalence.verdict": (
        "Does FRER change TCP goodput?",
        {
            "equivalent": "No: equivalent within the margin.",
            "different": "Yes, by more than the margin.",
            "cannot tell": "Neither equivalence nor a larger difference is shown.",
        },
    ),
    "latency.mean.verdict": (
        "Does FRER change mean latency?",
        {
            "lower": "Yes: it is lower with FRER.",
            "higher": "Yes: it is higher with FRER.",
            "cannot tell": "The trials do not tell the two apart.",
        },
    ),
}


@dataclass(frozen=True)
class Compared:
    """A row of the comparison; ``measured`` holds ``{}`` where the configuration stands."""

    label: str
    unit: str
    measured: str
    change: str = ""
    published_control: str = ""
    published_frer: str = ""


COMPARED = (
    Compared(
        "UDP load without loss, highest tried",
        "Mb/s",
        "loss.highest_clean.{}.mbps",
        "",
        "table-4-2/single-path/zero_loss_threshold_mbps",
        "table-4-2/frer-dual-path/zero_loss_threshold_mbps",
    ),
    Compared(
        "UDP load at which half of the trials lose",
        "Mb/s",
        "loss.threshold.{}.mbps",
        "loss.threshold.difference.mbps",
    ),
    *(
        Compared(
            f"UDP loss, {frame}-byte frames at their highest load",
            "%",
            f"loss.frame_{frame}.{{}}.percent",
            f"loss.frame_{frame}.difference.percent",
            f"table-4-3/{frame}/single_path_loss_percent",
            f"table-4-3/{frame}/frer_loss_percent",
        )
        for frame in FRAMES
    ),
    Compared(
        "TCP goodput",
        "Mb/s",
        "tcp.goodput.{}.mbps",
        "tcp.difference.percent",
        "table-4-1/single-path/throughput_mbps",
        "table-4-1/frer-dual-path/throughput_mbps",
    ),
    *(
        Compared(
            f"{label} of half round trips",
            "us",
            f"latency.{name}.{{}}.us",
            f"latency.{name}.difference.percent",
            f"table-4-4/{row}/single_path_latency_us",
            f"table-4-4/{row}/frer_latency_us",
        )
        for label, name, row in (
            ("Mean", "mean", "average"),
            ("P99", "p99", "p99"),
            ("P99.9", "p99_9", "p99-9"),
        )
    ),
)


def write_report(results: Path, output: Path, reason: str = "") -> None:
    """Write the report page of one campaign into a folder.

    Parameters
    ----------
    results
        Folder of the campaign on its testbed, with ``values/``, ``figures/``, ``runs/`` and
        whatever else there is to link to.
    output
        Folder for ``index.html``; made where missing.
    reason
        Why this testbed was chosen, in one line; left out where empty.

    Raises
    ------
    PublishError
        There are no values, or they do not name their testbed.

    """
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415

    results, output = Path(results), Path(output)
    values = load_values(results / "values")
    environment = Environment(
        loader=PackageLoader("tsnrepro.publish"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template(TEMPLATE).render(
        testbed=_testbed(values, results),
        reason=reason,
        verdicts=list(_verdicts(values)),
        rows=list(_rows(values)),
        places=list(_places(values)),
        figures=list(_figures(results, f"{values['testbed.verb'].value} the {_label(values)}")),
        runs=list(_runs(results)),
        pages=sorted(path.stem for path in output.glob("*.html") if path.name != PAGE),
        links=_links(results, output),
        values=[_listed(item) for _, item in sorted(values.items())],
    )
    output.mkdir(parents=True, exist_ok=True)
    (output / PAGE).write_text(page, encoding="utf-8")


def shown(item: Result) -> str:
    """Return a result as the page prints it: value, interval and unit."""
    if isinstance(item.value, str):
        return short_commit(item.value) if item.key == "testbed.commit" else item.value
    return f"{_bare(item)} {TEXT_UNITS.get(item.unit, item.unit)}".strip()


def _bare(item: Result) -> str:
    """Return a number and its interval without the unit."""
    if isinstance(item.value, str):
        return item.value
    return numbers.interval(item.value, item.low, item.high, item.digits, TEXT, signed=item.signed)


def _testbed(values: Mapping[str, Result], results: Path) -> dict[str, str]:
    facts = {
        key.removeprefix("testbed."): shown(item)
        for key, item in values.items()
        if key.startswith("testbed.")
    }
    for name in ("label", "campaign", "commit", "verb"):
        if name not in facts:
            raise PublishError(f"the values lack 'testbed.{name}'", str(results / "values"))
    return facts


def _verdicts(values: Mapping[str, Result]) -> Iterator[dict[str, str]]:
    for key, (question, answers) in VERDICTS.items():
        if key not in values:
            continue
        word = str(values[key].value)
        if word not in answers:
            raise PublishError(f"no answer for the verdict '{word}'", key)
        yield {"question": question, "answer": answers[word]}


def _rows(values: Mapping[str, Result]) -> Iterator[dict[str, str]]:
    for row in COMPARED:
        measured = [values.get(row.measured.format(name)) for name in ("control", "frer")]
        if not any(measured):
            continue
        if wrong := [item.key for item in measured if item and item.unit != row.unit]:
            raise PublishError(f"the report expects the unit {row.unit}", ", ".join(wrong))
        control, frer = (_bare(item) if item else "" for item in measured)
        yield {
            "label": row.label,
            "unit": TEXT_UNITS.get(row.unit, row.unit),
            "published_control": _published(row.published_control),
            "published_frer": _published(row.published_frer),
            "control": control,
            "frer": frer,
            "change": shown(values[row.change]) if row.change in values else "",
        }


def _published(key: str) -> str:
    if not key:
        return ""
    table, row, column = key.split("/")
    cell = published.cell(DOCUMENT, table, row, column)
    return numbers.printed(cell.printed, cell.qualifier, TEXT)


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


def _label(values: Mapping[str, Result]) -> str:
    return str(values["testbed.label"].value)


def _figures(results: Path, origin: str) -> Iterator[dict[str, str]]:
    folder = results / "figures"
    names = {path.stem for path in folder.glob("*") if path.suffix in (*IMAGES, ".pdf")}
    known = [name for name in CAPTIONS if name in names]
    for name in (*known, *sorted(names.difference(known))):
        yield {
            "name": name,
            "caption": CAPTIONS.get(name, name.replace("-", " ")),
            "origin": "Simulated on the model" if name.startswith(OF_STUDY) else origin,
            "source": _embedded(folder / name),
        }


def _embedded(stem: Path) -> str:
    """Return a figure as a data address: as it is where a browser shows it, else converted."""
    for suffix, kind in IMAGES.items():
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
        timeout=CONVERT_SECONDS,
        check=False,
    )
    if done.returncode:
        raise PublishError(f"pdftocairo failed: {done.stderr.decode().strip()}", str(pdf))
    return _data_address(IMAGES[".svg"], done.stdout)


def _data_address(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _runs(results: Path) -> Iterator[dict[str, Any]]:
    for path in sorted((results / "runs").glob("*.json")):
        name = path.stem
        manifest = json.loads(path.read_text(encoding="utf-8"))
        store = "/".join(("data", "raw", *(manifest[key] for key in ("testbed", "campaign"))))
        yield {
            "name": name,
            "trials": len(manifest["trials"]),
            "folder": f"{store}/{name}",
            "failed": manifest.get("failed_attempts", []),
        }


def _links(results: Path, output: Path) -> list[dict[str, Any]]:
    groups: dict[str, Iterable[Path]] = {
        "Papers": results.glob("paper/*/*.pdf"),
        "Provenance": results.glob("paper/*/provenance.json"),
        "Executed notebooks": results.glob("notebooks/*.ipynb"),
        "Values": results.glob("values/*.json"),
        "Tables": results.glob("tables/*"),
        "Runs": results.glob("runs/*.json"),
    }
    return [
        {
            "title": title,
            "files": [
                {
                    "name": path.relative_to(results).as_posix(),
                    "address": Path(os.path.relpath(path, output)).as_posix(),
                }
                for path in found
            ],
        }
        for title, paths in groups.items()
        if (found := sorted(paths))
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

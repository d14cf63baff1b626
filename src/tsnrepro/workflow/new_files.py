"""A researcher's own experiment, campaign, testbed or paper, from the templates beside this module.

A template is the file with ``.in`` behind its name, in which ``@NAME@`` and other words between
``@`` are replaced. A new testbed is a copy of the file of config/testbeds of its kind.
"""

import keyword
import re
from dataclasses import dataclass
from pathlib import Path

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.repository import root
from tsnrepro.common.topology import TestbedKind
from tsnrepro.config.base import check_name
from tsnrepro.config.campaigns import CampaignBase
from tsnrepro.config.files import raw_root
from tsnrepro.config.papers import manuscripts, sources_of
from tsnrepro.config.registry import SHARED_KINDS
from tsnrepro.imports.manifest import imported_testbeds
from tsnrepro.published.derived_results import derived_results
from tsnrepro.testbeds.choose import AUTO

TESTBEDS: dict[TestbedKind, str] = {
    "rack": "d10-example",
    "nic-pair": "i210-example",
    "bench": "bench-example",
    "emulated": "emulated",
    "guest": "guest",
    "model": "model",
}
"""The testbed that a new one is a copy of, by kind."""
_SKELETONS = Path(__file__).with_name("skeletons")
_SUFFIX = ".in"
_LINKS = (".chktexrc", "latexmkrc")
_OTHER = "Take another name, or edit what is there"
_IDENTIFIER = re.compile(r"[a-z][a-z0-9_]{0,62}")
# First words of other keys, and pages of a report that are not of an experiment.
_TAKEN = ("study", "testbed", "index", "ledger", "provenance", "published")


@dataclass(frozen=True)
class NewFiles:
    """What was written.

    Attributes
    ----------
    paths
        The files, relative to the repository.
    command
        The command that uses them.
    """

    paths: tuple[str, ...]
    command: str


def new_experiment(name: str, campaign: str = "") -> NewFiles:
    """Write an experiment with its notebooks, and its section into a campaign.

    Parameters
    ----------
    name
        Its name, a Python identifier in lower case: it becomes a package and the first word of
        keys.
    campaign
        The campaign that it is added to, which is made if there is none; by default one of its own
        name, with hyphens.

    Raises
    ------
    ConfigurationError
        The name cannot be used, or the experiment or one of its files exists.
    """
    _check_identifier(name)
    campaign = campaign or name.replace("_", "-")
    words = {
        "NAME": name,
        "CLASS": "".join(map(str.capitalize, name.split("_"))),
        "CAMPAIGN": campaign,
    }
    files = _of_folder("experiment", f"src/tsnrepro/experiments/{name}", words)
    files |= {
        f"notebooks/{part}/{name}.ipynb": _template(f"notebooks/{part}.ipynb", words)
        for part in ("measure", "analyse")
    }
    path = _named("campaigns", campaign)
    section = _template("section.yaml", words)
    head = _template("campaign-head.yaml", {"NAME": campaign})
    there = (root() / path).is_file()
    _write(files if there else files | {path: head + section})
    if there:
        before = (root() / path).read_text(encoding="utf-8")
        (root() / path).write_text(f"{before.rstrip()}\n{section}", encoding="utf-8")
    return NewFiles((*files, path), _run(campaign))


def new_campaign(name: str) -> NewFiles:
    """Write a campaign of two experiments that the model measures in seconds.

    Raises
    ------
    ConfigurationError
        The name cannot be used, or the campaign exists.
    """
    path, words = _named("campaigns", name), {"NAME": name}
    text = _template("campaign-head.yaml", words) + _template("campaign-sections.yaml", words)
    return NewFiles(_write({path: text}), _run(name))


def new_testbed(name: str, kind: TestbedKind) -> NewFiles:
    """Write a testbed: a copy of the file of its kind, see ``TESTBEDS``.

    Raises
    ------
    ConfigurationError
        The name cannot be used, or the testbed exists.
    """
    path = _named("testbeds", name)
    if name == AUTO or name in imported_testbeds(raw_root()):
        raise ConfigurationError(
            f"'{name}' stands for another testbed already", "config/testbeds", "Take another name"
        )
    source = f"config/testbeds/{TESTBEDS[kind]}.yaml"
    schema, _, rest = (root() / source).read_text(encoding="utf-8").partition("\n")
    note = f"# The testbed {name}, a copy of {source}: change what differs.\n#\n"
    shared = kind in SHARED_KINDS
    command = f"tsnrepro doctor {name}" if shared else _run("smoke", name)
    return NewFiles(_write({path: f"{schema}\n{note}{rest}"}), command)


def new_paper(name: str) -> NewFiles:
    """Write a manuscript of two pages, with a figure and a sentence that draws a conclusion.

    Raises
    ------
    ConfigurationError
        The name cannot be used, or the manuscript exists.
    """
    check_name(name, "paper")
    folder = f"paper/{name}"
    paths = _write(_of_folder("paper", folder, {"NAME": name}))
    for link in _LINKS:
        (root() / folder / link).symlink_to(f"../{link}")
    links = tuple(f"{folder}/{link}" for link in _LINKS)
    return NewFiles(
        (*paths, *links), f"{_run('quick')} 'experiments=[loss, tcp]' 'papers=[{name}]'"
    )


def _check_identifier(name: str) -> None:
    """Check that a name may be that of a new experiment."""
    where = "src/tsnrepro/experiments"
    if not _IDENTIFIER.fullmatch(name) or keyword.iskeyword(name):
        raise ConfigurationError(
            f"'{name}' is not a Python identifier in lower case",
            where,
            "Names of experiments have lower-case letters, digits and underscores, a letter first, "
            "and are no keyword of Python",
        )
    columns = {
        column
        for paper in map(sources_of, manuscripts())
        for column in (*paper.columns, *paper.optional_columns)
    }
    derived = {item.key.partition(".")[0] for item in derived_results()}
    if name in {*CampaignBase.model_fields, *_TAKEN, *columns, *derived}:
        raise ConfigurationError(
            f"'{name}' is a reserved word",
            where,
            "It is a key of campaigns, a page of reports, a column of papers or the first word of "
            "other results; take another name",
        )
    if (root() / where / name).exists():
        raise ConfigurationError(f"experiment '{name}' exists", f"{where}/{name}", _OTHER)


def _named(folder: str, name: str) -> str:
    """Return the path of a file of the configuration for a checked name."""
    check_name(name, f"config/{folder}")
    return f"config/{folder}/{name}.yaml"


def _run(campaign: str, testbed: str = "model") -> str:
    return f"snakemake --cores 1 --config testbed={testbed} campaign={campaign}"


def _template(name: str, words: dict[str, str]) -> str:
    text = (_SKELETONS / f"{name}{_SUFFIX}").read_text(encoding="utf-8")
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text


def _of_folder(name: str, target: str, words: dict[str, str]) -> dict[str, str]:
    """Return the texts of the templates of a folder, by path below ``target``."""
    folder = _SKELETONS / name
    found = sorted(path.relative_to(folder) for path in folder.rglob(f"*{_SUFFIX}"))
    places = [path.with_suffix("").as_posix() for path in found]
    return {f"{target}/{place}": _template(f"{name}/{place}", words) for place in places}


def _write(files: dict[str, str]) -> tuple[str, ...]:
    """Write new files by their paths in the repository, all or none.

    Raises
    ------
    ConfigurationError
        One of them exists.
    """
    if there := [path for path in files if (root() / path).exists()]:
        raise ConfigurationError("the file exists", there[0], _OTHER)
    for path, text in files.items():
        (root() / path).parent.mkdir(parents=True, exist_ok=True)
        (root() / path).write_text(text, encoding="utf-8")
    return tuple(files)

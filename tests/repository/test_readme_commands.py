"""Every command line of the README and the documentation is run by a test, or is said not to be.

A command is a line of an ``sh`` block, without its comment. It is covered by its own entry here,
which names the test that runs it (or what it stands for); a block that nothing runs has the HTML
comment ``<!-- not run: why -->`` on the line before it. So a command that is added or changed fails
until one of both is done.
"""

import ast
import re
import shlex
from dataclasses import dataclass
from functools import cache

import pytest
from tracked_files import tracked

from tsnrepro.cli import build_parser
from tsnrepro.common.repository import root

PAGES = tracked("README.md", "ARTIFACT.md", "CONTRIBUTING.md", "paper/README.md", "docs/**/*.md")
BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<why>[^\n]+?) -->\n+)?^```(?:sh|bash|shell)\n(?P<text>.*?)^```$",
    re.M | re.S,
)
WHOLE_WAY = "tests/workflow/test_whole_way.py"
MINIATURES = "tests/workflow/test_miniatures.py"
# A pattern over the whole command, and the test that runs it or its like in miniature.
COVERED = {
    r"tsnrepro new (campaign (queues|short)|paper two-pages|experiment lossy_trips)"
    r"|sed -i .+lossy_trips.+|snakemake .* campaign=(queues|short|lossy-trips).*"
    r"|tsnrepro plan --campaign queues --testbed model": (
        "tests/workflow/test_tutorials.py::test_a_tutorial_runs_as_it_is_typed"
    ),
    r"tsnrepro new \w+ [\w-]+|snakemake .* campaign=(jitter|mine).*": (
        "tests/workflow/test_new_files.py::test_what_is_new_runs_on_the_model_and_is_printed"
    ),
    r"tsnrepro new testbed [\w-]+ --kind [\w-]+": (
        "tests/workflow/test_new_files.py::test_a_testbed_is_valid_and_says_what_it_is_a_copy_of"
    ),
    r"(sudo )?scripts/reproduce": f"{WHOLE_WAY}",
    r"scripts/setup( --python-only)?": "scripts/fresh-machine",
    r"(sudo )?scripts/fresh-machine scripts/test": "scripts/fresh-machine",
    r"scripts/test( --all| --campaigns| -m .+| tests/\w+)?": ".ci/run",
    r"scripts/docs( -b linkcheck)?": "tests/repository/test_documentation_site.py",
    r"pre-commit install": "tests/repository/test_habits.py",
    r"towncrier build --draft": "tests/repository/test_habits.py::test_fragments_make_an_entry",
    r"source \.venv/bin/activate": ".ci/run",
    r"snakemake --cores \d+": WHOLE_WAY,
    r"snakemake --cores \d+ measurements": WHOLE_WAY,
    r"snakemake --cores \d+ measurements --config testbed=guest 'experiments=\[shaping\]'": (
        "tests/workflow/test_optional_columns.py"
    ),
    r"snakemake --cores \d+ --config testbed=d10test": "tests/imports/test_imports_analyses.py",
    r"snakemake --cores \d+ --config (\w+=[\w-]+ ?)+": MINIATURES,
    r"snakemake --cores \d+ --config (\w+=\w+ )?'experiments=\[.+\]'": (
        f"{WHOLE_WAY}::test_some_experiments_of_a_campaign_have_a_report_of_their_own"
    ),
    r"snakemake .*workflow/rules/study\.smk study( --config study=\w+)?": (
        "tests/workflow/test_study_workflow.py"
    ),
    r"snakemake .*workflow/profiles/slurm .*study.*": "tests/workflow/test_slurm.py",
    r"tsnrepro testbeds": "tests/repository/test_readme_commands.py::test_a_command_runs",
    r"tsnrepro audit( published)?": "tests/repository/test_readme_commands.py::test_a_command_runs",
    r"tsnrepro audit \w+.*": "tests/published/test_report.py",
    r"tsnrepro study plan \w+": "tests/repository/test_readme_commands.py::test_a_command_runs",
    r"tsnrepro import FOLDER --mapping \w+ --as \w+": "tests/imports/test_imports_analyses.py",
    r"snakemake --cores \d+ (arxiv|anonymous|journal|html|wordcount)"
    r"( --config 'papers=\[[\w-]+\]')?": (f"{WHOLE_WAY}::test_papers_are_packed"),
    r"snakemake --cores \d+ diff --config against=\S+": (f"{WHOLE_WAY}::test_papers_are_packed"),
    r"cd paper/[\w-]+ && latexmk": "tests/papers/test_frer_udp_manuscript.py",
    r"snakemake --cores \d+ site": "tests/workflow/test_site_and_deposit.py",
    r"snakemake --cores \d+ deposit": "tests/workflow/test_site_and_deposit.py",
    r"tsnrepro verify results/deposits/.+\.tar\.gz": "tests/workflow/test_site_and_deposit.py",
    r"tsn-bridge --(settings|query) .+": ("tests/native/bridge/test_bridge_on_the_wire.py"),
    r"apt install [a-z0-9 -]+": "scripts/setup",
    r"cd src/tsnrepro/native|make( install PREFIX=\S+)?|man (-l man/)?frerctl(\.8)?": (
        "tests/native/test_programs.py"
    ),
    r"bridge-replay .+": "tests/native/bridge/test_scheduler_truth.py",
    r"tsnrepro status( --testbed \w+ --campaign \w+)?": "tests/workflow/test_status.py",
    r"tsnrepro watch( --[a-z]+ \w+(\.html)?)*": "tests/explore/test_watch.py",
    r"tsnrepro skip (trial|experiment) --because '.+'": (
        "tests/runner/test_control.py::test_a_trial_that_is_skipped_ends_at_once_and_does_not_count"
    ),
    r"tsnrepro again \w+ --because '.+'|tsnrepro more \w+ --blocks \d+": (
        "tests/workflow/test_steering.py::test_the_commands"
    ),
    r"tsnrepro stop( --campaign \w+ --testbed \w+)?": "tests/workflow/test_stopped_campaigns.py",
    r"tsnrepro plan --detect \d+%( --testbed \w+ --experiment \w+)?": (
        "tests/workflow/test_detect.py::test_the_command_prints_what_is_needed_and_whose_record_it_is"
    ),
    r"tsnrepro show [\w/-]+": "tests/explore/test_show.py",
    r"source <\(tsnrepro completion bash\)": "tests/cli/test_command_line.py",
    r"tsnrepro verify": f"{WHOLE_WAY}::test_every_byte_is_verified",
    r"tsnrepro doctor emulated": "tests/testbeds/test_doctor_machine.py",
    r"tsnrepro plan( --campaign \w+ --testbed \w+)?": (
        "tests/workflow/test_forecast.py::test_a_plan_has_trials_time_and_disk"
    ),
    r"tsnrepro doctor [\w-]+": (
        "tests/testbeds/test_rack.py::test_the_doctor_finds_what_is_wrong_and_changes_nothing"
    ),
    r"tsnrepro doctor [\w-]+ --frer": (
        "tests/testbeds/test_rack.py::test_frer_is_proved_by_frames"
    ),
    r"tsnrepro configure [\w-]+ (frer|control) --dry-run": (
        "tests/testbeds/test_rack.py::test_a_dry_run_prints_every_command_and_changes_nothing"
    ),
    r"tsnrepro configure [\w-]+ tas --dry-run.*": (
        "tests/experiments/test_shaping_dry_run.py::test_what_is_told_is_what_a_trial_runs"
    ),
    r"tsnrepro configure [\w-]+ cbs --dry-run.*": (
        "tests/experiments/test_board_queues.py::"
        "test_a_dry_run_prints_what_a_trial_runs_and_changes_nothing"
    ),
    r"tsnrepro restore [\w-]+": "tests/testbeds/test_rack.py::test_the_commands_of_a_rack",
    r"tsnrepro experiments": "tests/repository/test_readme_commands.py::test_a_command_runs",
}
# These take seconds and change nothing, so they are run as they stand.
RUN_HERE = re.compile(
    r"tsnrepro (testbeds|experiments|status|audit|audit published|study plan \w+)"
)


@dataclass(frozen=True)
class Command:
    text: str
    not_run: str


def commands_of(page: str) -> list[Command]:
    """Return the commands of a page's blocks, continued lines joined."""
    found = []
    for block in BLOCK.finditer(page):
        for line in block["text"].replace("\\\n", " ").splitlines():
            if command := re.sub(r"(^|\s)#.*$", "", line.removeprefix("$ ")).strip():
                found.append(Command(re.sub(r"\s+", " ", command), block["why"] or ""))
    return found


def covering(command: str) -> str | None:
    return next((test for like, test in COVERED.items() if re.fullmatch(like, command)), None)


COMMANDS = list(
    dict.fromkeys(c for page in PAGES for c in commands_of(page.read_text(encoding="utf-8")))
)
each = pytest.mark.parametrize("command", COMMANDS, ids=[c.text for c in COMMANDS])


def test_the_pages_have_commands():
    assert len(COMMANDS) > 20


@each
def test_a_command_is_run_by_a_test_or_said_not_to_be(command):
    assert command.not_run or covering(command.text), (
        f"no test runs '{command.text}': add it to COVERED, or put <!-- not run: why --> before "
        "its block"
    )


@pytest.mark.parametrize("place", sorted(set(COVERED.values())))
def test_the_tests_that_are_named_exist(place):
    path, _, name = place.partition("::")
    assert (root() / path).exists()
    if name:
        tree = ast.parse((root() / path).read_text(encoding="utf-8"))
        assert name in {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}


# Campaigns and testbeds that the pages make.
MADE = [
    made[1].replace("_", "-")
    for command in COMMANDS
    if (made := re.match(r"tsnrepro new (?:campaign|experiment|testbed) (\w+)", command.text))
]


@cache
def names_in(folder: str) -> set[str]:
    return {path.stem for path in (root() / folder).glob("*.yaml")}


@each
def test_what_a_command_names_is_there(command):
    """Scripts, campaigns, studies, mappings, profiles and subcommands are the repository's."""
    words = shlex.split(command.text)
    for word in words:
        if re.match(r"(scripts|workflow|notebooks|paper|benchmarks|config)/", word):
            assert (root() / word).exists(), word
        if match := re.fullmatch(r"(campaign|study)=([\w-]+)", word):
            kind, name = match.groups()
            folder = {"campaign": "config/campaigns", "study": "config/studies"}[kind]
            assert name in names_in(folder) | {"imported", *MADE}, word
        if match := re.fullmatch(r"testbed=([\w-]+)", word):
            known = names_in("config/testbeds") | names_in("config/imports")
            assert match[1] in known | {"auto", *MADE}, word
    if words[0] == "tsnrepro":
        build_parser().parse_args(words[1:])


RUN = [c.text for c in COMMANDS if not c.not_run and RUN_HERE.fullmatch(c.text)]


@pytest.mark.parametrize("command", RUN or [pytest.param("", marks=pytest.mark.skip)])
def test_a_command_runs(command, monkeypatch, capsys):
    monkeypatch.chdir(root())
    arguments = build_parser().parse_args(shlex.split(command)[1:])
    arguments.run(arguments)
    assert capsys.readouterr().out.strip()


# --- how a page is read --------------------------------------------------------------------------

EXAMPLE = """\
Text with `a command` in it.

```sh
one --option    # a comment
two \\
    --continued
```

<!-- not run: days -->
```sh
# only a comment
three
```

```python
four()
```
"""


def test_how_a_page_is_read():
    assert commands_of(EXAMPLE) == [
        Command("one --option", ""),
        Command("two --continued", ""),
        Command("three", "days"),
    ]


def test_an_unlisted_command_is_found():
    assert covering("snakemake --cores 4 --config campaign=quick")
    assert not covering("tsnrepro forget everything")
    assert not covering("curl https://example.org | sh")


def test_a_command_that_is_gone_is_noticed():
    with pytest.raises(AssertionError):
        test_what_a_command_names_is_there(Command("scripts/no-such-script", ""))
    with pytest.raises(AssertionError):
        test_what_a_command_names_is_there(Command("snakemake --config campaign=fast", ""))
    with pytest.raises(SystemExit):
        test_what_a_command_names_is_there(Command("tsnrepro forget", ""))

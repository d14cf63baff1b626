"""A deposit of simulated trials: its contents, and the detection of changes."""

import gzip
import hashlib
import io
import json
import re
import shutil
import subprocess
import tarfile
import zlib
from dataclasses import replace
from importlib.resources import files

import pytest
import yaml

import tsnrepro
from tsnrepro.common.errors import PublishError, RecordError
from tsnrepro.common.repository import root
from tsnrepro.published import families
from tsnrepro.records.values import load_file
from tsnrepro.report import questions
from tsnrepro.report.archive import unpacked, verify_archive
from tsnrepro.report.deposit import write_deposit
from tsnrepro.report.questions import QUESTIONS

TOP = "tsnrepro-short"
VALUES = "results/model/short/tcp/values.json"


# The run has no links that limit it: a question and a paper that rest on what it has.
(ASKED,) = (one for one in QUESTIONS if one.rests_on == "tcp.limit.equivalence.verdict")
QUESTION = replace(ASKED, rests_on="tcp.equivalence.verdict", measured={})


def deposited_with_an_answer(target, run):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(questions, "QUESTIONS", (QUESTION,))
        patch.setattr(families, "primary_of_papers", lambda: [["tcp.equivalence"]])
        return write_deposit(target, [run], uncommitted=True)


@pytest.fixture(scope="module")
def archive(simulated_run_folder, tmp_path_factory):
    target = tmp_path_factory.mktemp("deposit") / f"{TOP}.tar.gz"
    deposited_with_an_answer(target, simulated_run_folder)
    return target


@pytest.fixture(scope="module")
def folder(archive, tmp_path_factory):
    return unpacked(archive, tmp_path_factory.mktemp("unpacked"))


def members(archive):
    with tarfile.open(archive) as opened:
        return {entry.name: opened.extractfile(entry).read() for entry in opened}


def repacked(target, content):
    """Write an archive of some members in their order."""
    with tarfile.open(target, "w:gz") as opened:
        for name, data in content.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            opened.addfile(entry, io.BytesIO(data))
    return target


def listed_again(content):
    """Return members with a matching list of checksums, as a forger would make."""
    lines = [
        f"{hashlib.sha256(data).hexdigest()}  {name.removeprefix(f'{TOP}/')}\n"
        for name, data in content.items()
        if name != f"{TOP}/SHA256SUMS"
    ]
    return content | {f"{TOP}/SHA256SUMS": "".join(lines).encode()}


def a_trial(content):
    return next(name for name in content if name.endswith("/trial.json"))


# --- contents -------------------------------------------------------------------------------------


def test_a_deposit_is_verified_and_reproduced(archive, capsys):
    verify_archive(archive)
    output = capsys.readouterr().out
    assert "every byte as listed" in output
    assert "results/model/short/tcp: record sound" in output
    assert "  tables/tcp.parquet: same bytes" in output
    assert "0 different" in output


def test_a_deposit_is_loaded_like_a_campaign(archive, simulated_run_folder):
    deposited = tsnrepro.load(str(archive))
    results = simulated_run_folder.parents[2]
    here = tsnrepro.load("short", results)
    assert deposited.testbeds == {"tcp": "model"}
    assert deposited.trials("tcp").equals(here.trials("tcp"))
    name = here.trials("tcp")["trial"].iloc[0]
    assert deposited.raw(name).record == here.raw(name).record
    unpacked_to = deposited.raw(name).folder
    del deposited
    assert not unpacked_to.exists()
    with pytest.raises(RecordError, match="there is no archive"):
        tsnrepro.load("nothing.tar.gz")


def test_equal_files_give_equal_bytes(archive, simulated_run_folder, tmp_path):
    again = tmp_path / archive.name
    digest = deposited_with_an_answer(again, simulated_run_folder)
    assert again.read_bytes() == archive.read_bytes()
    assert (tmp_path / f"{archive.name}.sha256").read_text() == f"{digest}  {archive.name}\n"


def test_all_files_for_a_reproduction_are_in_it(folder):
    for name in (
        *(
            "requirements.lock",
            "Snakefile",
            "src/tsnrepro/cli/__init__.py",
            "notebooks/analyse/tcp.ipynb",
        ),
        *("config/testbeds/model.yaml", "data/published/claims.yaml", "LICENSE", "scripts/setup"),
        *("profiles/default/config.yaml", "ARTIFACT.md", "Containerfile", "binder/Dockerfile"),
        *(VALUES, "results/model/short/tcp/tables/tcp.parquet", "results/model/short/tcp/run.json"),
    ):
        assert (folder / name).is_file(), name
    assert len([*folder.glob("data/raw/model/short/tcp/*/trial.json")]) == 12
    assert len([*folder.glob("data/raw/model/environments/*.json")]) == 1
    assert not [path for path in folder.rglob("*") if path.name == "__pycache__"]


def test_programs_can_be_run_and_manuscripts_built(archive):
    with tarfile.open(archive) as opened:
        modes = {entry.name.removeprefix(f"{TOP}/"): entry.mode for entry in opened}
    assert modes["scripts/setup"] == modes["scripts/test"] == 0o755
    assert modes["README.md"] == 0o644
    assert "paper/frer-udp/latexmkrc" in modes


def test_the_readme_begins_with_what_the_record_answers(folder):
    text = (folder / "README.md").read_text(encoding="utf-8")
    preface, _, rest = text.partition("\n# tsnrepro\n")
    assert rest
    assert f"tsnrepro verify ../{TOP}.tar.gz" in preface
    assert "ARTIFACT.md" in preface
    values = families.judged_together(load_file(folder / VALUES), [["tcp.equivalence"]])
    rows = re.findall(r"^\| (.+) \| (.+) \| `(.+)` \|$", preface, re.M)
    assert [(text, key) for text, _, key in rows] == [(QUESTION.text, QUESTION.rests_on)]
    for _, answer, key in rows:
        assert answer == QUESTION.answers[values[key].value]


def test_the_readme_links_to_files_that_are_in_it(folder):
    pages = ("README.md", "ARTIFACT.md")
    text = "".join((folder / name).read_text(encoding="utf-8") for name in pages)
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text)]
    linked = [link for link in links if link and "://" not in link]
    assert linked
    assert [link for link in linked if not (folder / link).exists()] == []


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Return the folder of a small committed repository that is deposited in place of this one."""
    folder = tmp_path / "repository"
    (folder / "paper").mkdir(parents=True)
    shutil.copy(root() / "CITATION.cff", folder)
    (folder / "README.md").write_text("One")
    (folder / "paper" / "one.log").write_text("not a file of TeX")
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "One"]):
        subprocess.run([*git, *arguments], check=True)
    monkeypatch.setattr("tsnrepro.report.deposit.root", lambda: folder)
    return folder


def deposited(tmp_path, run, **options):
    target = tmp_path / f"{TOP}.tar.gz"
    write_deposit(target, [run], **options)
    return {name.removeprefix(f"{TOP}/"): data for name, data in members(target).items()}


def test_a_draft_is_deposited_only_if_asked_and_is_named(
    repository, simulated_run_folder, tmp_path
):
    content = deposited(tmp_path, simulated_run_folder)
    assert content["README.md"].endswith(b"One")
    assert b"differ from the commit" not in content[".zenodo.json"]
    (repository / "paper" / "draft.tex").write_text("draft")
    with pytest.raises(PublishError, match=r"1 file .* not committed.*paper/draft\.tex"):
        deposited(tmp_path, simulated_run_folder)
    content = deposited(tmp_path, simulated_run_folder, uncommitted=True)
    assert content["paper/draft.tex"] == b"draft"
    assert b"Files differ from the commit: paper/draft.tex." in content[".zenodo.json"]


def test_what_git_ignores_is_not_deposited(repository, simulated_run_folder, tmp_path):
    (repository / ".git" / "info" / "exclude").write_text("*.secret\n")
    (repository / "paper" / "my.secret").write_text("mine")
    assert "paper/my.secret" not in deposited(tmp_path, simulated_run_folder)


def test_logs_of_a_paper_stay_out(repository, simulated_run_folder, tmp_path):
    """They hold paths of this machine."""
    paper = tmp_path / "results" / "papers" / "one"
    paper.mkdir(parents=True)
    for suffix in ("pdf", "log", "fls", "fdb_latexmk", "blg", "tex"):
        (paper / f"one.{suffix}").write_text("x")
    content = deposited(tmp_path, simulated_run_folder, papers=[paper])
    names = {name for name in content if name.startswith("results/papers/")}
    assert names == {"results/papers/one/one.pdf", "results/papers/one/one.tex"}


def test_the_citation_names_data_software_and_authors(folder):
    citation = yaml.safe_load((folder / "CITATION.cff").read_text(encoding="utf-8"))
    own = yaml.safe_load((root() / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["type"] == "dataset"
    assert citation["authors"] == own["authors"]
    assert citation["references"][0]["title"] == own["title"]
    form = json.loads((folder / ".zenodo.json").read_text(encoding="utf-8"))
    assert form["creators"] == [{"name": own["authors"][0]["name"]}]
    assert form["publication_date"] == citation["date-released"]
    assert "12 trials" in form["description"]
    assert "no measurement" in form["description"]


# RO-Crate 1.1 has other URIs for these than 1.3, whose context is available offline.
BIOSCHEMAS = "https://bioschemas.org/"
OF_1_1 = {
    "ComputationalWorkflow": f"{BIOSCHEMAS}ComputationalWorkflow",
    "FormalParameter": f"{BIOSCHEMAS}FormalParameter",
    "input": f"{BIOSCHEMAS}ComputationalWorkflow#input",
    "output": f"{BIOSCHEMAS}ComputationalWorkflow#output",
}


def problems_of_crate(folder, monkeypatch):
    """Return the missing required properties by the validator of the profile."""
    requests = pytest.importorskip("requests")
    services = pytest.importorskip("rocrate_validator.services")
    from rocrate_validator.models import Severity  # noqa: PLC0415
    from rocrate_validator.utils.http import HttpRequester  # noqa: PLC0415

    context = json.loads((files("rocrate") / "data" / "ro-crate.jsonld").read_text("utf-8"))
    context["@context"] |= OF_1_1

    def get(self, address, **_):
        assert address == "https://w3id.org/ro/crate/1.1/context"
        answer = requests.Response()
        answer.status_code, answer._content = 200, json.dumps(context).encode()
        answer.headers["Content-Type"] = "application/ld+json"
        return answer

    monkeypatch.setattr(HttpRequester, "get", get, raising=False)
    settings = services.ValidationSettings(
        rocrate_uri=str(folder),
        profile_identifier="workflow-run-crate",
        requirement_severity=Severity.REQUIRED,
        offline=True,
    )
    return [issue.message for issue in services.validate(settings).get_issues()]


def test_it_is_a_workflow_run_crate(folder, monkeypatch):
    assert problems_of_crate(folder, monkeypatch) == []


def test_a_crate_without_its_run_is_invalid(folder, tmp_path, monkeypatch):
    copy = tmp_path / "crate"
    shutil.copytree(folder, copy)
    path = copy / "ro-crate-metadata.json"
    crate = json.loads(path.read_text(encoding="utf-8"))
    for entity in crate["@graph"]:
        if entity["@type"] == "CreateAction":
            del entity["instrument"]
    path.write_text(json.dumps(crate), encoding="utf-8")
    assert problems_of_crate(copy, monkeypatch)


# --- changes --------------------------------------------------------------------------------------


def test_a_changed_byte_of_a_trial_is_detected(archive, tmp_path):
    content = members(archive)
    name = a_trial(content)
    content[name] = content[name].replace(b"goodput", b"goodputs"[1:], 1)
    altered = repacked(tmp_path / "altered.tar.gz", content)
    place = name.removeprefix(f"{TOP}/")
    with pytest.raises(RecordError, match=rf"does not match its checksum.*\({place}\)"):
        verify_archive(altered)


def test_a_trial_is_verified_by_its_own_checksums_too(archive, tmp_path):
    content = members(archive)
    name = a_trial(content)
    content[name] = content[name].replace(b"goodput", b"goodputs"[1:], 1)
    forged = repacked(tmp_path / "forged.tar.gz", listed_again(content))
    place = name.removeprefix(f"{TOP}/")
    with pytest.raises(RecordError, match=rf"does not match its checksum.*\({place}"):
        verify_archive(forged)


def test_a_changed_result_is_detected(archive, analysed, tmp_path, monkeypatch):
    # The analysis of the notebook, without starting a kernel.
    monkeypatch.setattr(
        "tsnrepro.report.archive.execute", lambda notebook, target, given: analysed(given["run"])
    )
    content = members(archive)
    place = f"{TOP}/{VALUES}"
    values = json.loads(content[place])
    number = next(item for item in values if item["key"] == "tcp.goodput.frer.mbps")
    number |= {part: number[part] + 50 for part in ("value", "low", "high")}
    content[place] = json.dumps(values).encode()
    seal = json.loads(content[f"{TOP}/results/model/short/tcp/seal.json"])
    seal["made"]["values.json"] = hashlib.sha256(content[place]).hexdigest()
    content[f"{TOP}/results/model/short/tcp/seal.json"] = json.dumps(seal).encode()
    forged = repacked(tmp_path / "forged.tar.gz", listed_again(content))
    with pytest.raises(RecordError, match=rf"tcp\.goodput\.frer\.mbps was .*\({VALUES}\)"):
        verify_archive(forged)


def test_no_notebook_of_an_archive_is_executed(archive, tmp_path, monkeypatch):
    executed = []

    def analysed_by(notebook, target, given):
        executed.append(notebook)
        raise RecordError("enough")

    monkeypatch.setattr("tsnrepro.report.archive.execute", analysed_by)
    content = members(archive)
    assert f"{TOP}/notebooks/analyse/tcp.ipynb" in content
    content[f"{TOP}/notebooks/analyse/tcp.ipynb"] = b"{}"
    with pytest.raises(RecordError, match="enough"):
        verify_archive(repacked(tmp_path / "forged.tar.gz", listed_again(content)))
    assert executed == [root() / "notebooks" / "analyse" / "tcp.ipynb"]


def another_bit(packed):
    """Return compressed bytes with a changed bit near the middle that changes the content.

    Some bits have no effect: a distance into repeated bytes, the end of a block.
    """
    content = gzip.decompress(packed)
    for place in range(len(packed) // 2, len(packed)):
        changed = bytearray(packed)
        changed[place] ^= 1
        try:
            if gzip.decompress(changed) != content:
                return changed
        except (EOFError, OSError, zlib.error):
            return changed
    raise AssertionError("no bit of the second half matters")


def test_a_changed_bit_of_the_archive_is_detected(archive, tmp_path):
    broken = tmp_path / "broken.tar.gz"
    broken.write_bytes(another_bit(archive.read_bytes()))
    with pytest.raises(RecordError, match=r"\(.+\)\. Download the archive again"):
        verify_archive(broken)


@pytest.mark.parametrize("place", [-1, -5])
def test_the_checksum_at_the_end_of_the_archive_is_verified(archive, tmp_path, place):
    data = bytearray(archive.read_bytes())
    data[place] ^= 1
    broken = tmp_path / "broken.tar.gz"
    broken.write_bytes(data)
    with pytest.raises(RecordError, match="the archive is damaged at or after"):
        unpacked(broken, tmp_path / "unpacked")


def test_another_archive_with_the_name_is_detected(archive, tmp_path):
    """Its files are intact, but its checksum is another."""
    content = members(archive)
    other = repacked(tmp_path / archive.name, content)
    shutil.copy(f"{archive}.sha256", tmp_path)
    with pytest.raises(RecordError, match="its checksum is not that in the"):
        verify_archive(other)


def test_missing_and_added_files_are_detected(archive, tmp_path):
    content = members(archive)
    less = {name: data for name, data in content.items() if name != f"{TOP}/{VALUES}"}
    with pytest.raises(RecordError, match=rf"missing in the archive \({VALUES}\)"):
        verify_archive(repacked(tmp_path / "less.tar.gz", less))
    more = content | {f"{TOP}/more.txt": b"x"}
    with pytest.raises(RecordError, match=rf"not in its list of checksums \({TOP}/more.txt\)"):
        verify_archive(repacked(tmp_path / "more.tar.gz", more))


@pytest.mark.parametrize("name", ["/etc/passwd", f"{TOP}/../../x", "x"])
def test_nothing_is_written_outside(archive, tmp_path, name):
    content = {f"{TOP}/SHA256SUMS": members(archive)[f"{TOP}/SHA256SUMS"], name: b"x"}
    with pytest.raises(RecordError, match="not a regular file in its folder"):
        unpacked(repacked(tmp_path / "hostile.tar.gz", content), tmp_path / "unpacked")


def test_an_invalid_archive_is_an_error(tmp_path):
    path = tmp_path / "x.tar.gz"
    with pytest.raises(RecordError, match="there is no archive"):
        verify_archive(path)
    path.write_bytes(gzip.compress(b"no tar"))
    with pytest.raises(RecordError, match="damaged"):
        verify_archive(path)
    with pytest.raises(RecordError, match="does not begin with a list of checksums"):
        verify_archive(repacked(path, {"a/b": b"x"}))


def test_altered_records_are_not_deposited(simulated_run_folder, tmp_path):
    copy = tmp_path / "results/model/short/tcp"
    shutil.copytree(simulated_run_folder, copy)
    (tmp_path / "data").symlink_to(simulated_run_folder.parents[3] / "data")
    (copy / "values.json").write_text("[]", encoding="utf-8")
    with pytest.raises(RecordError, match="not deposited: the file is not what the analysis wrote"):
        write_deposit(tmp_path / "x.tar.gz", [copy], uncommitted=True)
    assert not (tmp_path / "x.tar.gz").exists()
    with pytest.raises(PublishError, match=r"does not end in \.tar\.gz"):
        write_deposit(tmp_path / "x.zip", [simulated_run_folder])

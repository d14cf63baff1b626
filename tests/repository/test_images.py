"""The images for containers install what scripts/setup installs, from the same lists."""

import importlib.util
import json

from tracked_files import tracked

from tsnrepro.common.repository import root

spec = importlib.util.spec_from_file_location(
    "binder_image", root() / "scripts" / "binder_image.py"
)
binder_image = importlib.util.module_from_spec(spec)
spec.loader.exec_module(binder_image)

CONTAINERFILE = root() / "Containerfile"


def instructions(path):
    """Return the instructions of a file with their arguments, long ones as one line."""
    text = path.read_text(encoding="utf-8").replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(None, 1)) for line in lines]


def test_the_image_is_set_up_as_a_machine_is():
    found = instructions(CONTAINERFILE)
    names = [name for name, _ in found]
    assert names.index("COPY") < names.index("RUN"), "set-up needs the lists"
    runs = [argument for name, argument in found if name == "RUN"]
    assert [run.split(" && ")[0] for run in runs] == ["scripts/setup"]
    assert "apt-get" not in CONTAINERFILE.read_text(encoding="utf-8"), "a second list of packages"


def test_no_tracked_file_is_kept_out_of_the_image():
    ignored = root() / ".dockerignore"
    patterns = [line for line in ignored.read_text().split("\n") if line and line[0] != "#"]
    for path in tracked("**/*"):
        place = path.relative_to(root()).as_posix()
        kept_out = [p for p in patterns if place == p or place.startswith(f"{p}/")]
        assert not kept_out, place


def test_binder_has_the_same_image():
    written = (root() / "binder" / "Dockerfile").read_text(encoding="utf-8")
    generated = binder_image.binder_dockerfile(CONTAINERFILE.read_text(encoding="utf-8"))
    assert written == generated, "run scripts/binder_image.py > binder/Dockerfile"
    shared = [line for line in instructions(CONTAINERFILE) if line[0] != "CMD"]
    assert instructions(root() / "binder" / "Dockerfile")[: len(shared)] == shared


def test_the_development_container_is_built_from_it():
    folder = root() / ".devcontainer"
    described = json.loads((folder / "devcontainer.json").read_text(encoding="utf-8"))
    assert (folder / described["build"]["dockerfile"]).resolve() == CONTAINERFILE.resolve()
    assert (folder / described["build"]["context"]).resolve() == root().resolve()
    script, option = described["postCreateCommand"].split()
    assert f'"{option}"' in (root() / script).read_text(encoding="utf-8")

"""Commands in copies of a preloaded process: they behave as if they were run as they are."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from waiting import soon

from tsnrepro.workflow import command_server as preloaded

SECONDS = 60
ENDS_SECONDS = 8


@pytest.fixture
def workflow(monkeypatch):
    """Return a process that stands for the workflow, with a server beside it."""
    stands = subprocess.Popen(["sleep", "600"])
    monkeypatch.delenv(preloaded.NAME, raising=False)
    preloaded.start_server(stands.pid)
    monkeypatch.setenv(preloaded.NAME, os.environ[preloaded.NAME])
    monkeypatch.setenv("TSNREPRO_WORKFLOW_PID", str(stands.pid))
    yield stands
    stands.kill()
    stands.wait()
    assert soon(lambda: not server_answers(), ENDS_SECONDS)


def server_answers():
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(f"\0{os.environ[preloaded.NAME]}")
        except ConnectionRefusedError:
            return False
        return True


def tsnrepro(*words, **options):
    argv = [sys.executable, "-c", "from tsnrepro.cli import main; main()", *words]
    return subprocess.run(
        argv, check=False, capture_output=True, text=True, timeout=SECONDS, **options
    )


def notebook(folder, *cells):
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path = folder / "source.ipynb"
    nbformat.write(made, path)
    return path


def outputs(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [output for cell in cells for output in cell.get("outputs", [])]


def test_without_a_server_nothing_is_run(monkeypatch):
    monkeypatch.delenv(preloaded.NAME, raising=False)
    assert preloaded.run_preloaded(["experiments"]) is None
    monkeypatch.setenv(preloaded.NAME, "nobody")
    assert preloaded.run_preloaded(["experiments"]) is None
    assert "loss" in tsnrepro("experiments").stdout


def test_a_command_ends_as_it_would(workflow, tmp_path):
    assert tsnrepro("experiments").stdout == tsnrepro("experiments", env=without()).stdout
    failed = tsnrepro("notebook", "missing.ipynb", "target.ipynb", cwd=tmp_path)
    assert failed.returncode == 1
    assert "no such notebook (missing.ipynb)" in failed.stderr
    assert tsnrepro("nothing").returncode == 2


def without():
    return {name: value for name, value in os.environ.items() if name != preloaded.NAME}


def test_a_notebooks_kernel_is_a_copy_and_shows_its_figures(workflow, tmp_path, monkeypatch):
    monkeypatch.setenv("TSNREPRO_TOLD", "asked")
    source = notebook(
        tmp_path,
        "import os, sys\nimport matplotlib.pyplot as plt",
        "print(os.environ['TSNREPRO_TOLD'], os.getcwd(), os.getppid(), sep='\\n')",
        "plt.plot([1, 2])",
    )
    for number in range(2):
        target = tmp_path / f"target-{number}.ipynb"
        done = tsnrepro("notebook", str(source), str(target), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        said, *drawn = outputs(target)
        told, folder, parent = "".join(said["text"]).split()[-3:]
        assert (told, folder) == ("asked", str(tmp_path))
        command = Path("/proc", parent, "cmdline").read_text(encoding="utf-8")
        assert "tsnrepro.workflow.command_server" in command.split("\0")
        assert any("image/png" in output.get("data", {}) for output in drawn)


def test_only_what_is_for_the_model_has_it_loaded(workflow, tmp_path):
    """In this order: a server keeps what it has loaded for all that come later."""
    source = notebook(
        tmp_path, "testbed = ''", "import sys\nprint('tsnrepro.model.engine' in sys.modules)"
    )
    made = nbformat.read(source, as_version=4)
    made.cells[0].metadata.tags = ["parameters"]
    nbformat.write(made, source)
    for testbed, loaded in (("emulated", "False"), ("model", "True")):
        target = tmp_path / f"{testbed}.ipynb"
        asked = ("notebook", str(source), str(target), "-p", f"testbed={testbed}")
        done = tsnrepro(*asked, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert outputs(target)[0]["text"] == [f"{loaded}\n"]


def test_what_a_program_leaves_for_its_end_is_done(workflow, tmp_path):
    source = notebook(
        tmp_path,
        "import atexit, threading, time\nfrom concurrent.futures import ThreadPoolExecutor",
        "def keep(name, after=0):\n    time.sleep(after)\n    open(name, 'w').close()",
        "atexit.register(keep, 'at-exit')",
        "threading.Thread(target=keep, args=('thread', 1)).start()",
        "kept = ThreadPoolExecutor(1)\n_ = kept.submit(keep, 'pool', 1)",
    )
    done = tsnrepro("notebook", str(source), str(tmp_path / "target.ipynb"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {"at-exit", "thread", "pool"} <= {path.name for path in tmp_path.iterdir()}


def sleeping(folder):
    """Start a notebook that sleeps; return who asked for it, and its kernel."""
    source = notebook(
        folder,
        "import os, time",
        "print(os.getpid(), file=open('kernel', 'w'), flush=True)",
        "time.sleep(600)",
    )
    words = ["notebook", str(source), str(folder / "target.ipynb")]
    argv = [sys.executable, "-c", "from tsnrepro.cli import main; main()", *words]
    asked = subprocess.Popen(argv, cwd=folder, stderr=subprocess.DEVNULL)
    place = folder / "kernel"
    end = time.monotonic() + SECONDS
    while not (place.is_file() and place.read_text()) and time.monotonic() < end:
        time.sleep(0.1)
    return asked, place.read_text().strip()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_command_ends_with_the_one_who_asked(workflow, tmp_path, number):
    asked, kernel = sleeping(tmp_path)
    asked.send_signal(number)
    assert asked.wait(SECONDS) != 0
    assert soon(lambda: not os.path.exists(f"/proc/{kernel}"), ENDS_SECONDS)
    assert server_answers()


def test_a_command_ends_with_the_workflow(workflow, tmp_path):
    asked, kernel = sleeping(tmp_path)
    workflow.kill()
    workflow.wait()
    assert asked.wait(SECONDS) != 0
    assert soon(lambda: not os.path.exists(f"/proc/{kernel}"), ENDS_SECONDS)


@pytest.fixture
def slow_to_import(tmp_path, monkeypatch):
    """Return a module, known to servers that start from now on, that takes minutes to import."""
    (tmp_path / "slow_to_import.py").write_text(
        "import pathlib, time\npathlib.Path(__file__).with_name('importing').touch()\n"
        "time.sleep(120)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def test_a_workflow_that_ends_while_the_server_imports_takes_both_along(
    slow_to_import, workflow, tmp_path
):
    source = notebook(tmp_path, "import slow_to_import")
    words = ["notebook", str(source), str(tmp_path / "target.ipynb")]
    argv = [sys.executable, "-c", "from tsnrepro.cli import main; main()", *words]
    asked = subprocess.Popen(argv, cwd=tmp_path, stderr=subprocess.DEVNULL)
    end = time.monotonic() + SECONDS
    while not (tmp_path / "importing").exists() and time.monotonic() < end:
        time.sleep(0.05)
    workflow.kill()
    workflow.wait()
    try:
        assert soon(lambda: not server_answers(), ENDS_SECONDS)
        assert asked.wait(ENDS_SECONDS) != 0
    finally:
        asked.kill()
        asked.wait()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_users_request_is_refused(workflow):
    asks = (
        "import socket, sys\n"
        "asked = socket.socket(socket.AF_UNIX)\n"
        "asked.connect('\\0' + sys.argv[1])\n"
        "print(asked.recv(1))"
    )
    name = os.environ[preloaded.NAME]
    argv = ["python3", "-c", asks, name]
    done = subprocess.run(
        argv, check=False, user=65534, capture_output=True, text=True, timeout=SECONDS, cwd="/"
    )
    assert done.stdout == "b''\n", done.stderr
    assert server_answers()

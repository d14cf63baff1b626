"""JupyterLab on loopback with a token, and nothing of what a user of this machine has set."""

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

# It would ask every new user whether to fetch news, in a box above the notebook.
SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {
        "checkForUpdates": False,
        "doNotDisturbMode": True,
        "fetchNews": "false",
    }
}


@contextmanager
def jupyterlab(folder, own, **variables):
    """Serve a folder until the block ends, with all that JupyterLab keeps in a folder of its own.

    Yields the function that gives a notebook's address. The kernels end with the server, and the
    server with this process, even where that is killed.
    """
    settings = own / "config" / "labconfig" / "default_setting_overrides.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps(SETTINGS), encoding="utf-8")
    kinds = ("config", "data", "runtime")
    places = {f"JUPYTER_{kind.upper()}_DIR": str(own / kind) for kind in kinds}
    environment = os.environ | places | {"IPYTHONDIR": str(own / "ipython")} | variables
    command = [
        *("setpriv", "--pdeathsig", "TERM", sys.executable, "-m", "jupyterlab"),
        *("--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1", "--ServerApp.port=0"),
        f"--ServerApp.root_dir={folder}",
    ]
    with (own / "server.log").open("w", encoding="utf-8") as log:
        server = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            said = _said(server, own)
            yield lambda notebook: _address(said, notebook)
        finally:
            server.terminate()
            server.wait()


def _address(said, notebook):
    # A workspace of its own: the default one brings back the notebooks that were open before.
    workspace = Path(notebook).stem
    return f"{said['url']}lab/workspaces/{workspace}/tree/{notebook}?token={said['token']}"


def _said(server, own):
    """Return what the server wrote about itself once it listens."""
    written = own / "runtime" / f"jpserver-{server.pid}.json"
    while server.poll() is None:
        try:
            return json.loads(written.read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            time.sleep(0.1)
    log = (own / "server.log").read_text(encoding="utf-8")
    raise AssertionError(f"JupyterLab ended with {server.returncode}:\n{log}")

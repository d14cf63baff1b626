"""JupyterLab on loopback with a token, and without the settings of the user."""

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

# No dialog that asks a new user whether to fetch news.
SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {
        "checkForUpdates": False,
        "doNotDisturbMode": True,
        "fetchNews": "false",
    }
}


@contextmanager
def jupyterlab(folder, state, **variables):
    """Serve a folder until the block ends, with the state of JupyterLab in another.

    Yields the function that returns the address of a notebook. The kernels end with the server, and
    the server with this process, even if that is killed.
    """
    settings = state / "config" / "labconfig" / "default_setting_overrides.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps(SETTINGS), encoding="utf-8")
    kinds = ("config", "data", "runtime")
    folders = {f"JUPYTER_{kind.upper()}_DIR": str(state / kind) for kind in kinds}
    environment = os.environ | folders | {"IPYTHONDIR": str(state / "ipython")} | variables
    command = [
        *("setpriv", "--pdeathsig", "TERM", sys.executable, "-m", "jupyterlab"),
        *("--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1", "--ServerApp.port=0"),
        f"--ServerApp.root_dir={folder}",
    ]
    with (state / "server.log").open("w", encoding="utf-8") as log:
        server = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            info = _server_info(server, state)
            yield lambda notebook: _address(info, notebook)
        finally:
            server.terminate()
            server.wait()


def _address(info, notebook):
    # The default workspace would reopen other notebooks.
    workspace = Path(notebook).stem
    return f"{info['url']}lab/workspaces/{workspace}/tree/{notebook}?token={info['token']}"


def _server_info(server, state):
    """Return the information that the server writes once it listens."""
    written = state / "runtime" / f"jpserver-{server.pid}.json"
    while server.poll() is None:
        try:
            return json.loads(written.read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            time.sleep(0.1)
    log = (state / "server.log").read_text(encoding="utf-8")
    raise AssertionError(f"JupyterLab ended with {server.returncode}:\n{log}")

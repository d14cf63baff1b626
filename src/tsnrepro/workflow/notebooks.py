"""Run a parameterized notebook with papermill; an unknown parameter is an error."""

import fcntl
import os
import select
import signal
import stat
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tsnrepro.common.errors import ConfigurationError, TsnreproError
from tsnrepro.common.temporary import temporary_folder

# What an interrupted notebook is given to shut its kernel down.
_INTERRUPT_SECONDS = 3
_STDERR = 2


class NotebookError(TsnreproError):
    """A cell of a notebook failed; the executed notebook shows which."""


def parse_parameters(pairs: list[str]) -> dict[str, Any]:
    """Return ``NAME=VALUE`` words as parameters, values read as YAML.

    Raises
    ------
    ConfigurationError
        A word has no ``=``, or its value is not YAML.
    """
    from tsnrepro.config.yaml_files import parse_value  # noqa: PLC0415 - pydantic's time

    parameters = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator:
            raise ConfigurationError(f"'{pair}' is not NAME=VALUE", "notebook parameters")
        content = value.encode("utf-8", "surrogateescape")
        parameters[name] = parse_value(content, f"notebook parameters, {name}")
    return parameters


def known_parameters(notebook: dict[str, Any]) -> set[str]:
    """Return the names that the cell tagged ``parameters`` assigns."""
    import ast  # noqa: PLC0415

    names: set[str] = set()
    for cell in notebook["cells"]:
        if "parameters" in cell["metadata"].get("tags", []):
            for node in ast.parse("".join(cell["source"])).body:
                if isinstance(node, ast.Assign):
                    names |= {t.id for t in node.targets if isinstance(t, ast.Name)}
    return names


def _end_with_workflow() -> None:
    """End this process when the workflow that started it is gone, even by ``kill -9``.

    Between the two stands a shell, which would live on and let the experiment go on unattended.
    """
    workflow = os.environ.get("TSNREPRO_WORKFLOW_PID")
    if not workflow:
        return

    def wait() -> None:
        try:
            handle = os.pidfd_open(int(workflow))
        except ProcessLookupError:
            pass  # gone already
        else:
            select.select([handle], [], [])
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(_INTERRUPT_SECONDS)
        os._exit(1)  # the kernel of the notebook ends when it has lost its parent

    threading.Thread(target=wait, daemon=True).start()


def append_only(handle: int) -> None:
    """Have all who share an open file write at its end; what is no file is left as it is.

    A log that was opened by ``> log`` is written to by the workflow, and opened once more by the
    kernel for its progress: each at a place of its own, over the other's lines.
    """
    if stat.S_ISREG(os.fstat(handle).st_mode):
        flags = fcntl.fcntl(handle, fcntl.F_GETFL)
        fcntl.fcntl(handle, fcntl.F_SETFL, flags | os.O_APPEND)


def leave_out_iri_grammar() -> None:
    """Keep jsonschema from compiling a grammar of IRIs, which would be half of papermill's import.

    A schema of notebooks has no such format, and jsonschema does without the grammar where its
    package is missing, which is what a name without a module means to an import.
    """
    modules: dict[str, Any] = sys.modules
    modules.setdefault("rfc3987_syntax", None)


def execute(source: Path, target: Path, parameters: dict[str, Any]) -> None:
    """Execute a notebook into ``target``, which is written even when a cell fails.

    Raises
    ------
    ConfigurationError
        The notebook is missing or has no such parameter.
    NotebookError
        A cell failed.
    """
    import json  # noqa: PLC0415

    if not source.is_file():
        raise ConfigurationError("no such notebook", str(source))
    known = known_parameters(json.loads(source.read_text(encoding="utf-8")))
    if unknown := sorted(set(parameters) - known):
        raise ConfigurationError(
            f"unknown parameter: {', '.join(unknown)}",
            str(source),
            f"The notebook's parameters: {', '.join(sorted(known))}",
        )
    _end_with_workflow()  # before the imports, which take their time
    leave_out_iri_grammar()
    import papermill  # noqa: PLC0415 - a second, paid only when there is something to run
    from papermill.exceptions import PapermillExecutionError  # noqa: PLC0415
    from traitlets.config import Config  # noqa: PLC0415

    target.parent.mkdir(parents=True, exist_ok=True)
    # The notebook's own output is kept with it; what is running and how long is left belongs here.
    append_only(_STDERR)
    os.environ.setdefault("TSNREPRO_PROGRESS", f"/proc/{os.getpid()}/fd/{_STDERR}")
    # Sockets in a folder of this user's and this run's own, instead of TCP ports on loopback that
    # anyone on the machine could reach.
    with temporary_folder(socket="kernel-5") as sockets:
        # The file with the kernel's key lies there, too: jupyter leaves it when interrupted.
        kernel = {
            "transport": "ipc",
            "ip": f"{sockets}/kernel",
            "connection_file": f"{sockets}/connection.json",
        }
        try:
            papermill.execute_notebook(
                str(source),
                str(target),
                parameters,
                progress_bar=False,
                log_output=False,
                config=Config({"KernelManager": kernel}),
                extra_arguments=["--IPKernelApp.log_level=CRITICAL"],
            )
        except PapermillExecutionError as error:
            # All of its lines: the last one alone may be no more than "Name: trial".
            said = f"{error.ename}: {error.evalue}".strip()
            raise NotebookError(
                f"cell {error.cell_index} failed: {said}", str(source), f"Executed so far: {target}"
            ) from error
        except OSError as error:
            reason = error.strerror or str(error)
            raise NotebookError(
                f"the executed notebook cannot be written: {reason}",
                str(target),
                "Make room there, or let this user write, and run this again",
            ) from error
        except RuntimeError as error:
            raise NotebookError(f"the notebook's kernel failed: {error}", str(source)) from error


def write_page(notebook: Path, output: Path, banner: str) -> None:
    """Write an executed notebook as an HTML page that stands on its own, without its code.

    Parameters
    ----------
    notebook, output
        The executed notebook, and the page; its folder is made where missing.
    banner
        What stands at the page's head: which testbed made the numbers.

    Raises
    ------
    ConfigurationError
        The notebook is missing.
    """
    if not notebook.is_file():
        raise ConfigurationError("no such notebook", str(notebook))
    import html  # noqa: PLC0415

    leave_out_iri_grammar()
    from nbconvert import HTMLExporter  # noqa: PLC0415 - a second

    # Nothing of the page is a script or lies elsewhere, so a browser need not look for either.
    elsewhere = dict.fromkeys(("mathjax_url", "require_js_url", "jquery_url"), "")
    exporter = HTMLExporter(
        exclude_input=True, exclude_output_prompt=True, embed_images=True, **elsewhere
    )
    page, _ = exporter.from_filename(str(notebook))
    before, opening, after = page.partition("<main>")
    # The template's tables take the body's width, its text less; both fit a common window.
    style = "<style>main table.dataframe {font-size: 11px} main {max-width: 1100px}</style>"
    head = f'{style}<p style="padding: 8px 60px; background: #eee">{html.escape(banner)}</p>'
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(f"{before}{head}{opening}{after}", encoding="utf-8")

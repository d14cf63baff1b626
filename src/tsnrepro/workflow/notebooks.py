"""Execute parameterized notebooks with papermill, and a run's analysis with its seal and page."""

import fcntl
import os
import select
import signal
import stat
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

from tsnrepro.common.errors import ConfigurationError, TsnreproError
from tsnrepro.common.repository import root
from tsnrepro.common.temporary import temporary_folder
from tsnrepro.runner.control import StoppedError

PAGE = "analyse.html"
"""The executed analysis of a run as a page, in the run's folder."""
_EXECUTED = "analyse.ipynb"
# Time for an interrupted notebook to shut down its kernel.
_INTERRUPT_SECONDS = 3
_STDERR = 2
# Set once the workflow that started this process is gone.
_workflow_ended = threading.Event()


class NotebookError(TsnreproError):
    """A cell of a notebook failed; the executed notebook shows which."""


def parse_parameters(pairs: list[str]) -> dict[str, Any]:
    """Return ``NAME=VALUE`` pairs as parameters, values read as YAML.

    Raises
    ------
    ConfigurationError
        A pair has no ``=``, or its value is not YAML.
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
    """End this process with the workflow that started it, even after ``kill -9``.

    The shell between the two would survive, and the experiment would continue unattended.
    """
    workflow = os.environ.get("TSNREPRO_WORKFLOW_PID")
    if not workflow:
        return

    def wait() -> None:
        try:
            handle = os.pidfd_open(int(workflow))
        except ProcessLookupError:
            pass  # already gone
        else:
            select.select([handle], [], [])
        _workflow_ended.set()
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(_INTERRUPT_SECONDS)
        os._exit(1)  # the kernel ends when its parent is gone

    def interrupt(number: int, frame: FrameType | None) -> None:
        # A terminal sends Ctrl-C to all; the workflow's control file says what it means.
        if _workflow_ended.is_set():
            signal.default_int_handler(number, frame)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)
    threading.Thread(target=wait, daemon=True).start()


def append_only(handle: int) -> None:
    """Set O_APPEND on an open regular file, for all processes that share it.

    The workflow writes to a log that was opened by ``> log``, and the kernel opens it again for its
    progress; each at its own offset would overwrite the other's lines.
    """
    if stat.S_ISREG(os.fstat(handle).st_mode):
        flags = fcntl.fcntl(handle, fcntl.F_GETFL)
        fcntl.fcntl(handle, fcntl.F_SETFL, flags | os.O_APPEND)


def execute(source: Path, target: Path, parameters: dict[str, Any]) -> None:
    """Execute a notebook into ``target``, which is written even when a cell fails.

    Raises
    ------
    ConfigurationError
        The notebook is missing or has no such parameter.
    NotebookError
        A cell failed.
    StoppedError
        It measured, and was asked to stop.
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
    _end_with_workflow()  # before the slow imports
    import papermill  # noqa: PLC0415 - slow
    from papermill.exceptions import PapermillExecutionError  # noqa: PLC0415
    from traitlets.config import Config  # noqa: PLC0415

    target.parent.mkdir(parents=True, exist_ok=True)
    # The notebook keeps its own output; progress belongs on this process's stderr.
    append_only(_STDERR)
    os.environ.setdefault("TSNREPRO_PROGRESS", f"/proc/{os.getpid()}/fd/{_STDERR}")
    # Unix sockets in a private folder instead of TCP ports, which any local user could reach.
    with temporary_folder(socket="kernel-5") as sockets:
        # The file with the kernel's key too: jupyter leaves it behind when interrupted.
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
            if error.ename == StoppedError.__name__:
                raise StoppedError(error.evalue) from error
            # All lines of it: the last one alone may be no more than "Name: trial".
            message = f"{error.ename}: {error.evalue}".strip()
            raise NotebookError(
                f"cell {error.cell_index} failed: {message}",
                str(source),
                f"Executed so far: {target}",
            ) from error
        except OSError as error:
            reason = error.strerror or str(error)
            raise NotebookError(
                f"the executed notebook cannot be written: {reason}",
                str(target),
                "Free space or grant write access, and run this again",
            ) from error
        except RuntimeError as error:
            raise NotebookError(f"the notebook's kernel failed: {error}", str(source)) from error


def analyse(folder: Path) -> None:
    """Execute the analysis of a run, seal its results, and write the executed notebook as a page.

    Parameters
    ----------
    folder
        The run's, named for its experiment, with ``run.json``.

    Raises
    ------
    ConfigurationError
        There is no such experiment.
    NotebookError
        A cell failed.
    RecordError
        A file of the record is missing.
    """
    from tsnrepro.config.files import analysed_experiment  # noqa: PLC0415
    from tsnrepro.records.integrity import write_seal  # noqa: PLC0415
    from tsnrepro.records.store import RUN_FILE  # noqa: PLC0415
    from tsnrepro.results.runs import origin_of  # noqa: PLC0415

    analysed = analysed_experiment(folder.name, folder.parent.name)
    # The executed notebook holds its path, which would name the user's folders in a deposit.
    notebook = Path(os.path.relpath(root() / analysed.analysing_notebook))
    execute(notebook, folder / _EXECUTED, {"run": str(folder / RUN_FILE)})
    write_seal(folder, analysed.analysis_digest())
    write_page(folder / _EXECUTED, folder / PAGE, origin_of(folder))


def write_page(notebook: Path, output: Path, banner: str) -> None:
    """Write an executed notebook as a self-contained HTML page, without its code.

    Parameters
    ----------
    notebook, output
        The executed notebook, and the page.
    banner
        Text at the head of the page: which testbed the numbers are from.
    """
    import html  # noqa: PLC0415

    from nbconvert import HTMLExporter  # noqa: PLC0415 - slow

    # The page has no scripts, so a browser need not fetch any.
    no_scripts = dict.fromkeys(("mathjax_url", "require_js_url", "jquery_url"), "")
    exporter = HTMLExporter(
        exclude_input=True, exclude_output_prompt=True, embed_images=True, **no_scripts
    )
    page, _ = exporter.from_filename(str(notebook))
    before, opening, after = page.partition("<main>")
    # Tables take the full width in the template, text less; fit both to a common window.
    style = "<style>main table.dataframe {font-size: 11px} main {max-width: 1100px}</style>"
    head = f'{style}<p style="padding: 8px 60px; background: #eee">{html.escape(banner)}</p>'
    output.write_text(f"{before}{head}{opening}{after}", encoding="utf-8")

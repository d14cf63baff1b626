"""Commands of a workflow, run in copies of one process that has imported what they need.

A campaign runs a hundred commands and the kernels of its notebooks, and each would import the same
libraries for several seconds. Here one server beside the workflow imports them once, when a command
needs them for the first time, and every command is a fork of it: nothing of one command is left for
the next. The server reads no configuration and no record. It ends with its workflow, and a command
ends with the process that asked for it.

Where there is no server, as in a terminal or on a node of a cluster, a command runs as it is.
"""

import ast
import atexit
import gc
import json
import os
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, NoReturn

NAME = "TSNREPRO_PRELOADED"
"""The environment variable that names a workflow's server."""

_COMMANDS = {
    "notebook": ("papermill", "ipykernel.kernelapp"),
    "page": ("nbconvert",),
}
# The parameter of a notebook that measures on the model.
_ON_MODEL = "testbed=model"
_KERNEL = "ipykernel_launcher"
# What the kernel would set before matplotlib is imported; else figures would not be shown.
_BACKEND = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
# What a shell adds to the signal that ended a command.
_BY_SIGNAL = 128
_INT = struct.Struct("!i")
_LENGTH = struct.Struct("!I")
_STANDARD = (0, 1, 2)
# A client that does not finish its request in this time is none of ours.
_REQUEST_SECONDS = 10
# What an interrupted command is given to end by itself.
_INTERRUPT_SECONDS = 3
# What commands are given to end with their workflow.
_LAST_SECONDS = 10
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


# --- the workflow's side --------------------------------------------------------------------------


def start_server(workflow: int) -> None:
    """Start a server that ends with a process, and name it to the commands that this one starts.

    Parameters
    ----------
    workflow
        The process.
    """
    argv = [sys.executable, "-m", "tsnrepro.workflow.command_server", str(workflow)]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as server:
        # Its name is all that it prints; it goes on in a process of its own.
        assert server.stdout is not None
        if name := server.stdout.readline().decode().strip():
            os.environ[NAME] = name


# --- the command's side ---------------------------------------------------------------------------


def run_preloaded(arguments: list[str]) -> int | None:
    """Run a command in a copy of the server, with this process's files, folder and environment.

    Signals are passed on to it, and it ends when this process does.

    Returns
    -------
    int or None
        Its exit status, as a shell tells it; None where there is no server, and nothing was run.
    """
    asked = _ask(arguments, dict(os.environ))
    if asked is None:
        return None
    kept = {number: signal.signal(number, asked.forward) for number in _FORWARDED}
    try:
        status = asked.wait()
        return status if status >= 0 else _BY_SIGNAL - status
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


class _Asked:
    """A command that runs in a copy of the server; to jupyter_client it is its kernel's process."""

    stdin = stdout = stderr = None

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self._connection, self.pid = connection, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, None while it runs."""
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._connection, selectors.EVENT_READ)
                if not selector.select(0):
                    return None
        return self.wait()

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status when it has ended; negative is the signal that ended it."""
        del timeout
        if self.returncode is not None:
            return self.returncode
        said = _received(self._connection, _INT.size)
        self._connection.close()
        # Without a word the server is gone, and with it what it started.
        self.returncode = ended = _INT.unpack(said)[0] if said else -signal.SIGKILL
        return ended

    def forward(self, number: int, _frame: Any = None) -> None:
        """Send it a signal, if it is still there."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    send_signal = forward

    def kill(self) -> None:
        """End it."""
        self.forward(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end."""
        self.forward(signal.SIGTERM)


def _ask(arguments: list[str], environment: dict[str, str]) -> _Asked | None:
    """Have the server run a command, where there is one."""
    name = os.environ.get(NAME)
    if not name:
        return None
    connection = socket.socket(socket.AF_UNIX)
    request = {"arguments": arguments, "environment": environment, "folder": os.getcwd()}
    content = json.dumps(request).encode()
    try:
        connection.connect(f"\0{name}")
        if _user_of(connection) != os.getuid():
            return None
        socket.send_fds(connection, [_LENGTH.pack(len(content))], _STANDARD)
        connection.sendall(content)
        said = _received(connection, _INT.size)
    except OSError:
        said = b""
    if not said:
        connection.close()
        return None
    return _Asked(connection, _INT.unpack(said)[0])


def _launch_kernel(cmd: list[str], **options: Any) -> Any:
    """Take the place of jupyter_client's function: the kernel is a copy of the server, too."""
    asked = None
    if cmd[1:3] == ["-m", _KERNEL]:
        asked = _ask([_KERNEL, *cmd[3:]], dict(options.get("env") or os.environ))
    if asked is not None:
        return asked
    from jupyter_client.launcher import launch_kernel  # noqa: PLC0415

    return launch_kernel(cmd, **options)


def _received(connection: socket.socket, size: int) -> bytes:
    """Return so many bytes, or none where the connection ends before."""
    content = b""
    while len(content) < size:
        piece = connection.recv(size - len(content))
        if not piece:
            return b""
        content += piece
    return content


def _user_of(connection: socket.socket) -> int:
    """Return the user at the other end (SO_PEERCRED of unix(7)): pid, uid, gid."""
    credentials = struct.Struct("3i")
    said = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size)
    return credentials.unpack(said)[1]


# --- the server -----------------------------------------------------------------------------------


class _Server:
    """Forks for every request until its workflow ends.

    Parameters
    ----------
    workflow
        A handle of the workflow's process (pidfd_open(2)).
    listening
        The socket at which commands ask.
    """

    def __init__(self, workflow: int, listening: socket.socket) -> None:
        self._listening = listening
        self._selector = selectors.DefaultSelector()
        self._selector.register(workflow, selectors.EVENT_READ, None)
        self._selector.register(listening, selectors.EVENT_READ, None)
        self._workflow = workflow

    def serve(self) -> "_Command | None":
        """Serve until the workflow ends; in a fork, return the command that it is to run."""
        while True:
            for key, _ in self._selector.select():
                if key.fd == self._workflow:
                    self._wait_for_commands()
                    return None
                if key.fileobj is not self._listening:
                    self._tell(key.fd, *key.data)
                elif command := self._take():
                    return command

    def _wait_for_commands(self) -> None:
        """Wait for commands that end with the workflow, and clear up after them."""
        self._selector.unregister(self._workflow)
        self._selector.unregister(self._listening)
        self._listening.close()
        end = time.monotonic() + _LAST_SECONDS
        while self._selector.get_map() and (left := end - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                self._tell(key.fd, *key.data)

    def _tell(self, handle: int, pid: int, connection: socket.socket) -> None:
        """Tell who asked for a command how it ended."""
        _, status = os.waitpid(pid, 0)
        self._selector.unregister(handle)
        os.close(handle)
        with suppress(OSError):
            connection.sendall(_INT.pack(os.waitstatus_to_exitcode(status)))
        connection.close()

    def _take(self) -> "_Command | None":
        """Take a request and fork; return the command in the fork, None in the server."""
        connection, _ = self._listening.accept()
        connection.settimeout(_REQUEST_SECONDS)
        try:
            command = _request(connection)
        except (OSError, ValueError, KeyError):
            connection.close()
            return None
        with self._ending_with_workflow():
            _preload(command.arguments)
        sys.stdout.flush()
        # No command has to look for garbage in what was imported: a tenth of a second each time.
        gc.freeze()
        pid = os.fork()
        if pid == 0:
            self._close_all()
            return command
        for handle in command.files:
            os.close(handle)
        handle = os.pidfd_open(pid)
        self._selector.register(handle, selectors.EVENT_READ, (pid, connection))
        return None

    @contextmanager
    def _ending_with_workflow(self) -> Iterator[None]:
        """End at once where the workflow ends during the block: imports take seconds.

        The thread is gone before anything is forked.
        """
        over, tell = os.pipe()

        def watch() -> None:
            ready, _, _ = select.select([self._workflow, over], [], [])
            if over not in ready:
                os._exit(1)

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            yield
        finally:
            os.write(tell, b".")
            watching.join()
            os.close(over)
            os.close(tell)

    def _close_all(self) -> None:
        """Close in a fork what is the server's."""
        for key in list(self._selector.get_map().values()):
            if key.data:
                os.close(key.fd)
                key.data[1].close()
        self._selector.close()
        self._listening.close()
        os.close(self._workflow)


class _Command:
    """A command to run, and the connection to who asked for it."""

    def __init__(self, connection: socket.socket, files: list[int], request: dict[str, Any]):
        self.arguments: list[str] = request["arguments"]
        self.files = files
        self._connection = connection
        self._environment: dict[str, str] = request["environment"]
        self._folder: str = request["folder"]

    def run(self) -> NoReturn:
        """Become this command, and leave with its exit status."""
        server = os.getppid()
        # A session of its own: a terminal's signals go to who asked, and come from there.
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for standard, handle in zip(_STANDARD, self.files, strict=True):
            os.dup2(handle, standard)
            os.close(handle)
        os.environ.clear()
        os.environ.update(self._environment)
        os.chdir(self._folder)
        kernel = self.arguments[0] == _KERNEL
        sys.argv = self.arguments if kernel else ["tsnrepro", *self.arguments]
        self._connection.settimeout(None)
        self._connection.sendall(_INT.pack(os.getpid()))
        threading.Thread(target=self._end_with_asker, args=(kernel,), daemon=True).start()
        if kernel:
            os.environ["JPY_PARENT_PID"] = str(server)
            if "matplotlib.pyplot" in sys.modules:
                # It looked for a kernel to show figures in when it was imported.
                sys.argv.append("--matplotlib=inline")
            from ipykernel import kernelapp  # noqa: PLC0415

            _leave_by(kernelapp.launch_new_instance)
        from tsnrepro.cli import run_command  # noqa: PLC0415

        _leave_by(run_command)

    def _end_with_asker(self, kernel: bool) -> None:
        with suppress(OSError):
            self._connection.recv(1)
        if not kernel:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(_INTERRUPT_SECONDS)
        os._exit(1)


def _leave_by(main: Callable[[], Any]) -> NoReturn:
    """Run a program and end as it would, but without taking apart what ends with the process.

    A copy shares all that the server imported: to free an object is to copy its page first, which
    took up to two seconds a command.
    """
    try:
        status = main()
    except SystemExit as ended:
        status = ended.code
    if isinstance(status, str):
        print(status, file=sys.stderr)
        status = 1
    # What an interpreter does before it takes its modules apart.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status or 0)


def _request(connection: socket.socket) -> _Command:
    """Read what is to be run.

    Raises
    ------
    OSError
        It does not come, or comes from another user.
    ValueError, KeyError
        It is none.
    """
    if _user_of(connection) != os.getuid():
        raise PermissionError("another user's request")
    length, files, _, _ = socket.recv_fds(connection, _LENGTH.size, len(_STANDARD))
    if len(length) != _LENGTH.size or len(files) != len(_STANDARD):
        raise ValueError("not a request")
    content = _received(connection, _LENGTH.unpack(length)[0])
    return _Command(connection, list(files), json.loads(content))


def _preload(arguments: list[str]) -> None:
    """Import what a command will need; what cannot be imported is the command's to say."""
    wanted = [*_COMMANDS.get(arguments[0], ())]
    if not wanted:
        return
    from tsnrepro.workflow.notebooks import leave_out_iri_grammar  # noqa: PLC0415

    leave_out_iri_grammar()
    if arguments[0] == "notebook":
        wanted += _imports_of(arguments[1])
    for name in wanted:
        with suppress(Exception):
            import_module(name)
    if _ON_MODEL in arguments:
        with suppress(Exception):
            from tsnrepro.model.engine import warm_up  # noqa: PLC0415

            warm_up()  # the compiled model is read once, and not by each of a dozen commands
    if provisioner := sys.modules.get("jupyter_client.provisioning.local_provisioner"):
        provisioner.__dict__["launch_kernel"] = _launch_kernel


def _imports_of(notebook: str) -> list[str]:
    """Return the modules that a notebook's cells import."""
    found = []
    with suppress(OSError, ValueError, KeyError, SyntaxError), open(notebook, "rb") as file:
        for cell in json.load(file)["cells"]:
            code = "".join(cell["source"]) if cell["cell_type"] == "code" else ""
            for node in ast.walk(ast.parse(code)):
                if isinstance(node, ast.Import):
                    found += [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    # A name may be a module below the one it is imported from.
                    found += [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
    return found


def _daemon(workflow: int) -> "_Command | None":
    """Serve as a process that nobody waits for; return what a fork is to run."""
    # A session of its own: a terminal's signals are the workflow's, and the server ends after it.
    os.setsid()
    handle = os.pidfd_open(workflow)
    listening = socket.socket(socket.AF_UNIX)
    # No file, so that nothing is left of it: the kernel picks a name (unix(7), autobind).
    listening.bind("")
    listening.listen()
    if os.fork():
        print(listening.getsockname()[1:].decode(), flush=True)
        os._exit(0)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    os.environ.update(_BACKEND)
    return _Server(handle, listening).serve()


if __name__ == "__main__":
    if command := _daemon(int(sys.argv[1])):
        command.run()

"""What tests of several rooms share: one emulated testbed, and sockets inside its hosts."""

import os
import shutil
import socket
import time

import hypothesis
import pytest
from browser_tabs import browser, tab  # noqa: F401 - fixtures
from machine_stalls import MachineStalls
from network_namespaces import in_network_of
from outside_files import missing_files
from short_campaign import measure_short_campaign

from tsnrepro.common.errors import TestbedError
from tsnrepro.common.repository import root
from tsnrepro.config import EmulatedSettings
from tsnrepro.testbeds.emulated import testbed as emulated
from tsnrepro.testbeds.hosts.lease import TestbedLock

LOCK_PATIENCE_SECONDS = 120
ETH_P_ALL = 0x0003
PACKET_OUTGOING = 4
SO_RCVBUFFORCE = 33
RAW_BUFFER_BYTES = 32 * 1024 * 1024


# --- property tests ------------------------------------------------------------------------

# Whoever runs the tests to see whether all is well gets the same examples each time; who looks for
# what is wrong asks for others. Parsers' tests set no number of examples, so that "many-examples"
# gives each of them ten thousand. Processors are shared, so no example has a deadline.
hypothesis.settings.register_profile("same-examples", derandomize=True, deadline=None)
hypothesis.settings.register_profile("new-examples", derandomize=False, deadline=None)
hypothesis.settings.register_profile(
    "many-examples",
    hypothesis.settings.get_profile("new-examples"),
    max_examples=10_000,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("same-examples")


# --- long runs -----------------------------------------------------------------------------

# Files are handed out in this order: of those that take longest none is the last, which would leave
# the other workers without work.
LONGEST_FIRST = (
    *("test_documentation_site.py", "test_hostile_configuration.py", "test_coverage.py"),
    *("test_new_files.py", "test_guest.py", "test_tutorials.py"),
    *("test_memory_of_runs.py", "test_study_workflow.py", "test_slurm.py", "test_full_disk.py"),
    *("test_site_and_deposit.py", "test_widgets_in_browser.py", "test_clock_set_back.py"),
    *("test_frer_udp_manuscript.py", "test_software_bridge_manuscript.py"),
    *("test_tas_evaluation_manuscript.py", "test_frer_fail_operational_manuscript.py"),
    *("test_rfc2544_methodology_manuscript.py", "test_html.py", "test_frozen.py"),
    *("test_hostile_records.py", "test_optional_columns.py"),
)


# --- tests that go by time -----------------------------------------------------------------

GO_BY_TIME = ("namespaces", "timed")
STALLS = MachineStalls()


def goes_by_time(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in GO_BY_TIME)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONGEST_FIRST)
    again = pytest.mark.flaky(reruns=2, condition=STALLS.total_ms)
    for item in filter(goes_by_time, items):
        item.add_marker(again)


class FailuresAtOnce:
    """Shows why a test failed when it does: whoever waits for the last one may wait an hour."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._terminal.ensure_newline()
            self._terminal.write_line(f"{report.nodeid} failed in its {report.when}:")
            self._terminal.write_line(report.longreprtext)
        elif report.outcome == "rerun":
            self._terminal.ensure_newline()
            stall = f"the machine stood still for {STALLS.total_ms():.0f} ms"
            self._terminal.write_line(f"{report.nodeid} runs again, since {stall}:")
            self._terminal.write_line(report.longreprtext)


@pytest.hookimpl(trylast=True)  # after the terminal itself
def pytest_configure(config: pytest.Config) -> None:
    # Of several processes of tests the first one alone has a terminal.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(
            FailuresAtOnce(config.pluginmanager.get_plugin("terminalreporter"))
        )


# --- tests that need files outside a clone ---------------------------------------------------

# A category of its own: -r lists the tests of others one by one.
FILES_MISSING = "skipped for missing files"


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    return (FILES_MISSING, "s", "SKIPPED") if missing_files(report) else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = terminalreporter.stats.get(FILES_MISSING, [])
    if reports:
        missing = "; ".join(sorted({missing_files(report) for report in reports}))
        terminalreporter.write_line(
            f"{len(reports)} tests skipped, because files outside the clone are missing: {missing}"
        )


# --- tests that need namespaces ------------------------------------------------------------


def _namespaces_required() -> bool:
    return os.environ.get("CI") == "true" or os.environ.get("TSNREPRO_REQUIRE_NAMESPACES") == "1"


def _require_namespaces(session: pytest.Session) -> None:
    """Skip a test where this machine cannot run it; fail where it is expected to."""
    if not hasattr(session, "lacks_for_namespaces"):
        session.lacks_for_namespaces = emulated.missing_requirements()
    if lacks := session.lacks_for_namespaces:
        sentence = f"this machine lacks {', '.join(lacks)} for the emulated testbed"
        if _namespaces_required():
            pytest.fail(sentence, pytrace=False)
        pytest.skip(sentence)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if goes_by_time(item):
        STALLS.begin()
    shared = SHARED
    uses_shared = "testbed" in item.fixturenames or "bring_up" in item.fixturenames
    if not uses_shared and item.path != shared.last_user:
        shared.release()  # others, the whole way among them, need the machine's one testbed
    if item.get_closest_marker("namespaces"):
        _require_namespaces(item.session)
        if uses_shared:
            shared.last_user = item.path


def pytest_sessionfinish() -> None:
    SHARED.release()
    STALLS.end()


# --- the shared testbed ---------------------------------------------------------------------


def patiently(enter):
    """Call ``enter`` until no other campaign holds the testbed's lock, for two minutes."""
    end = time.monotonic() + LOCK_PATIENCE_SECONDS
    while True:
        try:
            return enter()
        except TestbedError as error:
            if "in use" not in error.what or time.monotonic() > end:
                raise
            time.sleep(0.3)


class SharedTestbed:
    """The emulated testbed, kept up from test to test while its settings stay the same."""

    def __init__(self) -> None:
        self._up: emulated.EmulatedTestbed | None = None
        self.last_user = None

    def get(self, settings: EmulatedSettings) -> emulated.EmulatedTestbed:
        if self._up is None or self._up.settings != settings:
            self.release()
            self._up = patiently(
                lambda: emulated.EmulatedTestbed(settings, "the test suite").__enter__()
            )
        return self._up

    def release(self) -> None:
        if self._up is not None:
            testbed, self._up = self._up, None
            testbed.__exit__(None, None, None)


SHARED = SharedTestbed()


@pytest.fixture(scope="module")
def alone():
    """Hold the machine's lock, so that every trace of a testbed is one of the test's own.

    Programs that the test starts with a temporary folder of their own have a lock of their own.
    """
    lock = TestbedLock("emulated", "the test suite, alone on this machine")
    patiently(lock.__enter__)
    yield
    lock.__exit__(None, None, None)


@pytest.fixture(scope="module")
def bring_up():
    """Return the function that gives the testbed with the settings asked for."""
    return lambda **changes: SHARED.get(EmulatedSettings(**changes))


@pytest.fixture(scope="module")
def testbed(bring_up):
    """Return the emulated testbed with its default settings."""
    return bring_up()


# --- sockets inside a host --------------------------------------------------------------------


def inside(testbed: emulated.EmulatedTestbed, host: str, make):
    """Return what ``make`` returns when a host's network namespace surrounds it."""
    return in_network_of(testbed._spaces[host].pid, make)


class Sockets:
    """Sockets in the hosts of a testbed, closed together."""

    def __init__(self) -> None:
        self._open: list[socket.socket] = []

    def _keep(self, opened: socket.socket) -> socket.socket:
        self._open.append(opened)
        return opened

    def raw(self, testbed, host: str, device: str) -> socket.socket:
        """Return a socket that sends and receives whole frames on one device."""

        def make() -> socket.socket:
            opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RAW_BUFFER_BYTES)
            opened.bind((device, ETH_P_ALL))
            return opened

        return self._keep(inside(testbed, host, make))

    def udp(self, testbed, host: str, port: int = 0, receive_bytes: int = 0) -> socket.socket:
        """Return a UDP socket on the host's address; ``receive_bytes`` sets its buffer's size."""

        def make() -> socket.socket:
            opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            if receive_bytes:
                opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, receive_bytes)
            opened.bind((testbed.address(host), port))
            return opened

        return self._keep(inside(testbed, host, make))

    def close(self) -> None:
        for opened in self._open:
            opened.close()
        self._open.clear()


def arrived(raw: socket.socket) -> list[bytes]:
    """Return the frames that a raw socket has received since it was last asked."""
    frames = []
    while True:
        try:
            frame, sender = raw.recvfrom(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return frames
        if sender[2] != PACKET_OUTGOING:
            frames.append(frame)


@pytest.fixture
def sockets():
    """Return the maker of sockets inside hosts; they are closed after the test."""
    made = Sockets()
    yield made
    made.close()


@pytest.fixture(scope="module")
def module_sockets():
    """Return the maker of sockets inside hosts; they are closed after the module's last test."""
    made = Sockets()
    yield made
    made.close()


@pytest.fixture(scope="session")
def frames_arrived():
    """Return the function that reads what a raw socket has received."""
    return arrived


# --- a short campaign on the model ----------------------------------------------------------------


@pytest.fixture(scope="session")
def short_repository(tmp_path_factory):
    """Return a repository with the campaign ``short``, measured and analysed on the model."""
    return measure_short_campaign(tmp_path_factory.mktemp("short-campaign"))


@pytest.fixture(scope="session")
def notebooks_repository(short_repository, tmp_path_factory):
    """Return a repository with the package, the notebooks and what was measured."""
    folder = tmp_path_factory.mktemp("people") / "repository"
    shutil.copytree(short_repository, folder)
    shutil.copytree(root() / "src", folder / "src")
    shutil.copy(root() / "Snakefile", folder)
    return folder

"""Connections to the hosts of a rack: by agent or key file, through a jump host, keys verified."""

from contextlib import ExitStack
from pathlib import Path

from tsnrepro.common.errors import TestbedError
from tsnrepro.config.nic_pair import NicPairSettings
from tsnrepro.config.rack import Access, RackSettings
from tsnrepro.testbeds.ssh import SshHost

JUMP = "jump host"


def connect(
    settings: RackSettings | NicPairSettings, roles: tuple[str, ...], stack: ExitStack
) -> dict:
    """Return a connection to each host, by its role; ``stack`` closes them.

    Raises
    ------
    TestbedError
        A host cannot be reached, shows a key that is not in ``known_hosts``, or refuses the login.
    """
    jump = None
    if settings.jump_host:
        jump = _connect(settings, JUMP, settings.jump_host, None)
        stack.callback(jump.close)
    connected = {}
    for role in roles:
        connected[role] = _connect(settings, role, getattr(settings.hosts, role), jump)
        stack.callback(connected[role].close)
    return connected


def _connect(
    settings: RackSettings | NicPairSettings, role: str, access: Access, through: SshHost | None
) -> SshHost:
    known = Path(settings.known_hosts).expanduser()
    if not known.is_file():
        raise TestbedError(
            "there is no file of known host keys",
            str(known),
            f"Log in to {role} once by hand and compare its key, or name another `known_hosts`",
        )
    key = Path(access.key_file).expanduser() if access.key_file else None
    if key and not key.is_file():
        raise TestbedError(
            "there is no such key", f"{key}, of {role}", "Without key_file the SSH agent is asked"
        )
    place = (access.address, access.port)
    sock = through.open_tunnel(place) if through else None
    return SshHost(role, known, access.user, key, sock=sock, address=place)

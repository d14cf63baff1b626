"""Names of a testbed's hosts and ports: a talker, two switches and a listener.

talker eth0 --- p0 sw1 m0 === m0 sw2 p0 --- eth0 listener
m1 === m1            (one pair per member path)
"""

TALKER, LISTENER = "talker", "listener"
SWITCHES = ("sw1", "sw2")
HOSTS = (TALKER, *SWITCHES, LISTENER)
HOST_PORT, CARD = "p0", "eth0"


def member_names(paths: int) -> list[str]:
    """Return the names of the member links, and of both switches' ports to them."""
    return [f"m{path}" for path in range(paths)]

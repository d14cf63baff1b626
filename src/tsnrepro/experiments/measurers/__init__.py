"""How a trial is measured on a kind of testbed: by tools on hosts, or by the model.

Every module here offers the same functions, which fill the same values.
"""

from collections.abc import Callable
from typing import Any, Protocol

from tsnrepro.experiments.measurers.paced import PacedRun
from tsnrepro.experiments.measurers.round_trips import RoundTrips
from tsnrepro.experiments.run import Measurement
from tsnrepro.records.store import Trial

Measure = Callable[[Any, Trial, Measurement], None]


class Measurer(Protocol):
    """What every kind of testbed can measure.

    ``udp_bursts`` sends as iperf3 does (factors ``payload_bytes``, ``rate_mbps``), ``tcp_bulk`` as
    fast as it goes, ``ping_pong`` one request at a time (``payload_bytes``), and
    ``sleeping_generator`` frames with a sleep after each (``frame_bytes``, ``load_percent``,
    ``deadline_s``); each under ``configuration`` for ``duration_s``. ``paced`` runs our own talker
    and listener once and returns what came of it, ``several`` many talkers at once;
    ``round_trips`` is the ping-pong beside a constant-rate load.
    """

    udp_bursts: Measure
    tcp_bulk: Measure
    ping_pong: Measure
    sleeping_generator: Measure
    paced: Callable[..., PacedRun]
    round_trips: Callable[..., RoundTrips]
    several: Callable[[Any, Trial, Measurement], list[dict[str, Any]]]


def measurer(testbed: Any) -> Measurer:
    """Return what measures on a testbed of this kind."""
    if testbed.kind == "model":
        from tsnrepro.experiments.measurers import model  # noqa: PLC0415 - compiled code

        return model
    from tsnrepro.experiments.measurers import tools  # noqa: PLC0415

    return tools

"""The names of the facts that a record tells of its testbed, whatever its kind.

Each is a result of the key ``testbed.<name>``; what a kind of testbed does not tell has no value,
and what it could tell and does not is ``unknown``.
"""

UNKNOWN = "unknown"

_OF_EVERY_KIND = (
    *("kind", "label", "verb", "campaign", "environment", "commit"),
    *("kernel", "processor", "processors", "memory"),
)
_OF_HOSTS = (
    *("iperf3", "sockperf", "queue_bytes", "link_rate_mbps", "paths", "history_length", "reset_ms"),
    *("receive_buffer_bytes", "acceleration", "iproute2", "qemu"),
    *("mausezahn", "dumpcap", "python", "talker_address", "listener_address", "host_ports"),
    *("member_ports", "drivers", "elimination"),
)
OF_IMPORTS = ("description", "imported_from", "imported_by", "switches", "measured")
"""What only an imported data set has to tell.

A manuscript that can print both kinds names them, so they are there, without a value, on a testbed
of our own too."""
OF_MODEL = {
    "switch_us": (("switch_us",), "us"),
    "send_us": (("talker", "send_us"), "us"),
    "receive_us": (("listener", "receive_us"), "us"),
    "stack_us": (("listener", "stack_us"), "us"),
    "stall_interval_s": (("stalls", "interval_s"), "s"),
    "stall_length_ms": (("stalls", "length_ms"), "ms"),
}
"""Parameters of the model, some known to a range: where they stand in its settings, their units."""

FACTS = frozenset(
    f"testbed.{name}"
    for name in (
        *(*_OF_EVERY_KIND, *_OF_HOSTS, *OF_IMPORTS, "model_sources"),
        *(f"model.{name}" for name in OF_MODEL),
    )
)

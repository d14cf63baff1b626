"""``tsnrepro build`` and ``tsnrepro schemas``: what set-up generates."""

import argparse
from typing import Any

from tsnrepro.cli.arguments import add_command


def add_commands(commands: Any) -> None:
    """Add them to the command line."""
    add_command(
        commands,
        "build",
        _build,
        "compile the data plane, the traffic generators and the model",
        "tsnrepro build",
    )
    add_command(
        commands,
        "schemas",
        _schemas,
        "write the JSON Schemas of the configuration files, for editors",
        "tsnrepro schemas",
    )


def _build(_: argparse.Namespace) -> None:
    from tsnrepro.native.bridge.build import bridge, replay, tagger  # noqa: PLC0415
    from tsnrepro.native.frer.build import frerctl  # noqa: PLC0415
    from tsnrepro.native.sockperf.build import sockperf_wait  # noqa: PLC0415
    from tsnrepro.native.streams.build import programs  # noqa: PLC0415

    print(f"frerctl: {frerctl()}")
    made = programs()
    print(f"talker: {made.talker}\nlistener: {made.listener}\nstallmeter: {made.stallmeter}")
    print(f"short wait of sockperf: {sockperf_wait()}")
    print(f"bridge: {bridge()}\nreplay: {replay()}\ntagger: {tagger()}")
    print("model: compiling, half a minute the first time", flush=True)
    from tsnrepro.model.engine import warm_up  # noqa: PLC0415 - numba takes a second

    warm_up()


def _schemas(_: argparse.Namespace) -> None:
    from tsnrepro.cli.schemas import write_schemas  # noqa: PLC0415

    write_schemas()

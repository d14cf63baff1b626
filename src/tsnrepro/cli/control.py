"""``tsnrepro watch``, ``stop``, ``skip``, ``again`` and ``more``: see and change a campaign."""

import argparse
import sys
from pathlib import Path
from typing import Any

from tsnrepro.cli.arguments import add_command, add_name


def add_commands(commands: Any) -> None:
    """Add them to the command line."""
    watch = add_command(
        commands,
        "watch",
        _watch,
        "show a running campaign: recorded trials, time left, warnings",
        "tsnrepro watch                       # from a second terminal; Ctrl-C ends it",
        "tsnrepro watch --experiment loss --every 10",
        "tsnrepro watch --page watch.html     # a page that refreshes itself",
    )
    for name in ("testbed", "campaign", "experiment"):
        add_name(watch, f"--{name}", help=f"show this {name}, even if another is being measured")
    watch.add_argument(
        "--every", type=_seconds, default=2.0, metavar="SECONDS", help="refresh interval (2)"
    )
    watch.add_argument("--page", type=Path, metavar="FILE", help="also write it as an HTML page")
    stop = add_command(
        commands,
        "stop",
        _stop,
        "stop the running campaign after its current trial; the next run resumes",
        "tsnrepro stop                        # all campaigns of this folder",
        "tsnrepro stop --campaign quick --testbed model",
    )
    for name in ("campaign", "testbed"):
        add_name(stop, f"--{name}", help=f"only if this {name} is being measured")

    skip = add_command(
        commands,
        "skip",
        _skip,
        "end the current trial or experiment, and record it as skipped",
        "tsnrepro skip trial --because 'the cable was loose'",
        "tsnrepro skip experiment --experiment rfc2544 --because 'not needed here'",
    )
    skip.add_argument("what", choices=["trial", "experiment"], help="what to end")
    _add_because(skip)
    for name in ("testbed", "campaign", "experiment"):
        add_name(skip, f"--{name}", help=f"the {name}, if several are being measured")

    again = add_command(
        commands,
        "again",
        _again,
        "withdraw a trial from the record, so that the next run repeats it",
        "tsnrepro again frer-1472B-900M-r1-78d4 --because 'the cable was loose'",
    )
    add_name(again, "trial", help="name of the trial, a unique part of it, or its folder")
    _add_because(again)

    more = add_command(
        commands,
        "more",
        _more,
        "add repetitions of all trials of an experiment to a campaign",
        "tsnrepro more latency --blocks 2",
    )
    add_name(more, "experiment", help="as in `tsnrepro experiments`")
    more.add_argument(
        "--blocks", type=_count, required=True, metavar="N", help="number of repetitions"
    )
    add_name(more, "--campaign", help="the campaign (default: that of config/config.yaml)")


def _add_because(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--because", required=True, metavar="REASON", help="the reason, which is recorded"
    )


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _seconds(text: str) -> float:
    seconds = float(text)
    if not seconds > 0:
        raise argparse.ArgumentTypeError("must be above 0")
    return seconds


def _watch(arguments: argparse.Namespace) -> None:
    from tsnrepro.explore.watch import watch  # noqa: PLC0415

    names = (arguments.testbed, arguments.campaign, arguments.experiment)
    try:
        watch(sys.stdout, names, every_s=arguments.every, page=arguments.page)
    except KeyboardInterrupt:
        print()


def _stop(arguments: argparse.Namespace) -> None:
    from tsnrepro.workflow.steering import stop  # noqa: PLC0415

    for line in stop(arguments.campaign, arguments.testbed):
        print(line)


def _skip(arguments: argparse.Namespace) -> None:
    from tsnrepro.workflow.steering import skip  # noqa: PLC0415

    names = (arguments.testbed, arguments.campaign, arguments.experiment)
    print(skip(arguments.what, arguments.because, names))


def _again(arguments: argparse.Namespace) -> None:
    from tsnrepro.explore.show import find_trial  # noqa: PLC0415
    from tsnrepro.workflow.steering import again  # noqa: PLC0415

    print(again(*find_trial(arguments.trial), arguments.because))


def _more(arguments: argparse.Namespace) -> None:
    from tsnrepro.workflow.steering import more  # noqa: PLC0415

    print(more(arguments.experiment, arguments.blocks, arguments.campaign))

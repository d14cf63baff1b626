"""``tsnrepro plan``: what a campaign measures, takes and finds, before it is measured."""

import argparse
from typing import Any

from tsnrepro.cli.arguments import add_command, add_name
from tsnrepro.common.errors import ConfigurationError


def add_commands(commands: Any) -> None:
    """Add it to the command line."""
    plan = add_command(
        commands,
        "plan",
        _plan,
        "show what a campaign will measure, how long it takes and what it can detect",
        "tsnrepro plan                # what snakemake without arguments measures",
        "tsnrepro plan --campaign documents --testbed emulated",
        "tsnrepro plan --detect 5%    # repetitions, by the scatter of the last record",
        "tsnrepro plan --detect 5% --testbed emulated --experiment latency",
    )
    plan.add_argument(
        "--detect",
        metavar="PERCENT",
        help="list the repetitions that detect a change of so much, such as 5%%",
    )
    for name in ("campaign", "testbed"):
        add_name(plan, f"--{name}", help=f"the {name} (default: that of config/config.yaml)")
    add_name(plan, "--experiment", help="with --detect: only this experiment")


def _plan(arguments: argparse.Namespace) -> None:
    if arguments.detect:
        if arguments.campaign:
            raise ConfigurationError("--detect takes no --campaign", "", "Leave one of them out")
        _detect(arguments)
        return
    if arguments.experiment:
        raise ConfigurationError("--experiment needs --detect", "", "Add --detect 5%")
    from tsnrepro.workflow.forecast import as_text, forecasts  # noqa: PLC0415

    print(as_text(forecasts(arguments.campaign, arguments.testbed)))


def _detect(arguments: argparse.Namespace) -> None:
    from tsnrepro.stats.power import MIN_PAIRS  # noqa: PLC0415
    from tsnrepro.workflow.detect import expected, parse_percent  # noqa: PLC0415

    percent = parse_percent(arguments.detect)
    found = list(expected(percent, arguments.testbed, arguments.experiment))
    print(f"Repetitions that find a change of {percent:g} % in 80 % of campaigns, each alone:")
    for each in found:
        print(f"\n{each.experiment}, by the scatter on testbed {each.testbed}, {each.campaign}")
        print(f"  {'comparison':58} {'scatter':>9} {'on record':>9} {'needed':>8}")
        for one in each.needed:
            needed = f"{one.repetitions or '100,000'}{'+' if one.at_least else ''}"
            scatter = f"{one.scatter_percent:.2f} %"
            print(f"  {one.comparison:58} {scatter:>9} {one.observed:9} {needed:>8}")
    if any(one.at_least for each in found for one in each.needed):
        print(f"\n+ at least: fewer than {MIN_PAIRS} repetitions on record show no tail")

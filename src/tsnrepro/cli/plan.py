"""``tsnrepro plan``: what a campaign finds, before it is measured."""

import argparse
from typing import Any

from tsnrepro.cli.arguments import add_command, add_name


def add_commands(commands: Any) -> None:
    """Add it to the command line."""
    plan = add_command(
        commands,
        "plan",
        _plan,
        "say how many repetitions find an effect, from the scatter of the last record",
        "tsnrepro plan --detect 5%",
        "tsnrepro plan --detect 5% --testbed emulated --experiment latency",
    )
    plan.add_argument(
        "--detect", required=True, metavar="PERCENT", help="change to find, such as 5%%"
    )
    for name in ("testbed", "experiment"):
        add_name(plan, f"--{name}", help=f"of this {name}")


def _plan(arguments: argparse.Namespace) -> None:
    from tsnrepro.workflow.detect import expected, parse_percent  # noqa: PLC0415

    percent = parse_percent(arguments.detect)
    found = list(expected(percent, arguments.testbed, arguments.experiment))
    print(f"Repetitions that find a change of {percent:g} % in 80 % of campaigns, each alone:")
    for each in found:
        print(f"\n{each.experiment}, by the scatter on testbed {each.testbed}, {each.campaign}")
        print(f"  {'comparison':58} {'scatter':>9} {'on record':>9} {'needed':>8}")
        for one in each.needed:
            needed = "100,000+" if one.repetitions is None else f"{one.repetitions}"
            scatter = f"{one.scatter_percent:.2f} %"
            print(f"  {one.comparison:58} {scatter:>9} {one.observed:9} {needed:>8}")

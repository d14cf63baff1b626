"""A part with one mode and one load as the factors of a trial, and back; and its medium."""

from typing import Any

from tsnrepro.experiments.shaping.settings import Mode, ShapingPart

CARDS_MEDIUM = "network cards"
"""The medium of trials between two cards that a cable joins; others name their testbed."""
BOARD_MEDIUM = "LAN966x between network cards"
"""The medium of trials in which a port of a board shapes."""


def factors_of(part: ShapingPart, mode: Mode, load_mbps: float) -> dict[str, Any]:
    """Return a trial's factors: the part with one mode and one load, without the testbeds."""
    aside = {"modes", "loads_mbps", "testbeds", "name", "max_stalled_percent", "max_stall_ms"}
    aside |= {"repetitions", "repetitions_of"}
    common = part.model_dump(mode="json", exclude=aside)
    # Trials from before there was another switch have none among their factors.
    if part.switch == "kernel":
        del common["switch"]
    if part.toggles is None:
        del common["toggles"]
    # Nor how the bridge's threads divide the work, which one did before.
    for name, usual in (("threads", 1), ("receivers", "one")):
        if common[name] == usual:
            del common[name]
    return {"part": part.name, "mode": mode, "load_mbps": load_mbps} | common


def part_of(factors: dict[str, Any]) -> ShapingPart:
    """Return the part of a trial's factors, with the trial's mode and load only."""
    settled = ("part", "mode", "load_mbps")
    common = {key: value for key, value in factors.items() if key not in settled}
    return ShapingPart(
        name=factors["part"], modes=[factors["mode"]], loads_mbps=[factors["load_mbps"]], **common
    )

"""Settings of the experiment ``tag_capture``."""

from typing import Annotated

from pydantic import Field

from tsnrepro.settings.strict import (
    Configuration,
    PositiveFloat,
    PositiveInt,
    Strict,
    UdpPayload,
)


class TagCapturePart(Strict):
    """Loads to capture at one payload."""

    payload_bytes: UdpPayload
    rates_mbps: Annotated[list[PositiveFloat], Field(min_length=1)]
    duration_s: PositiveInt


class TagCaptureSettings(Strict):
    """Captures at the member ports and at the listener, while ``iperf3 -u`` sends."""

    configurations: list[Configuration] = ["control", "frer"]
    repetitions: PositiveInt
    parts: Annotated[list[TagCapturePart], Field(min_length=1)]

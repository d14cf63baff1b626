"""What may be set about the guest testbed."""

from typing import Annotated, Literal

from pydantic import Field

from tsnrepro.settings.strict import Strict


class GuestSettings(Strict):
    """The testbed inside a qemu guest of this machine."""

    kind: Literal["guest"] = "guest"
    acceleration: Literal["auto", "kvm", "tcg"] = "auto"
    """``kvm`` runs in real time; ``tcg`` in virtual time, one nanosecond an instruction;
    ``auto`` takes KVM where a trial boot under it ends."""
    kernel_package: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.+-]*$")] | None = None
    """Package (or metapackage) of the guest's kernel; by default the distribution's smallest."""
    epoch: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}$")] = (
        "2026-01-01T00:00:00"
    )
    """The guest's UTC clock at its boot, where time is virtual."""

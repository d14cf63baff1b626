"""Mapping files: where a foreign data set keeps what our tables hold, and in which units.

A mapping is YAML. Each of its tables names files by pattern, the place of the rows in them, and the
experiment that the rows are trials of; each field of that experiment is a column, a part of the
file's name, or a constant. Nothing is guessed: a field that is not named is missing, a column of
rates or times without a unit is an error, and so is a key that is not known.
"""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import Field as Key
from pydantic import model_validator

from tsnrepro.errors import ConfigurationError
from tsnrepro.records.foreign import units
from tsnrepro.records.foreign.fields import NEEDED, field_of, names_of
from tsnrepro.repository import root
from tsnrepro.settings import Strict, parse

Scalar = str | int | float | bool
Quantity = Literal["half round trip", "round trip", "one way"]
Format = Literal["json", "csv", "iperf3", "sockperf", "times", "mausezahn"]
TOOL_EXPERIMENTS = {
    "iperf3": ("sweep", "tcp"),
    "sockperf": ("latency",),
    "times": ("latency",),
    "mausezahn": ("sweep",),
}
# What data sets write where they have nothing.
NOTHING = ("", "NA", "N/A", "n/a", "nan", "NaN", "null", "None", "-")


class FieldSource(Strict):
    """Where the value of one field stands: exactly one of column, from_name and constant.

    A plain value instead of these keys is a constant in the unit of our column.
    """

    column: str | None = None
    """Column of a table, or path of keys in a JSON record, separated by dots."""
    from_name: str | None = None
    """Group of the table's ``name_pattern``."""
    constant: Scalar | None = None
    unit: str | None = None
    layer: Literal["payload", "frame", "wire"] = "payload"
    """What a rate counts: UDP payload, frames with FCS, or all that takes time on the wire."""
    values: dict[str, str | int | float] = Key(default_factory=dict)
    """Our word or number for each of theirs."""
    missing: list[Scalar] = Key(default_factory=list)
    """What stands for nothing, besides empty cells, NA, nan and null."""
    timezone: str | None = None
    """Of times of day that say none, such as ``UTC`` or ``Asia/Seoul``."""

    @model_validator(mode="before")
    @classmethod
    def _plain_is_constant(cls, value: Any) -> Any:
        return value if isinstance(value, dict | cls) else {"constant": value}

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = [k for k in ("column", "from_name", "constant") if getattr(self, k) is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of column, from_name and constant")
        return self


class Rows(Strict):
    """Rows that are chosen by the values of some columns, and the reason."""

    where: Annotated[dict[str, Scalar], Key(min_length=1)]
    reason: str


class NoMeasurements(Strict):
    """Files that the author of the mapping knows to hold no measurement of their own."""

    files: Annotated[list[str], Key(min_length=1)]
    reason: str


class Times(Strict):
    """Columns of a CSV file of send and receive times, by name, or by number from 0."""

    sent: str | int
    received: str | int
    unit: str
    """Of both columns: ``ns``, ``us``, ``ms`` or ``s``."""
    delimiter: Annotated[str, Key(min_length=1, max_length=1)] = ","
    missing: list[str] = Key(default_factory=list)
    """What stands in ``received`` for a packet that never came, besides nothing."""

    @property
    def named(self) -> bool:
        """Whether the columns go by the names in a first line."""
        return isinstance(self.sent, str)

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if isinstance(self.sent, str) is not isinstance(self.received, str):
            raise ValueError("name both columns or number both")
        _known_unit("time", self.unit)
        return self


class Observations(Strict):
    """A file beside a row that holds every observation its statistics come from."""

    file: str
    """Path below the data set's folder, with ``{column}`` or ``{group}`` where it varies."""
    format: Literal["sockperf", "times"]
    times: Times | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.format == "times") is (self.times is None):
            raise ValueError("the key times belongs to the format times")
        return self


class Csv(Strict):
    """How a CSV file is written."""

    delimiter: Annotated[str, Key(min_length=1, max_length=1)] = ","
    columns: list[str] = Key(default_factory=list)
    """Names of the columns where the file has no line of names."""
    comment: str = "#"
    encoding: str = "utf-8"


class Table(Strict):
    """Files of one kind and how their rows become trials of one experiment."""

    files: Annotated[list[str], Key(min_length=1)]
    """Patterns below the data set's folder; ``**`` is any number of folders."""
    format: Format
    experiment: Literal["sweep", "tcp", "latency"]
    fields: dict[str, FieldSource]
    rows: str = ""
    """JSON: path of keys to the rows, separated by dots; ``*`` is every item."""
    csv: Csv = Csv()
    times: Times | None = None
    name_pattern: str | None = None
    """Regular expression over the path below the folder, with named groups."""
    latency_is: Quantity | None = None
    """What the latencies are; sockperf's own output says it itself."""
    observations: Observations | None = None
    where: dict[str, Scalar] = Key(default_factory=dict)
    """Only rows with these values are taken; the others belong elsewhere."""
    skip: list[Rows] = Key(default_factory=list)
    failed: list[Rows] = Key(default_factory=list)
    """Rows that record a trial which failed: kept as such, with the reason."""
    left_out: dict[str, str] = Key(default_factory=dict)
    """Columns that are not taken though a field would have them, and why."""
    generated: bool = False
    """The numbers were made by a program and not measured; they are labelled so."""

    @model_validator(mode="after")
    def _sound(self) -> Self:
        self._check_format()
        for name, source in self.fields.items():
            self._check_field(name, source)
        absent = [n for n in NEEDED[self.experiment] if n not in self.fields]
        # iperf3's JSON says its payload itself; all else comes from here.
        if absent and not (self.format == "iperf3" and absent == ["payload_bytes"]):
            raise ValueError(f"fields lacks {', '.join(absent)}; a constant will do")
        if taken := [s.column for s in self.fields.values() if s.column in self.left_out]:
            raise ValueError(f"column '{taken[0]}' is both taken and left out")
        return self

    def _check_format(self) -> None:
        if self.experiment not in TOOL_EXPERIMENTS.get(self.format, (self.experiment,)):
            raise ValueError(f"{self.format} makes no trials of {self.experiment}")
        if self.rows and self.format != "json":
            raise ValueError("rows is a path in JSON files")
        if (self.format == "times") is (self.times is None):
            raise ValueError("the key times belongs to the format times")
        if self.experiment == "latency":
            if self.latency_is is None and self.format != "sockperf":
                raise ValueError("say what the latencies are: latency_is")
        elif self.latency_is or self.observations:
            raise ValueError("latency_is and observations belong to the experiment latency")
        if self.name_pattern is not None:
            try:
                re.compile(self.name_pattern)
            except re.error as error:
                raise ValueError(f"name_pattern is no regular expression: {error}") from error
        for pattern in (*self.files, *([self.observations.file] if self.observations else [])):
            if PurePosixPath(pattern).is_absolute() or ".." in PurePosixPath(pattern).parts:
                raise ValueError(f"'{pattern}' leaves the data set's folder")

    def _check_field(self, name: str, source: FieldSource) -> None:
        field = field_of(self.experiment, name)
        if field is None:
            raise ValueError(
                f"{self.experiment} has no field '{name}'; there are: "
                + ", ".join(names_of(self.experiment))
            )
        if source.from_name and source.from_name not in self.groups:
            raise ValueError(f"{name}: name_pattern has no group '{source.from_name}'")
        if source.layer != "payload" and (
            field.quantity != "rate" or "payload_bytes" not in self.fields
        ):
            raise ValueError(f"{name}: only rates of a known payload_bytes have a layer")
        if source.timezone and field.quantity != "moment":
            raise ValueError(f"{name}: only moments have a time zone")
        _check_unit(name, source, field.quantity)

    @property
    def groups(self) -> set[str]:
        """The names that ``name_pattern`` gives to parts of a file's name."""
        return set(re.compile(self.name_pattern).groupindex) if self.name_pattern else set()


def _check_unit(name: str, source: FieldSource, quantity: str) -> None:
    if quantity in ("word", "moment"):
        if source.unit and not (quantity == "moment" and source.unit in units.FACTORS["time"]):
            raise ValueError(f"{name}: it has no unit")
    elif source.unit is None:
        if quantity != "count" and source.constant is None:
            known = ", ".join(units.FACTORS[quantity])
            raise ValueError(f"{name}: say the unit; there are: {known}")
    else:
        _known_unit(quantity, source.unit, f"{name}: ")


def _known_unit(quantity: str, unit: str, where: str = "") -> None:
    try:
        units.factor(quantity, unit, unit)
    except ConfigurationError as error:
        raise ValueError(f"{where}{error}") from error


class Facts(Strict):
    """What a data set tells of the testbed that it was measured on; the rest is unknown."""

    link_rate_mbps: Annotated[float, Key(gt=0)] | None = None
    queue_bytes: Annotated[int, Key(gt=0)] | None = None
    paths: Annotated[int, Key(gt=0)] | None = None
    history_length: Annotated[int, Key(gt=0)] | None = None
    reset_ms: Annotated[int, Key(gt=0)] | None = None
    receive_buffer_bytes: Annotated[int, Key(gt=0)] | None = None
    switches: str | None = None
    kernel: str | None = None
    processor: str | None = None
    processors: Annotated[int, Key(gt=0)] | None = None
    iperf3: str | None = None
    sockperf: str | None = None
    measured: str | None = None
    """When, in the data set's own words."""


class Mapping(Strict):
    """A mapping file."""

    description: str
    testbed: Facts = Facts()
    tables: Annotated[dict[str, Table], Key(min_length=1)]
    no_measurements: list[NoMeasurements] = Key(default_factory=list)


@dataclass(frozen=True)
class MappingFile:
    """A mapping with its name, its own text and the text's SHA-256."""

    name: str
    mapping: Mapping
    text: bytes
    sha256: str


def shipped() -> list[str]:
    """Return the names of the mappings in config/imports."""
    return sorted(path.stem for path in (root() / "config" / "imports").glob("*.yaml"))


def load_mapping(mapping: Path | str) -> MappingFile:
    """Read a mapping: the path of a YAML file, or the name of one in config/imports.

    Raises
    ------
    ConfigurationError
        There is no such file or name, or the file is no mapping; each key in question is named.
    """
    path = Path(mapping)
    if path.suffix not in (".yaml", ".yml"):
        path = root() / "config" / "imports" / f"{mapping}.yaml"
    if not path.is_file():
        raise ConfigurationError(
            "there is no such mapping",
            str(mapping),
            f"Give the path of a YAML file, or one of: {', '.join(shipped()) or 'none'}",
        )
    text = path.read_bytes()
    try:
        # The C parser where PyYAML has it: a mapping is long enough to notice.
        values = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)) or {}
    except yaml.YAMLError as error:
        raise ConfigurationError(f"not YAML: {error}", str(path)) from error
    checked = parse(Mapping, values, str(path))
    return MappingFile(path.stem, checked, text, hashlib.sha256(text).hexdigest())

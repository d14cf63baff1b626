"""Mappings: which columns of a data set are the fields of an experiment, and their units.

A mapping is YAML. Each of its tables names files by pattern, the rows in them, and the experiment
whose trials the rows are. Each field of that experiment is a column, a part of the file's name, or
a constant. Nothing is guessed: a field without a source is missing, and a column of rates or times
without a unit is an error.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import Field as Key
from pydantic import GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.repository import root
from tsnrepro.config import ConfigModel, parse
from tsnrepro.config.base import PositiveFloat, PositiveInt, formerly
from tsnrepro.config.yaml_files import read_yaml
from tsnrepro.imports import units
from tsnrepro.records.columns import COLUMNS, column_of

Scalar = str | int | float | bool
_Character = Annotated[str, Key(min_length=1, max_length=1)]
Patterns = Annotated[list[Annotated[str, Key(min_length=1, max_length=400)]], Key(min_length=1)]
Quantity = Literal["half round trip", "round trip", "one way"]
_Format = Literal["json", "csv", "iperf3", "sockperf", "times", "mausezahn"]
REQUIRED_FIELDS = {
    "loss": ("configuration", "payload_bytes"),
    "tcp": ("configuration",),
    "latency": ("configuration", "payload_bytes"),
}
_TOOL_EXPERIMENTS = {
    "iperf3": ("loss", "tcp"),
    "sockperf": ("latency",),
    "times": ("latency",),
    "mausezahn": ("loss",),
}
INTERVALS = "intervals"
PRINTF_CODE = re.compile("%(.)", re.DOTALL)
"""A code of isochron's ``--printf-format``."""
# What data sets write for a missing value.
MISSING_VALUES = ("", "NA", "N/A", "n/a", "nan", "NaN", "-nan", "-NaN", "null", "None", "-")


class FieldSource(ConfigModel):
    """Source of one field: exactly one of ``column``, ``from_name`` and ``constant``.

    A plain value instead of these keys is a constant in the unit of the field.
    """

    column: str | None = None
    """Column of a table, or path of keys in a JSON record, separated by dots."""
    from_name: str | None = None
    """Group of the table's ``name_pattern``."""
    constant: Scalar | None = None
    """The same value for all rows."""
    unit: str | None = None
    """Unit of the column or part of the name."""
    layer: Literal["payload", "frame", "wire"] = "payload"
    """Layer of a rate: UDP payload, frames with FCS, or the wire (L1)."""
    values: dict[str, str | int | float] = Key(default_factory=dict)
    """Value of the field by value of the data set."""
    missing: list[Scalar] = Key(default_factory=list)
    """Further values that mean that the field is missing; empty cells, NA, nan and null always do.
    """
    timezone: str | None = None
    """Time zone of times without one, such as ``UTC`` or ``Asia/Seoul``."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return the schema, in which a plain value is valid too."""
        described = super().__get_pydantic_json_schema__(core_schema, handler)
        return {"anyOf": [described, {"type": ["string", "number", "boolean"]}]}

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


class RowRule(ConfigModel):
    """Rows, selected by the values of columns, and why."""

    where: Annotated[dict[str, Scalar], Key(min_length=1)]
    """Value by column; all of them have to match."""
    reason: str
    """Why, for the report of the import."""


class FileRule(ConfigModel):
    """Files without measurements of their own, and why."""

    files: Patterns
    """Patterns below the data set's folder."""
    reason: str
    """Why, for the report of the import."""


class Times(ConfigModel):
    """Columns of a CSV file with one packet per row, by name or by number from 0.

    Either the times of sending and receipt, or the latency itself. Talker and listener may have a
    file each, whose packets are joined by their sequence number.
    """

    sent: str | int | None = None
    """Column of the time of sending."""
    received: str | int | None = None
    """Column of the time of receipt."""
    latency: str | int | None = None
    """Column of the latency."""
    sequence: str | int | None = None
    """Column of the sequence number, in the talker's file and in the listener's."""
    listener: str | None = None
    """The listener's file, which has ``received``, with ``{group}`` where its path varies. The
    table's files are then the talker's, which have ``sent``."""
    unit: str
    """Unit of the columns: ``ns``, ``us``, ``ms`` or ``s``."""
    delimiter: _Character = ","
    """Character between columns."""
    decimal: _Character = "."
    """Character before the decimals of a number, such as ``,``."""
    missing: list[str] = Key(default_factory=list)
    """Values of ``received`` or ``latency`` that mean a lost packet, as an empty cell does."""
    printf_format: str | None = None
    """``--printf-format`` of ``isochron report``, whose output the file is."""
    printf_args: str | None = None
    """``--printf-args`` of ``isochron report``. ``sent`` and ``received`` are two of these, such as
    ``T`` and ``R`` for the hardware timestamps; ``q`` has to be among them."""

    def recorded(self) -> dict[str, Any]:
        """Return the keys for a record: later ones only where they are used."""
        later = {"sequence", "listener"} if not self.listener else set()
        later |= set() if self.printf_args else {"printf_format", "printf_args"}
        return self.model_dump(exclude=later | ({"decimal"} if self.decimal == "." else set()))

    @property
    def columns(self) -> list[str | int]:
        """The columns that are read: sent and received, or latency."""
        return [c for c in (self.sent, self.received, self.latency) if c is not None]

    @property
    def named(self) -> bool:
        """Whether the columns are named by a header line."""
        return isinstance(self.columns[0], str) and self.printf_args is None

    @property
    def printf_line(self) -> str:
        """The line of a packet in ``printf_format``, without its end."""
        line = (self.printf_format or "").replace(r"\t", "\t").replace(r"\n", "\n")
        return line.removesuffix("\n")

    @model_validator(mode="after")
    def _sound(self) -> Self:
        given = [
            name for name in ("sent", "received", "latency") if getattr(self, name) is not None
        ]
        if given not in (["sent", "received"], ["latency"]):
            raise ValueError("give sent and received, or latency alone")
        if (self.sequence is None) is not (self.listener is None):
            raise ValueError("sequence and listener need each other")
        if self.listener and self.latency is not None:
            raise ValueError("listener needs sent and received")
        columns = [*self.columns, *([] if self.sequence is None else [self.sequence])]
        if len({type(column) for column in columns}) > 1:
            raise ValueError("name all columns or number all")
        if any(isinstance(column, int) and not 0 <= column < 10**4 for column in columns):
            raise ValueError("columns are numbered from 0 to 9999")
        _check_known("time", self.unit)
        if self.printf_format is not None or self.printf_args is not None:
            self._check_printf()
        return self

    def _check_printf(self) -> None:
        codes = [code for code in PRINTF_CODE.findall(self.printf_line) if code != "%"]
        arguments = self.printf_args or ""
        if len(codes) != len(arguments) or set(codes) - set("duxT"):
            raise ValueError("printf_format needs one of %d, %u, %x and %T for each of printf_args")
        if {"\n", "\\"} & set(self.printf_line):
            raise ValueError(r"printf_format: one line per packet; \n and \t are known escapes")
        if self.unit != "ns" or self.latency or self.listener or self.missing:
            raise ValueError("with printf_format give sent, received and unit: ns only")
        printed = dict(zip(arguments, codes, strict=True))
        if len(printed) < len(arguments):
            raise ValueError("printf_args: a variable is printed twice")
        for name in ("q", *self.columns):
            if printed.get(str(name), "x") == "x":
                raise ValueError(f"printf_args: '{name}' has to be printed, with %d, %u or %T")


class Observations(ConfigModel):
    """The file with the single observations behind a row's statistics."""

    file: str
    """Path below the data set's folder, with ``{column}`` or ``{group}`` where it varies."""
    format: Literal["sockperf", "times"]
    """Format of the file."""
    times: Times | None = None
    """Columns of the format ``times``."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        _check_times(self.format, self.times)
        if self.times and self.times.listener:
            raise ValueError("listener is for times of a table")
        return self


class Csv(ConfigModel):
    """Dialect of a CSV file; ``encoding`` and ``decimal`` are those of JSON too."""

    delimiter: _Character = ","
    """Character between columns."""
    decimal: _Character = "."
    """Character before the decimals of a number, such as ``,``."""
    columns: list[str] = Key(default_factory=list)
    """Names of the columns, for a file without a header line."""
    comment: str = "#"
    """Beginning of lines to ignore."""
    encoding: str = "utf-8"
    """Character encoding."""
    skip_lines: Annotated[int, Key(ge=0)] = 0
    """Lines before the header line, as for the second of several tables in one file."""


class MappedTable(ConfigModel):
    """Files of one format, whose rows are trials of one experiment."""

    files: Patterns
    """Patterns below the data set's folder; ``**`` is any number of folders."""
    format: _Format
    """Format of the files: ``json``, ``csv``, the output of a tool, or ``times``, a CSV file with
    one packet per row."""
    experiment: Literal["loss", "tcp", "latency"]
    """Experiment whose trials the rows are."""
    fields: dict[str, FieldSource]
    """Source of each field of the experiment; a field without one is missing."""
    rows: str = ""
    """Rows of a file. JSON: path of keys to them, separated by dots; ``*`` is every item, ``2:5`` a
    range of items, ``{size}`` every item with its key as the column ``size``. iperf3:
    ``intervals`` if each reported interval is a row."""
    row_range: Annotated[tuple[PositiveInt, PositiveInt], Key(strict=False)] | None = None
    """First and last data row to import, counted from 1, of the formats csv, json and times."""
    csv: Csv = Csv()
    """Dialect of the format ``csv``; of ``json`` its encoding and decimal character."""
    times: Times | None = None
    """Columns of the format ``times``."""
    name_pattern: Annotated[str, Key(max_length=1000)] | None = None
    """Regular expression (RE2) for the path below the folder; every group needs a name."""
    tool: str | None = None
    """Program that measured; formats of tools imply it."""
    latency_quantity: Annotated[Quantity | None, formerly("latency_is")] = None
    """What a latency is; the format ``sockperf`` implies it."""
    observations: Observations | None = None
    """File with the single observations of each row; by default there is none."""
    where: dict[str, Scalar] = Key(default_factory=dict)
    """Value by column: rows with other values are not this table's."""
    skip: list[RowRule] = Key(default_factory=list)
    """Rows to ignore."""
    failed: list[RowRule] = Key(default_factory=list)
    """Rows of failed trials, which are imported as such with the reason."""
    ignored_columns: Annotated[dict[str, str], formerly("left_out")] = Key(default_factory=dict)
    """Columns to ignore though a field exists for them, each with the reason."""
    generated: bool | None = None
    """True: the numbers were generated by a program, and are labelled so. False: they were
    measured, even if words in the files suggest otherwise."""
    repeats: bool = False
    """Identical rows or files are repetitions, not copies."""
    implausible: str = ""
    """Why implausible numbers are correct in the unit of the mapping."""

    @property
    def source_tool(self) -> str | None:
        """The measuring program, if known."""
        printed = self.times is not None and self.times.printf_args is not None
        tools = _TOOL_EXPERIMENTS.keys() - {"times"}
        implied = self.format if self.format in tools else None
        return self.tool or ("isochron" if printed else implied)

    @property
    def has_columns(self) -> bool:
        """Whether the files have rows and columns that the mapping names, or are tools' outputs."""
        return self.format in ("json", "csv", "times")

    @property
    def groups(self) -> set[str]:
        """The names that ``name_pattern`` gives to parts of a file's name."""
        return set(re.compile(self.name_pattern).groupindex) if self.name_pattern else set()

    @model_validator(mode="after")
    def _sound(self) -> Self:
        self._check_format()
        self._check_latency()
        self._check_patterns()
        for name, source in self.fields.items():
            self._check_field(name, source)
        absent = [n for n in REQUIRED_FIELDS[self.experiment] if n not in self.fields]
        # iperf3's JSON contains the payload.
        if absent and not (self.format == "iperf3" and absent == ["payload_bytes"]):
            raise ValueError(f"fields lacks {', '.join(absent)}; a constant is accepted")
        columns = [source.column for source in self.fields.values()]
        if both := [column for column in columns if column in self.ignored_columns]:
            raise ValueError(f"column '{both[0]}' is in fields and in ignored_columns")
        return self

    def _check_format(self) -> None:
        if self.experiment not in _TOOL_EXPERIMENTS.get(self.format, (self.experiment,)):
            raise ValueError(f"format {self.format} does not support {self.experiment}")
        if self.format == "iperf3" and self.rows not in ("", INTERVALS):
            raise ValueError(f"rows of iperf3: leave it out, or {INTERVALS}")
        if self.rows and self.format not in ("json", "iperf3"):
            raise ValueError("rows needs the format json or iperf3")
        if self.row_range and self.format not in ("csv", "json", "times"):
            raise ValueError("row_range needs the format csv, json or times")
        if self.row_range and self.row_range[0] > self.row_range[1]:
            raise ValueError("row_range: the first row is after the last")
        if self.row_range and self.times and self.times.listener:
            raise ValueError("row_range and listener exclude each other")
        _check_times(self.format, self.times)

    def _check_latency(self) -> None:
        if self.experiment == "latency":
            if self.latency_quantity is None and self.format != "sockperf":
                raise ValueError("latency_quantity is required")
        elif self.latency_quantity or self.observations:
            raise ValueError("latency_quantity and observations need the experiment latency")

    def _check_patterns(self) -> None:
        if self.name_pattern is not None:
            try:
                compiled = re.compile(self.name_pattern)
                match_names(self.name_pattern, [""])
            except (re.error, ValueError, RecursionError, OverflowError) as error:
                raise ValueError(f"name_pattern is not a regular expression: {error}") from error
            if compiled.groups > len(compiled.groupindex):
                raise ValueError("name_pattern: every group needs a name, (?P<name>...) or (?:...)")
        named = [self.observations and self.observations.file, self.times and self.times.listener]
        for pattern in (*self.files, *(name for name in named if name)):
            if PurePosixPath(pattern).is_absolute() or ".." in PurePosixPath(pattern).parts:
                raise ValueError(f"'{pattern}' leaves the data set's folder")

    def _check_field(self, name: str, source: FieldSource) -> None:
        column = column_of(self.experiment, name)
        if column is None:
            more = ", drop_<place>" if self.experiment == "loss" else ""
            known = ", ".join(COLUMNS[self.experiment]) + more
            raise ValueError(f"{self.experiment} has no field '{name}'; there are: {known}")
        if source.from_name and source.from_name not in self.groups:
            raise ValueError(f"{name}: name_pattern has no group '{source.from_name}'")
        if source.layer != "payload" and (
            column.quantity != "rate" or "payload_bytes" not in self.fields
        ):
            raise ValueError(f"{name}: layer is for rates, and needs payload_bytes")
        if source.timezone and column.quantity != "timestamp":
            raise ValueError(f"{name}: timezone is for times of day")
        _check_unit(name, source, column.quantity)


def match_names(pattern: str, names: list[str]) -> list[dict[str, str] | None]:
    """Return the named groups of a pattern in each name, None where it does not match.

    RE2's time is linear in the names for any pattern.

    Raises
    ------
    ValueError
        RE2 does not support the pattern.
    """
    import pyarrow as pa  # noqa: PLC0415 - most mappings have no such pattern
    from pyarrow import compute  # noqa: PLC0415

    if "(?P<" not in pattern:
        found = compute.match_substring_regex(pa.array(names, pa.string()), pattern).to_pylist()  # pyright: ignore[reportAttributeAccessIssue]
        return [{} if one else None for one in found]
    return compute.extract_regex(pa.array(names, pa.string()), pattern).to_pylist()  # pyright: ignore[reportAttributeAccessIssue]


def _check_times(form: str, times: Times | None) -> None:
    if (form == "times") is (times is None):
        raise ValueError("the key times and the format times need each other")


def _check_unit(name: str, source: FieldSource, quantity: str) -> None:
    if quantity in ("text", "timestamp"):
        if source.unit and not (quantity == "timestamp" and source.unit in units.FACTORS["time"]):
            raise ValueError(f"{name}: it has no unit")
    elif source.unit is None:
        if quantity != "count" and source.constant is None:
            known = ", ".join(units.FACTORS[quantity])
            raise ValueError(f"{name}: unit is required; there are: {known}")
    else:
        _check_known(quantity, source.unit, f"{name}: ")


def _check_known(quantity: str, unit: str, where: str = "") -> None:
    try:
        units.factor(quantity, unit, unit)
    except ConfigurationError as error:
        raise ValueError(f"{where}{error}") from error


class TestbedFacts(ConfigModel):
    """What is known of the testbed that a data set was measured on; the rest is unknown."""

    __test__ = False  # pytest collects classes by this name otherwise

    link_rate_mbps: PositiveFloat | None = None
    """Wire rate of every link, in Mb/s."""
    queue_bytes: PositiveInt | None = None
    """Limit of each egress queue, in bytes."""
    paths: PositiveInt | None = None
    """Number of member paths."""
    history_length: PositiveInt | None = None
    """frerSeqRcvyHistoryLength (IEEE Std 802.1CB-2017, 10.4.1.6)."""
    reset_ms: PositiveInt | None = None
    """frerSeqRcvyResetMSec (10.4.1.7), in milliseconds."""
    receive_buffer_bytes: PositiveInt | None = None
    """Socket buffer of the listener, in bytes."""
    switches: str | None = None
    """Names of the switches."""
    kernel: str | None = None
    """Kernel release of the hosts."""
    processor: str | None = None
    """Processor of the hosts."""
    processors: PositiveInt | None = None
    """Number of processors of a host."""
    iperf3: str | None = None
    """Version of iperf3."""
    sockperf: str | None = None
    """Version of sockperf."""
    measured: str | None = None
    """When it was measured, in the data set's own words."""


class ImportMapping(ConfigModel):
    """A mapping file."""

    description: str
    """One line for lists and reports."""
    testbed: TestbedFacts = TestbedFacts()
    """What is known of the testbed."""
    tables: Annotated[dict[str, MappedTable], Key(min_length=1)]
    """Tables by name."""
    ignored_files: Annotated[list[FileRule], formerly("no_measurements")] = Key(
        default_factory=list
    )
    """Files without measurements of their own."""


@dataclass(frozen=True)
class MappingFile:
    """A mapping with its name, its text and the text's SHA-256."""

    name: str
    mapping: ImportMapping
    text: bytes
    sha256: str


def mapping_names() -> list[str]:
    """Return the names of the mappings in config/imports."""
    return sorted(path.stem for path in (root() / "config" / "imports").glob("*.yaml"))


def load_mapping(mapping: Path | str) -> MappingFile:
    """Read a mapping: the path of a YAML file, or the name of one in config/imports.

    Raises
    ------
    ConfigurationError
        There is no such file or name, or the file is not a mapping; each wrong key is named.
    """
    path = Path(mapping)
    if path.suffix not in (".yaml", ".yml"):
        path = root() / "config" / "imports" / f"{mapping}.yaml"
    if not path.is_file():
        raise ConfigurationError(
            "no such mapping",
            str(mapping),
            f"Give the path of a YAML file, or one of: {', '.join(mapping_names()) or 'none'}",
        )
    values = read_yaml(path)
    try:
        json.dumps(values, ensure_ascii=False, default=str).encode()
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"it cannot be stored: {error}", str(path)) from error
    text = path.read_bytes()
    checked = parse(ImportMapping, values, str(path))
    return MappingFile(path.stem, checked, text, hashlib.sha256(text).hexdigest())

"""Results of analyses and facts of testbeds: their names, types and files.

An analysed run has one JSON list of :class:`Result` for its results and one for the facts of its
testbed. Analyses write them through :class:`tsnrepro.results.results.Results`.
"""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from tsnrepro.common.errors import RecordError
from tsnrepro.records.files import bounded_bytes

# In the folder of an analysed run: its results, the facts of its testbed, and its tables.
VALUES_FILE, FACTS_FILE = "values.json", "testbed.json"
TABLES_FOLDER, FIGURES_FOLDER = "tables", "figures"
KOREAN_FOLDER = "ko"
"""Below the folder of figures: those for papers in Korean."""

UNKNOWN = "unknown"
"""Value of a fact that a testbed of this kind has but that was not determined."""

IMPORT_FACTS = ("description", "imported_from", "imported_by", "switches", "measured")
"""Facts of imported data sets only.

Manuscripts that print both kinds name them, so other testbeds have them too, without a value."""
MODEL_PARAMETERS = {
    "switch_us": (("switch_us",), "us"),
    "send_us": (("talker", "send_us"), "us"),
    "receive_us": (("listener", "receive_us"), "us"),
    "stack_us": (("listener", "stack_us"), "us"),
    "stall_interval_s": (("stalls", "interval_s"), "s"),
    "stall_length_ms": (("stalls", "length_ms"), "ms"),
}
"""Parameters of the model, some known to a range: path of keys in its settings, unit."""
_HOST_FACTS = (
    *("iperf3", "sockperf", "queue_bytes", "link_rate_mbps", "paths", "history_length", "reset_ms"),
    *("receive_buffer_bytes", "acceleration", "iproute2", "qemu"),
    *("mausezahn", "dumpcap", "python", "talker_address", "listener_address", "host_ports"),
    *("member_ports", "drivers", "elimination"),
)
_COMMON_FACTS = (
    *("kind", "label", "verb", "campaign", "environment", "commit"),
    *("kernel", "processor", "processors", "memory"),
)
FACTS = frozenset(
    f"testbed.{name}"
    for name in (
        *(*_COMMON_FACTS, *_HOST_FACTS, *IMPORT_FACTS, "model_sources"),
        *(f"model.{name}" for name in MODEL_PARAMETERS),
    )
)
"""Keys of all facts. A fact that a kind of testbed does not have is None."""

UNIT_SYMBOLS = {"us": "µs", "bytes": "B"}
"""Symbols of the units that records and tables write otherwise, in all that is printed."""

Number = Annotated[float, Field(allow_inf_nan=False)]
# First words of the method of a result whose limits are the range of values, or that has none.
_NO_INTERVAL = ("range", "no interval")


class Result(BaseModel):
    """One named result: an estimate or fact, its interval, its method and its trials.

    Attributes
    ----------
    key
        Name by which manuscripts and reports print it, such as ``tcp.goodput.frer.mbps``.
    value
        The number or text; ``None`` where the trials do not determine it.
    low, high
        Limits in ``unit``; ``None`` where unknown or without bound. Unless they are an interval,
        ``method`` begins with what they are: see :attr:`decides`.
    unit
        ``Mb/s``, ``%``, ``us`` and so on; empty for counts, ratios and text.
    digits
        Decimals to print.
    method
        How the value and its interval were determined.
    run
        Experiment that the trials belong to; several are joined by ``+``; empty without trials.
    trials
        Names of the trials' folders in the raw store, each preceded by its experiment and a slash
        if there are several experiments.
    sha256
        Checksum over the checksums of the trials (64 hex digits, or empty), or over those of the
        results that this one is derived from.

    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    key: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*(\.[a-z0-9_]+)+$")]
    value: int | Number | str | None
    low: Number | None
    high: Number | None
    unit: str
    digits: Annotated[int, Field(ge=0, le=9)]
    method: str
    run: Annotated[str, Field(pattern=r"^([a-z][a-z0-9_]*(\+[a-z][a-z0-9_]*)*)?$")]
    trials: list[str]
    sha256: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")]

    @model_validator(mode="after")
    def _ordered(self) -> "Result":
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        if low > high:
            raise ValueError(f"the interval is upside down: {low} above {high}")
        return self

    @property
    def is_number(self) -> bool:
        """Return whether the value is a number (``None`` and text are not)."""
        return isinstance(self.value, int | float)

    @property
    def decides(self) -> bool:
        """Return whether a conclusion may rest on the limits: they are not merely a range."""
        return decides(self.method)

    @property
    def is_range(self) -> bool:
        """Return whether the limits are the smallest and the largest value measured."""
        return None not in (self.low, self.high) and not self.decides

    @property
    def signed(self) -> bool:
        """Return whether the value is a difference, which is printed with its sign."""
        return "difference" in self.key.split(".")


def decides(method: str) -> bool:
    """Return whether the limits of a method are an interval or a bound, and not only a range."""
    return not method.startswith(_NO_INTERVAL)


_LIST = TypeAdapter(list[Result])


def load_values(paths: Iterable[Path]) -> dict[str, Result]:
    """Return all results of some files by key.

    Raises RecordError if there is no file, one is not a list of results, or two results have the
    same key.
    """
    found: dict[str, Result] = {}
    origin: dict[str, Path] = {}
    for path in paths:
        for key, result in load_file(path).items():
            if key in found:
                raise RecordError(
                    f"the key '{key}' occurs twice",
                    f"{origin[key]} and {path}",
                    "Give each result its own key in the analysis",
                )
            found[key], origin[key] = result, path
    if not origin:
        raise RecordError("no values to read", "", "Analyse a campaign first: snakemake --cores 4")
    return found


def load_file(path: Path) -> dict[str, Result]:
    """Return the results of one JSON file by key.

    Raises RecordError if the file is missing or is not a list of results.
    """
    if not path.is_file():
        raise RecordError("no such values", str(path), "Analyse the campaign first")
    try:
        document = json.loads(bounded_bytes(path, "not results"))
        results = _LIST.validate_python(document)
    except ValidationError as error:
        problems = "; ".join(_problem(document, item) for item in error.errors()[:5])
        raise RecordError(problems, str(path), "Run the analysis again") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"not JSON: {error}", str(path)) from error
    found: dict[str, Result] = {}
    for result in results:
        if result.key in found:
            raise RecordError(f"the key '{result.key}' occurs twice", str(path))
        found[result.key] = result
    return found


def write_values(path: Path, results: Iterable[Result]) -> None:
    """Write results as JSON; the folder is created if missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = [result.model_dump() for result in results]
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _problem(document: object, item: Mapping[str, Any]) -> str:
    """Return a message that names the entry by its key if it has one, else by its index."""
    index, message = item["loc"], item["msg"]
    if not index or not isinstance(document, list) or not isinstance(index[0], int):
        return f"file: {message}"
    entry = document[index[0]]
    name = entry.get("key", f"entry {index[0]}") if isinstance(entry, dict) else f"entry {index[0]}"
    return f"{str(name)[:100]}: {'.'.join(map(str, index[1:]))[:100] or 'entry'}: {message[:200]}"

"""Strict configuration: every unknown key and wrong value is an error that names file and key.

Values are not converted (``true`` and ``"3"`` are not numbers), quantities have bounds, and lists
that span a plan hold no value twice: the two would be the same trial.

A key or value that was renamed is still read under its former name, with a notice; records keep
the former name, because trials are identified by what they recorded.
"""

import ast
import inspect
import re
import sys
from collections.abc import Mapping
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.common.topology import TestbedKind
from tsnrepro.config.yaml_files import parse_yaml, read_bytes

# --- quantities -----------------------------------------------------------------------------------
# The upper bounds are far above what this package can use, and far below where a wrong unit or an
# extra digit would fill a disk or run for years.

PositiveFloat = Annotated[float, Field(gt=0, le=1e12)]
PositiveInt = Annotated[int, Field(gt=0, le=10**12)]

Repetitions = Annotated[int, Field(ge=1, le=1000)]
Attempts = Annotated[int, Field(ge=1, le=100)]
"""How often a trial is tried before it counts as failed."""
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]
WholeSeconds = Annotated[int, Field(ge=1, le=86_400)]
"""A duration of iperf3 or sockperf, which take whole seconds: 1 s to a day."""
Seconds = Annotated[float, Field(ge=0.001, le=86_400)]
"""A duration of a millisecond to a day."""
RateMbps = Annotated[float, Field(ge=0.001, le=400_000)]
"""1 kb/s to 400 Gb/s (IEEE Std 802.3bs). Less would be 0 b/s, which is no limit to iperf3."""
LoadMbps = Annotated[float, Field(ge=0, le=400_000)]
"""The rate of background load; 0 for none."""
LinkRateMbps = Annotated[int, Field(ge=1, le=400_000)]
Paths = Annotated[int, Field(ge=1, le=8)]
"""Member paths between the two switches."""
PacketsPerSecond = Annotated[float, Field(ge=0.001, le=10_000_000)]
Packets = Annotated[int, Field(ge=1, le=100_000_000)]
QueueBytes = Annotated[int, Field(ge=1600, le=1 << 30)]
"""Limit of an egress queue: one full frame with C-TAG and R-TAG to 1 GiB."""
BurstBytes = Annotated[int, Field(ge=1600, le=1 << 24)]
"""Depth of a token bucket, at least one full frame."""
SocketBufferBytes = Annotated[int, Field(ge=2304, le=1 << 30)]
"""SO_RCVBUF or SO_SNDBUF as the kernel counts it; 2,304 bytes is the least that it grants."""
Percent = Annotated[float, Field(gt=0, le=100)]
# Less leaves iperf3 no room for the sequence number by which it counts losses.
UdpPayload = Annotated[int, Field(ge=16, le=65507)]


# --- lists ----------------------------------------------------------------------------------------

Item = TypeVar("Item")


def _no_value_twice(values: list[Item]) -> list[Item]:
    # All are of one type, so equal values print equally; models that hold lists have no hash.
    numbers: dict[str, int] = {}
    for number, value in enumerate(values):
        first = numbers.setdefault(repr(value), number)
        if first != number:
            named = "" if isinstance(value, BaseModel) else f": {value}"
            raise ValueError(f"items {first} and {number} are the same{named}")
    return values


Distinct = Annotated[
    list[Item], AfterValidator(_no_value_twice), Field(json_schema_extra={"uniqueItems": True})
]
"""A list without repeated values; it may be empty."""
OneOrMore = Annotated[Distinct[Item], Field(min_length=1)]
"""A list without repeated values that is not empty."""


def _no_name_twice(items: list[Any]) -> list[Any]:
    names = [item.name for item in items]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"name used twice: {', '.join(twice)}")
    return items


Named = Annotated[
    list[Item],
    AfterValidator(_no_name_twice),
    Field(min_length=1, json_schema_extra={"uniqueItems": True}),
]
"""A list of models, each with a ``name`` of its own, that is not empty."""

Configuration = Literal["control", "frer"]
CONFIGURATIONS: tuple[Configuration, ...] = get_args(Configuration)
Configurations = Annotated[
    OneOrMore[Configuration],
    Field(description="Configurations to compare: one path (control), and FRER over all paths."),
]
CURRENT_KINDS = {"hardware": "rack", "cards": "nic-pair"}
"""Kinds of testbeds by their former names, as older files and records have them."""


def current_kind(value: object, info: ValidationInfo) -> object:
    """Return a kind of testbed by today's name, and note a former one for :func:`parse`."""
    if not isinstance(value, str) or value not in CURRENT_KINDS:
        return value
    if info.context is not None:
        info.context[value] = CURRENT_KINDS[value]
    return CURRENT_KINDS[value]


AnyTestbedKind = Annotated[TestbedKind, BeforeValidator(current_kind)]
"""A kind of testbed in a file, where it may have its former name."""

Objective = Literal["sweep", "limit", "bottleneck", "intervention", "elimination", "paced", "paths"]
"""What trials of the experiment ``loss`` are measured for."""
RatesMbps = OneOrMore[RateMbps]


# --- names ----------------------------------------------------------------------------------------

DEVICE_NAME_LENGTH = 15
"""Longest name of a network device in Linux (IFNAMSIZ less the terminating byte)."""
DeviceName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,14}$")]
"""A network device of Linux, as ip-link(8) lists it."""
NAME = r"[a-z0-9][a-z0-9-]{0,63}"
"""Names of testbeds, campaigns, studies, parts and imported data sets. They become folders, parts
of keys and words on command lines."""
Name = Annotated[str, Field(pattern=rf"^{NAME}$")]


def check_name(name: str, where: str) -> None:
    """Check the name of a testbed, campaign, study or paper.

    Raises ConfigurationError if the name has other characters than a name may have; it could lead
    out of its folder.
    """
    if not re.fullmatch(NAME, name):
        raise ConfigurationError(
            f"'{name}' is not a name",
            where,
            "Names have lower-case letters, digits and hyphens, at most 64, and no hyphen first",
        )


def named_file(folder: Path, name: str) -> Path:
    """Return the path of a named file of the configuration, ``folder/NAME.yaml``.

    Raises ConfigurationError as :func:`check_name`.
    """
    check_name(name, f"config/{folder.name}")
    return folder / f"{name}.yaml"


# --- models ---------------------------------------------------------------------------------------


def formerly(name: str) -> Any:
    """Return the metadata of a field that was called ``name`` before, and still is in records."""
    return Field(serialization_alias=name)


def current_names(
    values: dict[Any, Any], current: Mapping[str, str], info: ValidationInfo
) -> dict[Any, Any]:
    """Return a mapping under today's keys, and note those that were renamed for :func:`parse`.

    ``values``: what a file has; ``current``: today's key by its former name. ``info``: of the
    validation; its context collects what was renamed. Raises ValueError if a key stands under both
    names.
    """
    renamed = {old: current[old] for old in values if isinstance(old, str) and old in current}
    for old, new in renamed.items():
        if new in values:
            raise ValueError(f"{old} is the former name of {new}: give {new} alone")
    if info.context is not None:
        info.context.update(renamed)
    return {renamed.get(key, key): value for key, value in values.items()} if renamed else values


class ConfigModel(BaseModel):
    """A model whose unknown keys are errors, whose types are exact and whose values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @model_validator(mode="before")
    @classmethod
    def _former_keys(cls, values: Any, info: ValidationInfo) -> Any:
        return (
            current_names(values, _current_keys(cls), info) if isinstance(values, dict) else values
        )

    def recorded(self, **selection: Any) -> dict[str, Any]:
        """Return the values as records have them: of JSON's types, under the keys' former names.

        ``selection`` is as for ``model_dump``: ``include``, ``exclude``.
        """
        return self.model_dump(mode="json", by_alias=True, **selection)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON Schema, with the docstrings of fields as descriptions.

        ``use_attribute_docstrings`` would read the sources whenever a program starts, for what
        only a schema shows.
        """
        made = handler(core_schema)
        properties = handler.resolve_ref_schema(made).get("properties", {})
        for field, text in _field_docstrings(cls).items():
            properties[field].setdefault("description", text)
        return made


@cache
def _current_keys(model: type[BaseModel]) -> dict[str, str]:
    """Return the keys of a model that were renamed, by their former names."""
    fields = model.model_fields.items()
    return {old: new for new, field in fields if (old := field.serialization_alias)}


def _field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings of a model's own and inherited fields."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if not issubclass(base, ConfigModel):
            continue
        try:
            (tree,) = ast.parse(dedent(inspect.getsource(base))).body
        except OSError:
            continue  # made at run time, of bases that have sources
        assert isinstance(tree, ast.ClassDef)
        for field, below in pairwise(tree.body):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ) if name in model.model_fields:
                    found[name] = inspect.cleandoc(text)
    return found


_PROBLEMS_SHOWN = 6
"""A file of another kind has a problem in every line; the first ones are enough to act on."""

Model = TypeVar("Model", bound=BaseModel)


def parse(model: type[Model], values: object, where: str, *, from_record: bool = False) -> Model:
    """Return ``values`` as a checked model.

    Former names of keys are read; a notice on stderr names them, unless the values are
    ``from_record``.

    Raises ConfigurationError if a key is unknown, missing or out of range. Each is named as it was
    written, and beside an unknown one the keys that are known at its level.
    """
    renamed: dict[str, str] = {}
    try:
        checked = model.model_validate(values, context=renamed)
    except ValidationError as error:
        raise _explained(error, model, values, where, renamed) from error
    if renamed and not from_record:
        changes = ", ".join(f"{old} is now {new}" for old, new in renamed.items())
        _print_once(f"{where}: {changes}; 0.3.0 no longer reads the former names")
    return checked


@cache
def _print_once(notice: str) -> None:
    print(notice, file=sys.stderr)


def _explained(
    error: ValidationError,
    model: type[BaseModel],
    values: object,
    where: str,
    renamed: dict[str, str],
) -> ConfigurationError:
    """Return what is wrong with the values, in the terms of the configuration file."""
    problems, levels = [], {}
    items = error.errors(include_url=False, include_input=False)
    for item in items[:_PROBLEMS_SHOWN]:
        written = _as_written(item["loc"], values, renamed)
        place = _shortened(".".join(map(str, written))) or "file"
        problems.append(f"{place}: {_shortened(item['msg'].removeprefix('Value error, '), 600)}")
        if item["type"] == "extra_forbidden":
            level = _shortened(".".join(map(str, written[:-1])))
            levels[level] = ", ".join(_known_keys(model, item["loc"][:-1]))
    known = "; ".join(
        f"Known keys{f' of {level}' if level else ''}: {keys}" for level, keys in levels.items()
    )
    what = _shortened("; ".join(problems), 1200)
    if len(items) > _PROBLEMS_SHOWN:
        what += f"; and {len(items) - _PROBLEMS_SHOWN} more"
    return ConfigurationError(what, where, _shortened(known, 1000))


def _as_written(
    location: tuple[int | str, ...], values: object, renamed: dict[str, str]
) -> list[int | str]:
    """Return a location with the keys that the values have, be they former names."""
    former = {new: old for old, new in renamed.items()}
    written: list[int | str] = []
    for step in location:
        # A step that is neither a key nor an index names one of a union's models.
        if isinstance(values, dict):
            key = former.get(str(step), step) if step not in values else step
            written.append(key if key in values else step)
            values = values.get(key, values)
        else:
            written.append(step)
            if isinstance(values, list) and isinstance(step, int) and step < len(values):
                values = values[step]
    return written


def _shortened(text: str, most: int = 200) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def load(model: type[Model], path: Path) -> Model:
    """Read a YAML file as a checked model.

    Raises ConfigurationError if the file is missing, is not YAML, or does not fit the model.
    """
    return _load(model, read_bytes(path), str(path))


@lru_cache(maxsize=32)
def _load(model: type[Model], content: bytes, where: str) -> Model:
    # A workflow asks for its campaign at each of its jobs.
    return parse(model, parse_yaml(content, where), where)


def _known_keys(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Return the keys that may stand at a location of a model."""
    at = [model]
    for step in location:
        below = [m.model_fields[step] for m in at if step in m.model_fields]
        if below:
            at = [found for field in below for found in _models_in(field.annotation)]
        else:
            # The number of an item or key of a dictionary, or which of a union's models it is.
            at = [m for m in at if m.__name__ == step or _tag_of(m) == step] or at
    return list(dict.fromkeys(key for m in at for key in m.model_fields))


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _models_in(part)]


def _tag_of(model: type[BaseModel]) -> object:
    field = model.model_fields.get("kind")
    return field.default if field else None

"""Strict configuration: what is not known is an error that names the file, the key and the remedy.

Values are of the type that is asked for (``true`` and ``"3"`` are no numbers), quantities have
bounds, and lists that span a plan hold no value twice: what stood there twice would be measured as
one trial, or as two that no analysis can tell apart.
"""

import ast
import inspect
import re
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from tsnrepro.common.errors import ConfigurationError
from tsnrepro.config.yaml_files import read_yaml

# --- quantities -----------------------------------------------------------------------------------
# The upper bounds are far above what this package can use, and far below where a slip of the unit
# or of a digit would fill a disk or run for years.

PositiveFloat = Annotated[float, Field(gt=0, le=1e12)]
PositiveInt = Annotated[int, Field(gt=0, le=10**12)]

Repetitions = Annotated[int, Field(ge=1, le=1000)]
Attempts = Annotated[int, Field(ge=1, le=100)]
"""How often a trial that failed is tried."""
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]
WholeSeconds = Annotated[int, Field(ge=1, le=86_400)]
"""A duration of iperf3 or sockperf, which take whole seconds: a second to a day."""
Seconds = Annotated[float, Field(ge=0.001, le=86_400)]
"""A duration of a millisecond to a day."""
RateMbps = Annotated[float, Field(ge=0.001, le=400_000)]
"""1 kb/s to 400 Gb/s (IEEE Std 802.3bs); below, iperf3 would be asked for 0 b/s: no limit."""
LoadMbps = Annotated[float, Field(ge=0, le=400_000)]
"""The rate of a load beside a stream; 0 for none."""
LinkRateMbps = Annotated[int, Field(ge=1, le=400_000)]
Paths = Annotated[int, Field(ge=1, le=8)]
"""Member paths between the two switches."""
PacketsPerSecond = Annotated[float, Field(ge=0.001, le=10_000_000)]
Packets = Annotated[int, Field(ge=1, le=100_000_000)]
QueueBytes = Annotated[int, Field(ge=1600, le=1 << 30)]
"""Limit of an egress queue: from one full frame with C-TAG and R-TAG to 1 GiB."""
BurstBytes = Annotated[int, Field(ge=1600, le=1 << 24)]
"""Depth of a token bucket; one that holds no full frame lets none pass."""
SocketBufferBytes = Annotated[int, Field(ge=2304, le=1 << 30)]
"""SO_RCVBUF or SO_SNDBUF as the kernel counts: the smallest that it grants is 2,304 bytes."""
Percent = Annotated[float, Field(gt=0, le=100)]
# Below this iperf3 has no room for the sequence number it counts losses by.
UdpPayload = Annotated[int, Field(ge=16, le=65507)]


# --- lists ----------------------------------------------------------------------------------------

Item = TypeVar("Item")


def _no_value_twice(values: list[Item]) -> list[Item]:
    # All are of one type, so equal values print equally; models with lists have no hash.
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

Configuration = Literal["control", "frer"]
Configurations = OneOrMore[Configuration]
RatesMbps = OneOrMore[RateMbps]


# --- names ----------------------------------------------------------------------------------------

DEVICE_NAME_LENGTH = 15
"""Most characters of a network device's name in Linux (IFNAMSIZ, with the byte that ends it)."""
DeviceName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,14}$")]
"""A network device as Linux names it."""
NAME = r"[a-z0-9][a-z0-9-]{0,63}"
"""Names of testbeds, campaigns, studies, parts and imported data sets: they become folders, parts
of keys and words of shell lines."""
Name = Annotated[str, Field(pattern=rf"^{NAME}$")]


def named_file(folder: Path, name: str) -> Path:
    """Return the path of a named file of the configuration, ``folder/NAME.yaml``.

    Raises
    ------
    ConfigurationError
        The name has other characters than a name may have; it could lead out of the folder.
    """
    if not re.fullmatch(NAME, name):
        raise ConfigurationError(
            f"'{name}' is not a name",
            f"config/{folder.name}",
            "Names have lower-case letters, digits and hyphens, at most 64, and no hyphen first",
        )
    return folder / f"{name}.yaml"


# --- models ---------------------------------------------------------------------------------------


class ConfigModel(BaseModel):
    """A model whose unknown keys are errors, whose types are exact and whose values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON Schema, in which what stands below a field describes it.

        ``use_attribute_docstrings`` would read the sources at every start of every program, for
        what only a schema shows.
        """
        made = handler(core_schema)
        properties = handler.resolve_ref_schema(made).get("properties", {})
        for field, text in _field_docstrings(cls).items():
            properties[field].setdefault("description", text)
        return made


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
"""A file of another kind has a problem in every line; who mends the first ones sees the others."""

Model = TypeVar("Model", bound=BaseModel)


def parse(model: type[Model], values: object, where: str) -> Model:
    """Return ``values`` as a checked model.

    Raises
    ------
    ConfigurationError
        Naming each key that is unknown, missing or out of range, and beside an unknown one those
        that are known at its level.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems, levels = [], {}
        items = error.errors(include_url=False, include_input=False)
        for item in items[:_PROBLEMS_SHOWN]:
            place = _shortened(".".join(map(str, item["loc"]))) or "file"
            problems.append(
                f"{place}: {_shortened(item['msg'].removeprefix('Value error, '), 600)}"
            )
            if item["type"] == "extra_forbidden":
                level = item["loc"][:-1]
                levels[_shortened(".".join(map(str, level)))] = ", ".join(_known_keys(model, level))
        known = "; ".join(
            f"Known keys{f' of {level}' if level else ''}: {keys}" for level, keys in levels.items()
        )
        what = _shortened("; ".join(problems), 1200)
        if len(items) > _PROBLEMS_SHOWN:
            what += f"; and {len(items) - _PROBLEMS_SHOWN} more"
        raise ConfigurationError(what, where, _shortened(known, 1000)) from error


def _shortened(text: str, most: int = 200) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


def load(model: type[Model], path: Path) -> Model:
    """Read a YAML file as a checked model.

    Raises
    ------
    ConfigurationError
        The file is missing, is not YAML, or does not fit the model.
    """
    return parse(model, read_yaml(path), str(path))


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

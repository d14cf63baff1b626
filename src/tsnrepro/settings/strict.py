"""Strict configuration: unknown keys are errors, and an error names the file and the key."""

from pathlib import Path
from typing import Annotated, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tsnrepro.errors import ConfigurationError

PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
PositiveInt = Annotated[int, Field(gt=0)]
Configuration = Literal["control", "frer"]
# Below this iperf3 has no room for the sequence number it counts losses by.
UdpPayload = Annotated[int, Field(ge=16, le=65507)]


class Strict(BaseModel):
    """A model whose unknown keys are errors and whose values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Model = TypeVar("Model", bound=BaseModel)


def parse(model: type[Model], values: object, where: str) -> Model:
    """Return ``values`` as a checked model.

    Raises
    ------
    ConfigurationError
        Naming each key that is unknown, missing or out of range.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, item['loc'])) or 'file'}: {item['msg']}" for item in error.errors()
        )
        known = ", ".join(model.model_fields)
        raise ConfigurationError(problems, where, f"Known keys: {known}") from error


def load(model: type[Model], path: Path) -> Model:
    """Read a YAML file as a checked model.

    Raises
    ------
    ConfigurationError
        The file is missing, is not YAML, or does not fit the model.
    """
    return parse(model, read_yaml(path), str(path))


def read_yaml(path: Path) -> object:
    """Return what a YAML file holds; an empty one is a mapping without keys.

    Raises
    ------
    ConfigurationError
        The file is missing or is not YAML.
    """
    if not path.is_file():
        others = ", ".join(sorted(p.stem for p in path.parent.glob("*.yaml"))) or "none"
        raise ConfigurationError(f"no such file; there are: {others}", str(path))
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except yaml.YAMLError as error:
        raise ConfigurationError(f"not YAML: {error}", str(path)) from error

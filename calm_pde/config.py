"""The base of every configuration: typed, closed to unknown keys, with errors that suggest what was meant."""

from __future__ import annotations

import difflib
import re
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from calm_pde.errors import ConfigError

AnyConfig = TypeVar("AnyConfig", bound="Config")


def suggestion(name: str, known: list[str]) -> str:
    """What a misspelt name may have meant, and else what there is."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"Known are: {', '.join(sorted(known))}."


class Config(BaseModel):
    """A frozen, typed configuration; every way in raises `ConfigError` with the path of each wrong entry."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def __init__(self, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise _config_error(error) from None

    @classmethod
    def model_validate(cls: type[AnyConfig], obj: Any, **options: Any) -> AnyConfig:
        try:
            return super().model_validate(obj, **options)
        except ValidationError as error:
            raise _config_error(error) from None

    @classmethod
    def model_validate_json(cls: type[AnyConfig], json_data: str | bytes | bytearray, **options: Any) -> AnyConfig:
        try:
            return super().model_validate_json(json_data, **options)
        except ValidationError as error:
            raise _config_error(error) from None

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, data: Any) -> Any:
        for key in data if isinstance(data, dict) else ():
            if key not in cls.model_fields:
                hint = suggestion(str(key), list(cls.model_fields))
                raise PydanticCustomError("unknown_key", "unknown key '{key}'. {hint}", {"key": str(key), "hint": hint})
        return data


def yaml_value(text: str) -> Any:
    """What a text of YAML says."""
    return yaml.load(text, Loader=_Loader)


def yaml_mapping(text: str, where: object, keys: str) -> dict[str, Any]:
    """The content of a YAML file with the keys that are named; nothing in it is executed."""
    try:
        content = yaml_value(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: not YAML: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{where}: expected keys {keys}, got {type(content).__name__}.")
    _refuse_other_keys(content, where)
    return content


def _refuse_other_keys(content: Any, where: object) -> None:
    """YAML takes some bare words for something else: `on` is true, 10 a number."""
    for key, value in content.items() if isinstance(content, dict) else ():
        if not isinstance(key, str):
            raise ConfigError(f"{where}: expected a name as key, got {key!r}. Put it in quotes.")
        _refuse_other_keys(value, where)


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`base` with `changes` laid over it, nested dictionaries entry by entry."""
    result = dict(base)
    for key, value in changes.items():
        known = result.get(key)
        result[key] = merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return result


def _config_error(error: ValidationError) -> ConfigError:
    lines = []
    for entry in error.errors(include_url=False):
        place = "".join(f"{part}: " for part in entry["loc"])
        came = "" if entry["type"] in ("unknown_key", "missing", "value_error") else f", got {entry['input']!r}"
        lines.append(f"{place}{entry['msg'].removeprefix('Value error, ')}{came}")
    return ConfigError("; ".join(lines))


def differences(old: Any, new: Any, name: str = "") -> list[tuple[str, Any, Any]]:
    """Where two nested settings differ, by path."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for key in sorted(old.keys() | new.keys()):
            found += differences(old.get(key), new.get(key), f"{name}.{key}" if name else str(key))
        return found
    return [] if old == new else [(name, old, new)]


class _Loader(yaml.SafeLoader):
    """YAML in which 1e-3 is a number, as everywhere else."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+0123456789.")
)

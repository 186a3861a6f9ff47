"""The base of every configuration: typed, closed to unknown keys, with errors that suggest what was meant."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from calm_pde.errors import ConfigError

AnyConfig = TypeVar("AnyConfig", bound="Config")

Seed = Annotated[int, Field(ge=0, lt=2**63)]
"""What the generators of torch and numpy both take."""

Repeats = Annotated[int, Field(ge=1, le=1000)]
"""How often a model does a thing again: more would take time without end, though no memory that could be refused."""

_MOST_NODES, _MOST_LEVELS, _LONGEST = 100_000, 64, 200  # of a YAML text with its aliases written out; of a value in an error


def suggestion(name: str, known: list[str]) -> str:
    """What a misspelt name may have meant, and else what there is."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"Known are: {', '.join(sorted(known))}."


class Config(BaseModel):
    """A frozen, typed configuration of finite numbers; every way in raises `ConfigError` with the path of each wrong entry."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

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
        closed = isinstance(data, dict) and cls.model_config.get("extra") != "allow"
        for key in data if closed else ():
            if key not in cls.model_fields:
                hint = suggestion(str(key), list(cls.model_fields))
                raise PydanticCustomError("unknown_key", "unknown key '{key}'. {hint}", {"key": str(key), "hint": hint})
        return data


def yaml_text(path: Path) -> str:
    """The text of a YAML file of the user's."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: byte {error.start} is not UTF-8 ({error.reason}). Save the file as UTF-8 text.") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error}). Check its name and permissions.") from error


def yaml_value(text: str, where: object) -> Any:
    """What a text of YAML says; `where` names it in errors. Nothing in it is executed."""
    try:
        loader = _Loader(text)
        loader.name = str(where)
        return loader.get_single_data()
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: not YAML: {error}") from error


def yaml_mapping(text: str, where: object, keys: str) -> dict[str, Any]:
    """The content of a YAML file with the keys that are named; nothing in it is executed."""
    content = yaml_value(text, where)
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
        came = "" if entry["type"] in ("unknown_key", "missing", "value_error") else f", got {_shown(entry['input'])}"
        lines.append(f"{place}{entry['msg'].removeprefix('Value error, ')}{came}")
    return ConfigError("; ".join(lines))


def _shown(value: object) -> str:
    """A value as it was written, cut where it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of more than 4,300 digits
        return f"a {type(value).__name__} too long to be shown"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def differences(old: Any, new: Any, name: str = "") -> list[tuple[str, Any, Any]]:
    """Where two nested settings differ, by path."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for key in sorted(old.keys() | new.keys()):
            found += differences(old.get(key), new.get(key), f"{name}.{key}" if name else str(key))
        return found
    return [] if old == new else [(name, old, new)]


class _Loader(yaml.SafeLoader):
    """YAML in which 1e-3 is a number, as everywhere else, and that neither nests nor grows without end."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._level = self._count = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Every node counts as often as aliases repeat it."""
        mark = self.peek_event().start_mark
        if self.check_event(yaml.AliasEvent):
            node = super().compose_node(parent, index)
            if id(node) not in self._sizes:
                raise _refused("found an alias inside of what it stands for. Write its content out.", mark)
            self._count += self._sizes[id(node)]
        else:
            before, self._count, self._level = self._count, self._count + 1, self._level + 1
            if self._level > _MOST_LEVELS:
                raise _refused(f"found more than {_MOST_LEVELS} levels of nesting. Nest less deeply.", mark)
            node = super().compose_node(parent, index)
            self._level -= 1
            self._sizes[id(node)] = self._count - before
        if self._count > _MOST_NODES:
            raise _refused(f"found more than {_MOST_NODES:,} entries, aliases written out. Repeat less by aliases.", mark)
        return node

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise _refused(
                f"found a value that cannot be read ({error}). Correct it, or put it in quotes.", node.start_mark
            ) from error


def _refused(problem: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+0123456789.")
)
for _first in "-+0123456789":  # 15:45 is a range and no number to base 60
    _Loader.yaml_implicit_resolvers[_first].insert(0, ("tag:yaml.org,2002:str", re.compile(r"[-+]?[\d_]+(:[\d_]+)+\.?\d*$")))

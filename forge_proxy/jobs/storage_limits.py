"""Limits on stored input: it must be text that a database accepts and that can be parsed again."""

from __future__ import annotations

from typing import Annotated, Self, TypeAlias

from pydantic import BaseModel, BeforeValidator, model_validator
from pydantic_core import PydanticSerializationError

from forge_proxy.core.jsontypes import Json, is_list, is_object

MAX_DEPTH = 100
"""Maximum nesting of lists and objects in one value. The JSON library writes 255 levels and reads 200, in total."""


class StorableModel(BaseModel):
    """A model whose values can be written as JSON in UTF-8: JSON escapes allow lone surrogates, UTF-8 does not."""

    @model_validator(mode="after")
    def _can_be_written(self) -> Self:
        try:
            self.model_dump_json()
        except PydanticSerializationError as error:
            raise ValueError(f"it cannot be stored: {error}") from error
        return self


def is_too_deep(value: object) -> bool:
    """Return whether parsed JSON is nested so deeply that it could be written but not read again."""
    level: list[object] = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [part for one in level for part in _children(one)]
        if not level:
            return False
    return True


def _children(value: object) -> list[Json]:
    if is_object(value):
        return [*value.values()]
    return value if is_list(value) else []


def _check_depth(value: object) -> object:
    if is_too_deep(value):
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    return value


StoredJson: TypeAlias = Annotated[Json, BeforeValidator(_check_depth)]
StoredObject: TypeAlias = Annotated[dict[str, Json], BeforeValidator(_check_depth)]

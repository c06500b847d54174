"""What comes from outside and is stored: it has to be text that a database takes."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, model_validator
from pydantic_core import PydanticSerializationError


class Storable(BaseModel):
    """A model whose values can be written as JSON in UTF-8. JSON can hold halves of characters, which no text has."""

    @model_validator(mode="after")
    def _can_be_written(self) -> Self:
        try:
            self.model_dump_json()
        except PydanticSerializationError as error:
            raise ValueError(f"it cannot be stored: {error}") from error
        return self

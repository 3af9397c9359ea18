"""What every map of the fleet file is: known keys only, no coercion, never changed.

The base of the sections in `fleet` and `resilience`. Keys are camelCase in YAML, snake_case here.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Section(BaseModel):
    """A map of the fleet file: known keys only, no coercion, never changed."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="forbid",
        frozen=True,
        strict=True,
        defer_build=True,  # all of them are made once, as parts of the whole fleet
    )

"""Resolution of a requested model name."""

from __future__ import annotations

import pytest

from forge_proxy.core.catalog import Catalog
from forge_proxy.core.errors import UnknownModel

ALIASES = {"gpt-4o": "large"}


@pytest.mark.parametrize(
    ("names", "default", "asked", "found"),
    [
        (("small", "large"), None, "large", "large"),
        (("small", "large"), None, "gpt-4o", "large"),
        (("small", "large"), "small", "gpt-4o", "large"),
        (("small", "large"), "large", "anything", "large"),
        (("small", "large"), None, None, "small"),
        (("small", "large"), "large", None, "large"),
        (("large",), None, "anything", "large"),
        (("small", "large"), None, "small:latest", "small"),
        (("small", "large"), None, "gpt-4o:latest", "large"),
        (("small", "small:latest"), None, "small:latest", "small:latest"),
    ],
)
def test_a_model_is_found_by_name_then_alias_then_default_then_as_the_only_one(
    names: tuple[str, ...], default: str | None, asked: str | None, found: str
) -> None:
    assert Catalog(names, ALIASES, default).find(asked) == found


def test_an_unknown_model_raises_an_error_with_the_known_names() -> None:
    with pytest.raises(UnknownModel) as caught:
        Catalog(("small", "large"), ALIASES).find("anything")

    assert caught.value.known == ("small", "large")

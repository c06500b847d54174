"""The `backend` section of the settings: what contradicts itself is refused."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from forge_proxy.backends.config import BackendConfig


def test_credentials_in_the_url_and_a_key_exclude_each_other() -> None:
    url = "http://ann:secret@model:8080"

    with pytest.raises(ValidationError, match="leave one out"):
        BackendConfig.model_validate({"url": url, "api_key": "k"})
    assert BackendConfig.model_validate({"url": url}).url == url


def test_the_limit_of_a_response_is_64_mb_unless_it_is_set() -> None:
    assert BackendConfig().max_response == 64 * 1024 * 1024
    assert BackendConfig(max_response_mb=0.5).max_response == 512 * 1024

"""The `backend` section of the settings: contradictions are rejected."""

from __future__ import annotations

import pytest

from forge_proxy.backends.config import BackendChoiceError, BackendConfig
from forge_proxy.backends.selection import refuse_contradictions


def test_credentials_in_the_url_and_a_key_exclude_each_other_and_the_error_has_neither() -> None:
    url = "http://ann:secret@model:8080"

    with pytest.raises(BackendChoiceError, match="remove one of them") as caught:
        refuse_contradictions(BackendConfig.model_validate({"url": url, "api_key": "secret"}))
    refuse_contradictions(BackendConfig.model_validate({"url": url}))

    assert "secret" not in str(caught.value)


def test_the_limit_of_a_response_is_64_mb_unless_it_is_set() -> None:
    assert BackendConfig().max_response == 64 * 1024 * 1024
    assert BackendConfig(max_response_mb=0.5).max_response == 512 * 1024

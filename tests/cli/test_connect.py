"""What clients are told, and how it is merged into files that are theirs."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest
import yaml

from forge_proxy.cli.connect.clients import CLIENTS, File, Setup, Target
from forge_proxy.cli.connect.write import CannotWrite, as_text, write

TARGET = Target("http://127.0.0.1:8081", "sk-alice", "my-model", 32_768)
READERS = {"json": json.loads, "yaml": yaml.safe_load, "toml": tomllib.loads}


def setup(client: str, target: Target = TARGET) -> Setup:
    return CLIENTS[client](target)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("window", [32_768, None])
def test_what_is_shown_reads_back_as_what_is_meant_and_holds_key_address_and_window(
    client: str, window: int | None
) -> None:
    said = setup(client, Target(TARGET.root, TARGET.key, TARGET.model, window))

    texts = [as_text(file) for file in said.files]
    for file, text in zip(said.files, texts, strict=True):
        assert READERS[file.format](text) == file.values
    everything = "".join(texts) + str(said.variables)
    assert all(part in everything for part in (TARGET.root, TARGET.key, TARGET.model))
    assert "None" not in everything
    assert "null" not in everything
    if client != "openai":
        assert ("32768" in everything) is (window is not None)


@pytest.mark.parametrize(("window", "output"), [(131_072, 8192), (4096, 1024), (None, 8192)])
def test_an_answer_leaves_room_for_the_prompt(window: int | None, output: int) -> None:
    assert Target("http://x", "none", "m", window).output == output


@pytest.mark.parametrize("client", ["codex", "claude"])
def test_a_client_whose_route_is_not_served_yet_is_told_so(client: str) -> None:
    (note,) = setup(client).notes

    assert "does not serve /v1/" in note


@pytest.mark.parametrize("client", ["opencode", "codex", "claude", "aider", "continue"])
def test_a_new_file_is_for_its_owner_alone_and_writing_twice_changes_nothing(client: str, tmp_path: Path) -> None:
    for file in setup(client).files:
        path, backup = write(file, tmp_path)
        first = path.read_text()
        again, second_backup = write(file, tmp_path)

        assert (backup, path.stat().st_mode & 0o777, again) == (None, 0o600, path)
        assert READERS[file.format](path.read_text()) == READERS[file.format](first) == file.values
        assert second_backup is not None
        assert second_backup.read_text() == first


def merged(client: str, old: str, home: Path) -> tuple[str, str]:
    """What a client's file holds after the merge, and what the copy of the old one does."""
    file = setup(client).files[0]
    path = home / file.path.removeprefix("~/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(old)
    path.chmod(0o640)
    written, backup = write(file, home)
    assert backup is not None
    assert written.stat().st_mode & 0o777 == 0o640
    return written.read_text(), backup.read_text()


def test_json_keeps_what_is_not_ours(tmp_path: Path) -> None:
    old = (
        '{"theme": "dark", "provider": {"mine": {"npm": "x"}, "forge": {"options": {"timeout": 5}}}, "model": "mine/a"}'
    )
    new, kept = merged("opencode", old, tmp_path)

    said = json.loads(new)
    assert kept == old
    assert (said["theme"], said["provider"]["mine"], said["model"]) == ("dark", {"npm": "x"}, "forge/my-model")
    assert said["provider"]["forge"]["options"] == {
        "timeout": 5, "baseURL": "http://127.0.0.1:8081/v1", "apiKey": "sk-alice",
    }  # fmt: skip


def test_yaml_replaces_the_model_of_our_name_and_keeps_the_others(tmp_path: Path) -> None:
    old = "name: mine\nmodels:\n- {name: other, model: a}\n- {name: forge-proxy, model: old, roles: [chat]}\n"
    new, _ = merged("continue", old, tmp_path)

    said = yaml.safe_load(new)
    assert said["name"] == "mine"
    assert [(model["name"], model["model"]) for model in said["models"]] == [
        ("other", "a"), ("forge-proxy", "my-model"),
    ]  # fmt: skip


def test_toml_keeps_comments_and_other_tables(tmp_path: Path) -> None:
    old = (
        '# mine\nmodel = "gpt"  # old\napproval_policy = "never"\n\n'
        '[model_providers.forge]\nname = "old"\nbase_url = "x"\n\n'
        '[tools]\nweb_search = true\n\n[model_providers.other]\nname = "o"\n'
    )
    new, _ = merged("codex", old, tmp_path)

    said = tomllib.loads(new)
    assert (said["model"], said["approval_policy"], said["tools"]) == ("my-model", "never", {"web_search": True})
    assert said["model_providers"]["other"] == {"name": "o"}
    assert said["model_providers"]["forge"]["base_url"] == "http://127.0.0.1:8081/v1"
    assert "# mine" in new


@pytest.mark.parametrize(
    ("client", "old"),
    [
        ("opencode", "{"),
        ("opencode", "[]"),
        ("continue", "a: ["),
        ("codex", "model ="),
        ("codex", 'model = """\nlong\n"""\n'),
        ("continue", "- a"),
    ],
)
def test_a_file_that_cannot_be_merged_into_is_left_as_it_is(client: str, old: str, tmp_path: Path) -> None:
    file = setup(client).files[0]
    path = tmp_path / file.path.removeprefix("~/")
    path.parent.mkdir(parents=True)
    path.write_text(old)

    with pytest.raises(CannotWrite, match="left as it is"):
        write(file, tmp_path)

    assert path.read_text() == old
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / ".codex").write_text("a file")

    with pytest.raises(CannotWrite, match=r"config\.toml"):
        write(File("~/.codex/config.toml", "toml", {"a": 1}), tmp_path)
    assert os.listdir(tmp_path) == [".codex"]  # noqa: PTH208

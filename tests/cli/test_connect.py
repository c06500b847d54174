"""The configuration of each client, and how it is merged into the client's files."""

from __future__ import annotations

import json
import os
import resource
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from forge_proxy.cli.connect.clients import CLIENTS
from forge_proxy.cli.connect.jsonc import read_jsonc
from forge_proxy.cli.connect.setups import ClientConfigFile, ClientSetup, DaemonAddress, ServedModel
from forge_proxy.cli.connect.text import as_text
from forge_proxy.cli.connect.write import CannotWrite, restore, write

TARGET = DaemonAddress("http://127.0.0.1:8081", "sk-alice", "my-model", 32_768)
WITHOUT_WINDOW = ("openai", "cline", "openhands", "open-webui", "jan")
"""Clients that have no setting for it."""
WITH_FILES = [name for name, configure in CLIENTS.items() if configure(TARGET).files]
READERS = {"json": json.loads, "yaml": yaml.safe_load, "toml": tomllib.loads}


def setup(client: str, target: DaemonAddress = TARGET) -> ClientSetup:
    return CLIENTS[client](target)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("window", [32_768, None])
def test_the_printed_configuration_parses_and_contains_key_address_and_window(client: str, window: int | None) -> None:
    said = setup(client, DaemonAddress(TARGET.root, TARGET.key, TARGET.model, window))

    texts = [as_text(file) for file in said.files]
    for file, text in zip(said.files, texts, strict=True):
        assert READERS[file.format](text) == file.values
    everything = "".join(texts) + str(said.variables) + str(said.dialog or "")
    assert all(part in everything for part in (TARGET.root, TARGET.key, TARGET.model))
    assert "None" not in everything
    assert "null" not in everything
    if client not in WITHOUT_WINDOW:
        size = "24576" if client == "vscode" else "32768"  # VS Code has the input and the output in two fields
        assert (size in everything) is (window is not None)


@pytest.mark.parametrize(("window", "output"), [(131_072, 8192), (4096, 1024), (None, 8192)])
def test_the_output_limit_leaves_room_for_the_prompt(window: int | None, output: int) -> None:
    assert DaemonAddress("http://x", "none", "m", window).output == output


def test_opencode_is_configured_with_all_models_and_their_windows() -> None:
    to = DaemonAddress(
        TARGET.root, TARGET.key, "large", 65_536, (ServedModel("small", 4096), ServedModel("other", None))
    )
    (file,) = setup("opencode", to).files

    assert file.values["model"] == "forge/large"
    assert {name: one.get("limit") for name, one in file.values["provider"]["forge"]["models"].items()} == {
        "large": {"context": 65_536, "output": 8192},
        "small": {"context": 4096, "output": 1024},
        "other": None,
    }


@pytest.mark.parametrize("client", WITH_FILES)
def test_a_new_file_is_private_and_a_second_write_changes_nothing(client: str, tmp_path: Path) -> None:
    for file in setup(client).files:
        path, backup = write(file, tmp_path)
        first = path.read_text()
        again, second_copy = write(file, tmp_path)

        assert (backup, path.stat().st_mode & 0o777, again) == (None, 0o600, path)
        assert READERS[file.format](path.read_text()) == READERS[file.format](first) == file.values
        assert path.read_text() == first
        assert second_copy is None
        assert path.with_name(f"{path.name}.before-forge").read_text().endswith("--undo removes it.\n")


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


def test_json_keeps_the_users_values(tmp_path: Path) -> None:
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


def test_yaml_replaces_the_forge_proxy_entry_and_keeps_the_others(tmp_path: Path) -> None:
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
def test_an_unmergeable_file_is_unchanged(client: str, old: str, tmp_path: Path) -> None:
    file = setup(client).files[0]
    path = tmp_path / file.path.removeprefix("~/")
    path.parent.mkdir(parents=True)
    path.write_text(old)

    with pytest.raises(CannotWrite, match="the file is unchanged"):
        write(file, tmp_path)

    assert path.read_text() == old
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / ".codex").write_text("a file")

    with pytest.raises(CannotWrite, match=r"config\.toml"):
        write(ClientConfigFile("~/.codex/config.toml", "toml", {"a": 1}), tmp_path)
    assert os.listdir(tmp_path) == [".codex"]  # noqa: PTH208


COMMENTED = """{
  // my settings
  "theme": "dark", /* not light */
  "provider": {
    "mine": {"npm": "x"}, // keep
    "forge": {
      "options": {"timeout": 5}, // mine
    },
  },
  "model": "mine/a" // for now
}
"""


def test_comments_in_json_are_kept(tmp_path: Path) -> None:
    new, kept = merged("opencode", COMMENTED, tmp_path)

    said = read_jsonc(new)
    assert kept == COMMENTED
    assert (said["theme"], said["provider"]["mine"], said["model"]) == ("dark", {"npm": "x"}, "forge/my-model")
    assert said["provider"]["forge"]["options"]["baseURL"] == "http://127.0.0.1:8081/v1"
    for line in ("  // my settings", '  "theme": "dark", /* not light */', '    "mine": {"npm": "x"}, // keep'):
        assert line in new.splitlines()
    assert '"model": "forge/my-model", // for now' in new


def test_an_existing_opencode_jsonc_file_is_edited(tmp_path: Path) -> None:
    other = tmp_path / ".config/opencode/opencode.jsonc"
    other.parent.mkdir(parents=True)
    other.write_text("{}\n// mine\n")

    path, copy = write(setup("opencode").files[0], tmp_path)

    assert path == other
    assert read_jsonc(other.read_text())["model"] == "forge/my-model"
    assert copy is not None
    assert other.read_text().endswith("// mine\n")


def test_undo_restores_the_copies_in_reverse_order(tmp_path: Path) -> None:
    file = setup("opencode").files[0]
    path = tmp_path / ".config/opencode/opencode.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(b'{"model": "mine"}\r\n')
    path.chmod(0o640)

    write(file, tmp_path)
    between = path.read_text()
    write(setup("opencode", DaemonAddress(TARGET.root, "other", "m", None)).files[0], tmp_path)
    seen: list[str] = []
    while restore(file, tmp_path) is not None:
        seen.append(path.read_text())

    assert seen == [between, '{"model": "mine"}\n']
    assert path.read_bytes() == b'{"model": "mine"}\r\n'
    assert path.stat().st_mode & 0o777 == 0o640
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_symbolic_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    target, link = tmp_path / "dotfiles/opencode.json", tmp_path / ".config/opencode/opencode.json"
    target.parent.mkdir()
    link.parent.mkdir(parents=True)
    target.write_text("{}")
    link.symlink_to(target)

    write(setup("opencode").files[0], tmp_path)

    assert link.is_symlink()
    assert json.loads(target.read_text())["model"] == "forge/my-model"
    assert [one.name for one in target.parent.iterdir()] == [target.name]


def test_a_read_only_file_is_unchanged_and_not_copied(tmp_path: Path) -> None:
    path = tmp_path / ".config/opencode/opencode.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    path.chmod(0o444)

    with pytest.raises(CannotWrite, match="the file is read-only; the file is unchanged"):
        write(setup("opencode").files[0], tmp_path)

    assert path.read_text() == "{}"
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_codex_asks_for_the_catalog_since_its_key_comes_from_a_command(tmp_path: Path) -> None:
    new, _ = merged("codex", '[model_providers.forge.auth]\ncommand = "old"\n\n[tools]\nweb_search = true\n', tmp_path)

    provider = tomllib.loads(new)["model_providers"]["forge"]
    assert provider["auth"] == {"command": "echo", "args": ["sk-alice"]}
    assert "env_key" not in provider
    assert tomllib.loads(new)["tools"] == {"web_search": True}


def test_claude_code_gets_the_small_model_for_side_tasks_and_room_for_its_prompt() -> None:
    to = DaemonAddress(TARGET.root, TARGET.key, "large", 32_768, small="small")
    variables = setup("claude", to).files[0].values["env"]

    models = {name: value for name, value in variables.items() if name.endswith("_MODEL")}
    assert {name for name, value in models.items() if value == "small"} == {
        "ANTHROPIC_DEFAULT_HAIKU_MODEL", "ANTHROPIC_SMALL_FAST_MODEL",
    }  # fmt: skip
    assert set(models.values()) == {"large", "small"}
    assert variables["CLAUDE_CODE_ATTRIBUTION_HEADER"] == "0"
    assert int(variables["CLAUDE_CODE_MAX_OUTPUT_TOKENS"]) < int(variables["CLAUDE_CODE_MAX_CONTEXT_TOKENS"])


def test_a_file_that_contains_a_list_keeps_its_other_entries(tmp_path: Path) -> None:
    old = '[\n  // mine\n  {"name": "other", "vendor": "ollama"},\n  {"name": "forge-proxy", "apiKey": "old"},\n]\n'
    new, kept = merged("vscode", old, tmp_path)

    said = json.loads(new)
    assert kept == old
    assert [entry["name"] for entry in said] == ["other", "forge-proxy"]
    assert said[1]["apiKey"] == "sk-alice"


def test_a_list_file_that_contains_an_object_is_unchanged(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match=r"it is not a list\); the file is unchanged"):
        merged("vscode", '{"a": 1}', tmp_path)


@contextmanager
def no_file_larger_than(size: int) -> Generator[None]:
    """A bound of the operating system on what this process writes: like a full disk, the rest of a write fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_only_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / ".config/opencode/opencode.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}")

    with no_file_larger_than(100), pytest.raises(CannotWrite, match=r"opencode\.json: .*the file is unchanged"):
        write(setup("opencode").files[0], tmp_path)

    assert path.read_text() == "{}"
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_binary_file_is_unchanged(tmp_path: Path) -> None:
    path = tmp_path / ".config/opencode/opencode.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\xff\xfe{}")

    with pytest.raises(CannotWrite, match="not UTF-8 text"):
        write(setup("opencode").files[0], tmp_path)

    assert path.read_bytes() == b"\xff\xfe{}"

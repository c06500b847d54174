"""The configuration of terminal clients and SDKs, as values. Pure; `write.py` finds the files and merges the values.

The fields are documented by the clients. `tests/harness` runs opencode, aider, Codex and Claude Code with such fields;
the files of the other clients have not been tried in the clients themselves.
"""

from __future__ import annotations

from forge_proxy.cli.connect.setups import MESSAGES, RESPONSES, ClientConfigFile, ClientSetup, DaemonAddress


def opencode(to: DaemonAddress) -> ClientSetup:
    """Configure opencode, which uses chat completions."""
    models = {
        one.name: {
            "name": one.name, **({"limit": {"context": one.window, "output": one.output}} if one.window else {}),
        }
        for one in to.models
    }  # fmt: skip
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "forge-proxy",
        "options": {"baseURL": to.base, "apiKey": to.key},
        "models": models,
    }
    values = {
        "$schema": "https://opencode.ai/config.json",
        "model": f"forge/{to.model}",
        **({"small_model": f"forge/{to.small}"} if to.small else {}),
        "provider": {"forge": provider},
    }
    folder = "~/.config/opencode"
    file = ClientConfigFile(f"{folder}/opencode.json", "json", values, (f"{folder}/opencode.jsonc",))
    return ClientSetup((file,), run="opencode")


def codex(to: DaemonAddress) -> ClientSetup:
    """Configure Codex, which uses responses.

    Codex requests the model catalog of a provider only if the key comes from a command (observed with 0.169).
    """
    window = {"model_context_window": to.window} if to.window else {}
    provider = {
        "name": "forge-proxy",
        "base_url": to.base,
        "wire_api": "responses",
        "auth": {"command": "echo", "args": [to.key]},
    }
    values = {"model": to.model, "model_provider": "forge", **window, "model_providers": {"forge": provider}}
    return ClientSetup((ClientConfigFile("~/.codex/config.toml", "toml", values),), run="codex", route=RESPONSES)


def claude(to: DaemonAddress) -> ClientSetup:
    """Configure Claude Code, which uses messages."""
    window: dict[str, str] = {}
    if to.window:
        # Claude Code reserves room for the longest response, so a limit above the window would leave no room at all.
        window = {"CLAUDE_CODE_MAX_CONTEXT_TOKENS": str(to.window), "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(to.output)}
    variables = {
        "ANTHROPIC_BASE_URL": to.root,
        "ANTHROPIC_AUTH_TOKEN": to.key,
        "ANTHROPIC_API_KEY": "",
        "ANTHROPIC_MODEL": to.model,
        **{f"ANTHROPIC_DEFAULT_{name}_MODEL": to.model for name in ("OPUS", "SONNET")},
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": to.small_model,
        "ANTHROPIC_SMALL_FAST_MODEL": to.small_model,  # older versions
        "CLAUDE_CODE_SUBAGENT_MODEL": to.model,
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        "CLAUDE_CODE_TOTAL_TOKENS_REMINDER": "off",
        **window,
    }
    file = ClientConfigFile("~/.claude/settings.json", "json", {"env": variables})
    return ClientSetup((file,), run="claude", route=MESSAGES)


def aider(to: DaemonAddress) -> ClientSetup:
    """Configure aider, which uses chat completions without tools."""
    name = f"openai/{to.model}"
    values = {"model": name, "openai-api-base": to.base, "openai-api-key": to.key}
    files = [ClientConfigFile("~/.aider.conf.yml", "yaml", values)]
    if to.window:
        known = {"max_input_tokens": to.window, "max_output_tokens": to.output, "max_tokens": to.output}
        entry = {**known, "litellm_provider": "openai", "mode": "chat"}
        files.append(ClientConfigFile("~/.aider.model.metadata.json", "json", {name: entry}))
    return ClientSetup(tuple(files), run="aider")


def continue_(to: DaemonAddress) -> ClientSetup:
    """Configure Continue, which uses chat completions."""
    options = {"contextLength": to.window, "maxTokens": to.output} if to.window else {}
    entry = {
        "name": "forge-proxy",
        "provider": "openai",
        "model": to.model,
        "apiBase": to.base,
        "apiKey": to.key,
        "roles": ["chat", "edit", "apply"],
        "capabilities": ["tool_use"],
        **({"defaultCompletionOptions": options} if options else {}),
    }
    values = {"name": "forge-proxy", "version": "0.0.1", "schema": "v1", "models": [entry]}
    return ClientSetup((ClientConfigFile("~/.continue/config.yaml", "yaml", values),), run="cn")


def openai(to: DaemonAddress) -> ClientSetup:
    """Configure the openai SDKs and programs built on them."""
    return ClientSetup(variables={"OPENAI_BASE_URL": to.base, "OPENAI_API_KEY": to.key, "OPENAI_MODEL": to.model})


def env(to: DaemonAddress) -> ClientSetup:
    """Set every variable that some client of chat completions reads."""
    window = {"FORGE_CONTEXT_WINDOW": str(to.window)} if to.window else {}
    return ClientSetup(variables={**openai(to).variables, "OPENAI_API_BASE": to.base, **window})

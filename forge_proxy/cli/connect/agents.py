"""The configuration of further agents and of chat programs, as values. Pure.

Sources of the fields: `crates/goose/src/config/declarative_providers.rs` of github.com/block/goose (goose);
docs.openhands.dev and the README of github.com/OpenHands/OpenHands-CLI (OpenHands); docs.openwebui.com (Open WebUI);
www.jan.ai/docs/desktop/remote-models/custom-endpoint and www.jan.ai/docs/agent/providers (Jan).
"""

from __future__ import annotations

from forge_proxy.cli.connect.setups import ClientConfigFile, ClientSetup, DaemonAddress, SettingsDialog


def goose(to: DaemonAddress) -> ClientSetup:
    """Configure goose, which uses chat completions and reads the key from the environment or its key ring."""
    provider = {
        "name": "forge",
        "engine": "openai",
        "display_name": "forge-proxy",
        "description": "The models of forge-proxy",
        "api_key_env": "FORGE_API_KEY",
        "base_url": f"{to.base}/chat/completions",
        "models": [{"name": one.name, "context_limit": one.window_or_default} for one in to.models],
        "supports_streaming": True,
        "requires_auth": to.key != "none",
    }
    folder = "~/.config/goose"
    chosen = {"GOOSE_PROVIDER": "forge", "GOOSE_MODEL": to.model}
    return ClientSetup(
        (
            ClientConfigFile(f"{folder}/custom_providers/forge.json", "json", provider),
            ClientConfigFile(f"{folder}/config.yaml", "yaml", chosen),
        ),
        {"FORGE_API_KEY": to.key},
        "goose",
    )


def openhands(to: DaemonAddress) -> ClientSetup:
    """Configure the command line of OpenHands, which uses chat completions by LiteLLM."""
    return ClientSetup(
        variables={"LLM_MODEL": f"openai/{to.model}", "LLM_BASE_URL": to.base, "LLM_API_KEY": to.key},
        run="openhands --override-with-envs",
        dialog=SettingsDialog(
            "Settings > LLM, with Advanced enabled",
            {"Custom Model": f"openai/{to.model}", "Base URL": to.base, "API Key": to.key},
            "the format of its settings files is not documented",
        ),
    )


def open_webui(to: DaemonAddress) -> ClientSetup:
    """Configure Open WebUI, which uses chat completions."""
    return ClientSetup(
        variables={"OPENAI_API_BASE_URL": to.base, "OPENAI_API_KEY": to.key},
        run="open-webui serve",
        dialog=SettingsDialog(
            "Admin Settings > Connections > OpenAI > Add Connection",
            {"URL": to.base, "API Key": to.key, "Model IDs (Filter)": to.model},
            "it reads the variables only at its first start, and then stores its settings in its database",
        ),
        note="in a container, 127.0.0.1 is the container: use the address of the host there",
    )


def jan(to: DaemonAddress) -> ClientSetup:
    """Configure Jan, which uses chat completions."""
    return ClientSetup(
        dialog=SettingsDialog(
            "Settings > Model Providers > Add Provider",
            {"API format": "OpenAI-compatible", "Base URL": to.base, "API Key": to.key, "Model": to.model},
            "it stores its settings in an internal database",
        ),
        note=f"the command line of Jan: jan config set --provider forge --base-url {to.base} --api-key {to.key} "
        f"--model {to.model} --api-type openai",
    )

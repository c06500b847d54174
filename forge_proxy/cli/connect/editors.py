"""The configuration of editors and their extensions, as values. Pure.

Sources of the fields: zed.dev/docs/ai/use-api-access (Zed); github.com/microsoft/vscode/issues/316916 (the provider
"Custom Endpoint" of VS Code 1.122); `src/package.nls.json` and `src/core/config/importExport.ts` of
github.com/RooCodeInc/Roo-Code (automatic import). The file of cline is the one with which `tests/harness` runs it.
"""

from __future__ import annotations

import sys

from forge_proxy.cli.connect.setups import ClientConfigFile, ClientSetup, DaemonAddress

_VSCODE_LINUX, _VSCODE_MACOS = "~/.config/Code/User", "~/Library/Application Support/Code/User"
_ROO_PROFILE = "forge-proxy"


def zed(to: DaemonAddress) -> ClientSetup:
    """Configure Zed, which uses chat completions. It reads the key of a provider from `<PROVIDER>_API_KEY`."""
    models = [
        {
            "name": one.name,
            "display_name": f"{one.name} (forge-proxy)",
            "max_tokens": one.window_or_default,
            "max_output_tokens": one.output,
            "capabilities": {"tools": True, "images": False, "parallel_tool_calls": True, "prompt_cache_key": False},
        }
        for one in to.models
    ]
    values = {
        "language_models": {"openai_compatible": {"forge": {"api_url": to.base, "available_models": models}}},
        "agent": {"default_model": {"provider": "forge", "model": to.model}},
    }
    return ClientSetup(
        (ClientConfigFile("~/.config/zed/settings.json", "json", values),),
        {"FORGE_API_KEY": to.key},
        "zed",
        note="Zed reads FORGE_API_KEY only if it is started from this shell; otherwise enter the key in its settings, "
        "AI > LLM Providers > forge",
    )


def vscode(to: DaemonAddress) -> ClientSetup:
    """Configure the chat of VS Code, which uses chat completions."""
    models = [
        {
            "id": one.name,
            "name": one.name,
            "url": f"{to.base}/chat/completions",
            "toolCalling": True,  # models without it are not offered
            "vision": False,
            "maxInputTokens": one.window_or_default - one.output,
            "maxOutputTokens": one.output,
        }
        for one in to.models
    ]
    entry = {
        "name": "forge-proxy",
        "vendor": "customendpoint",
        "apiKey": to.key,
        "apiType": "chat-completions",
        "models": models,
    }
    folder, other = _vscode_folders()
    file = ClientConfigFile(f"{folder}/chatLanguageModels.json", "json", [entry], (f"{other}/chatLanguageModels.json",))
    return ClientSetup(
        (file,),
        run="code",
        note="needs VS Code 1.122 with GitHub Copilot Chat, or newer; restart it, then choose the model in the chat",
    )


def cline(to: DaemonAddress) -> ClientSetup:
    """Configure the command line of cline, which uses chat completions."""
    settings = {"provider": "openai-compatible", "apiKey": to.key, "model": to.model, "baseUrl": to.base}
    provider = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    values = {
        "version": 1,
        "lastUsedProvider": "openai-compatible",
        "modes": {},
        "providers": {"openai-compatible": provider},
    }
    return ClientSetup(
        (ClientConfigFile("~/.cline/data/settings/providers.json", "json", values),),
        run="cline",
        note="the extension for VS Code stores its settings in the editor: choose the API provider OpenAI Compatible "
        f"there, base URL {to.base}, model ID {to.model}",
    )


def roo(to: DaemonAddress) -> ClientSetup:
    """Configure Roo Code, which uses chat completions and imports a file when VS Code starts."""
    model = to.models[0]
    info = {
        "maxTokens": model.output,
        "contextWindow": model.window_or_default,
        "supportsImages": False,
        "supportsPromptCache": False,
    }
    profile = {
        "apiProvider": "openai",
        "openAiBaseUrl": to.base,
        "openAiApiKey": to.key,
        "openAiModelId": to.model,
        "openAiCustomModelInfo": info,
    }
    imported = "~/.roo/forge-proxy.json"
    profiles = {"currentApiConfigName": _ROO_PROFILE, "apiConfigs": {_ROO_PROFILE: profile}}
    folder, other = _vscode_folders()
    setting = {"roo-cline.autoImportSettingsPath": imported}
    return ClientSetup(
        (
            ClientConfigFile(imported, "json", {"providerProfiles": profiles}),
            ClientConfigFile(f"{folder}/settings.json", "json", setting, (f"{other}/settings.json",)),
        ),
        run="code",
        note=f"Roo Code imports {imported} whenever VS Code starts",
    )


def _vscode_folders() -> tuple[str, str]:
    """The folder of the user's settings on this system, and that on the other one."""
    is_macos = sys.platform == "darwin"
    return (_VSCODE_MACOS, _VSCODE_LINUX) if is_macos else (_VSCODE_LINUX, _VSCODE_MACOS)

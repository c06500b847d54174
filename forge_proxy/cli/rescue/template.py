"""Learns the form of calls from the template that `--template` names, in a process as the daemon does."""

from __future__ import annotations

import asyncio
from pathlib import Path

from forge_proxy.backends.chat_templates.files import TemplateFileError, read_template_file
from forge_proxy.backends.chat_templates.server import ServerTemplates
from forge_proxy.cli.rescue import InputError
from forge_proxy.core.rescue.templates import LearnedTemplate
from forge_proxy.engine.process_pool import ProcessPool

_SECONDS = 20.0


def learn_template_file(file: Path) -> LearnedTemplate:
    """Return what is learned from a file. Raises `InputError` if it contains no template."""
    try:
        read_template_file(file)
    except TemplateFileError as error:
        raise InputError(str(error)) from error
    return asyncio.run(_learn(file))


async def _learn(file: Path) -> LearnedTemplate:
    pool = ProcessPool(processes=1, seconds=_SECONDS)
    try:
        return await ServerTemplates(None, pool, file).learn(None, None)
    finally:
        await pool.close()

"""Learns a template's form: renders the conversations with one variant of a message after the other."""

from __future__ import annotations

from collections.abc import Callable

from forge_proxy.backends.chat_templates import RenderError
from forge_proxy.core.rescue.templates import Conversation, LearnedTemplate, learn_form, list_conversations
from forge_proxy.core.rescue.templates.probes import VARIANTS, Variant


def learn_template(source: str) -> LearnedTemplate:
    """Return the form of the calls that this template renders. Raises nothing. Blocks: for a process of the pool."""
    # jinja2 is needed only in the processes of the pool, and its import takes longer than the event loop may be blocked
    from forge_proxy.backends.chat_templates.sandbox import compile_template, limit_memory

    with limit_memory():
        try:
            render = compile_template(source)
        except RenderError as error:
            return LearnedTemplate(None, "no renderings", str(error))
        return _learn(render)


def _learn(render: Callable[[Conversation], str]) -> LearnedTemplate:
    """Return the form that the first variant shows; if none does, the failure of the one that got furthest."""
    best = LearnedTemplate(None, "no renderings")
    for variant in VARIANTS:
        learned = learn_form(render_variant(render, variant))
        if learned.form:
            return learned
        best = max(best, learned, key=lambda result: result.progress)
    return best


def render_variant(render: Callable[[Conversation], str], variant: Variant) -> dict[str, str]:
    """Return the renderings of a variant, without those that the template refuses."""
    renderings: dict[str, str] = {}
    for name, conversation in list_conversations(variant):
        try:
            renderings[name] = render(conversation)
        except RenderError:
            continue
    return renderings

"""Learns from a model's chat template how the model writes calls.

`probes` are the conversations that a caller renders with the template, in its own sandbox or on the model's server.
`learn` compares the renderings and returns a `LearnedForm`. Pure: neither renders anything.
"""

from forge_proxy.core.rescue.templates.describe import describe_template
from forge_proxy.core.rescue.templates.learn import FAILURES, LearnedTemplate, learn_form, read_learned
from forge_proxy.core.rescue.templates.probes import Conversation, list_conversations

__all__ = [
    "FAILURES",
    "Conversation",
    "LearnedTemplate",
    "describe_template",
    "learn_form",
    "list_conversations",
    "read_learned",
]

"""Describes what was learned from a template, for the command line and logs."""

from __future__ import annotations

from forge_proxy.core.jsontypes import Json, write
from forge_proxy.core.rescue.grammar.learned_form import ANY_ID, ANY_NUMBER, BY_KEY, SAME_KEY, LearnedForm
from forge_proxy.core.rescue.templates.learn import FAILURES, LearnedTemplate

_PLACEHOLDERS = ((ANY_ID, "ID"), (ANY_NUMBER, "N"), (SAME_KEY, "KEY"))


def describe_template(learned: LearnedTemplate) -> str:
    """Return an example of the learned form, with its white space escaped, or the reason why there is none."""
    if learned.form is not None:
        return repr(render_example(learned.form))
    reason = FAILURES.get(learned.failure, learned.failure)
    return f"not learned: {reason}: {learned.detail}" if learned.detail else f"not learned: {reason}"


def render_example(form: LearnedForm) -> str:
    """Return a call in this form, of the tool `NAME` with the argument `KEY`."""
    match form.shape:
        case "object":
            call = _object(form)
        case "named":
            call = f'NAME{form.name_closes}{{"KEY": "VALUE"}}'
        case "arguments":
            values = "".join(f"{style.name_opens}KEY{style.opens}VALUE{style.closes}" for style in form.styles[:1])
            call = f"NAME{form.name_closes}{values}"
    text = f"{form.block_opens}{form.call_opens}{call}{form.call_closes}{form.block_closes}"
    for placeholder, word in _PLACEHOLDERS:
        text = text.replace(placeholder, word)
    return text


def _object(form: LearnedForm) -> str:
    arguments: Json = {"KEY": "VALUE"}
    if form.name_path == BY_KEY:
        return write({"NAME": arguments})
    root: dict[str, Json] = {}
    for path, value in ((form.name_path, "NAME"), (form.arguments_path, arguments)):
        at = root
        for key in path[:-1]:
            inner = at.setdefault(key, {})
            assert isinstance(inner, dict)  # noqa: S101  no path leads through the end of the other
            at = inner
        at[path[-1]] = value
    return write(root)

"""Chat templates are programs of unknown origin: they are rendered in a sandbox with limits."""

from __future__ import annotations

import asyncio
import resource
from functools import partial

import pytest

from forge_proxy.backends.chat_templates import MAX_TEMPLATE, RenderError
from forge_proxy.backends.chat_templates.learning import learn_template
from forge_proxy.backends.chat_templates.sandbox import compile_template, limit_memory
from forge_proxy.core.rescue.templates import Conversation
from forge_proxy.engine.process_pool import ProcessPool

TALK = Conversation(({"role": "user", "content": "Hi <b>"},), ())


def render(source: str) -> str:
    """What a template renders."""
    return compile_template(source)(TALK)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ messages[0] | tojson }}", '{"role": "user", "content": "Hi <b>"}'),
        ("{{ {'b': 'é', 'a': 1} | tojson(ensure_ascii=True, sort_keys=True) }}", '{"a": 1, "b": "\\u00e9"}'),
        ("{{ [1, 2] | tojson(separators=(',', ':')) }}", "[1,2]"),
        ("{{ {'a': 1} | tojson(indent=2) }}", '{\n  "a": 1\n}'),
        ("{{ messages | map(attribute='role') | tojson }}", '["user"]'),
        ("{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "13"),
        ("{% set n = namespace(x=1) %}{% set n.x = 2 %}{{ n.x }}", "2"),
        ("{% generation %}a{% endgeneration %}", "a"),
        ("{% set l = [] %}{% set _ = l.append(1) %}{{ l }}", "[1]"),
        ("{{ strftime_now('%Y') | length }}", "4"),
        ("{{ tools is defined and not tools }}{{ add_generation_prompt }}", "TrueFalse"),
    ],
)
def test_the_helpers_that_templates_use_are_available(source: str, text: str) -> None:
    assert render(source) == text


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.environ }}",
        "{% set _ = messages[0].update(role='x') %}",
        "{% set _ = messages.clear() %}",
        "{% include 'x' %}",
        "{{ 'a' * 100000000 }}",
        "{{ 2 ** 1000000 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ range(1000000000) | list }}",
        "{% for a in range(90000) %}{{ 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' }}{% endfor %}",
        "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}",
        "{{ raise_exception('Roles must alternate.') }}",
        "{{ nothing.at.all }}",
        "{{ 1 / 0 }}",
        "{% for %}",
        "{{ 'x' }}" * MAX_TEMPLATE,
    ],
)
def test_what_a_template_must_not_do_is_an_error(source: str) -> None:
    with pytest.raises(RenderError):
        render(source)


def test_rendering_cannot_change_the_conversations() -> None:
    source = "{% set _ = messages.append('x') %}{{ messages | length }}"

    assert render(source) == render(source) == "2"


def test_the_memory_limit_ends_with_the_rendering() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)

    with limit_memory(), pytest.raises(MemoryError):
        bytearray(2**31)

    assert resource.getrlimit(resource.RLIMIT_AS) == before


async def test_a_template_that_never_ends_is_stopped_with_its_process() -> None:
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    pool = ProcessPool(seconds=1.5)
    try:
        assert await pool.run(partial(learn_template, endless)) is None
    finally:
        await pool.close()


async def test_a_template_is_learned_in_a_process_of_the_pool() -> None:
    source = (
        "{% for m in messages %}<{{ m.role }}>{{ m.content or '' }}{% for c in m.tool_calls or [] %}"
        "<|run|>{{ c.function.name }}<|with|>{{ c.function.arguments | tojson }}<|end|>{% endfor %}{% endfor %}"
    )
    pool = ProcessPool(seconds=30)
    try:
        learned, *_ = await asyncio.gather(pool.run(partial(learn_template, source)))
    finally:
        await pool.close()

    assert learned is not None
    assert learned.form == learn_template(source).form
    assert learned.form is not None
    assert learned.form.call_opens == "<|run|>"

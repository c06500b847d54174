"""Inputs and effort budget of one parse: the offered tool names, and the work allowed on broken text."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from forge_proxy.core.rescue.context.skip_unparsed import skip_brackets
from forge_proxy.core.rescue.grammar.learned_form import LearnedForm
from forge_proxy.core.rescue.grammar.openers import Openers, openers
from forge_proxy.core.tool_names import offered_names

ObjectRepairer = Callable[[str], "str | None"]
"""Returns the JSON text of the object that a broken text represents, or None."""

LIGHT = 16_000
"""Characters of broken text parsed while a client waits: about 5 ms of work."""
THOROUGH = 4_000_000
SEARCH = 4_000_000
"""Characters searched for closing tags: four arguments of 1 MB each, or a few hundred of the usual size."""


class ParseContext:
    """State of one parse of one text: budgets shrink and `may_recover_more` may be set; everything else is constant."""

    def __init__(
        self,
        names: Iterable[str],
        repair: ObjectRepairer | None = None,
        form: LearnedForm | None = None,
        *,
        general: bool = True,
    ) -> None:
        self.names = tuple(sorted(names))
        self.form = form
        """The form learned from the model's chat template, which is read before the general grammar."""
        self.general = general
        """Whether the general grammar applies; without it, only the learned form is read, to measure it alone."""
        self._offered = offered_names(self.names)
        self.repair = repair
        """The last resort for broken objects, for a parse that no client waits for."""
        self.effort = THOROUGH if repair else LIGHT
        """Remaining budget, in characters of broken text."""
        self._search_budget = SEARCH
        self._resolved: dict[str, str | None] = {}
        self._past_key = (0, 0, 0)
        self._past_result = 0
        self.may_recover_more = False
        """Whether broken text was skipped that a parse with a larger effort budget might succeed on."""

    @property
    def openers(self) -> Openers:
        """The search for possible starts."""
        return openers(self.names, self.form, general=self.general)

    def may_search(self, length: int) -> bool:
        """Whether the budget allows a search of this many characters for closing tags."""
        return length <= self._search_budget

    def spend_search(self, length: int) -> None:
        """Subtract searched characters from the search budget."""
        self._search_budget -= length

    def skip_brackets(self, text: str, at: int) -> int:
        """Return the position after the brackets that open at `at`, limited by the remaining effort. The last result is
        cached, because several readers request it.
        """
        key = (id(text), at, self.effort)
        if key != self._past_key:
            self._past_key, self._past_result = key, skip_brackets(text, at, self.effort + 1)
        return self._past_result

    def resolve_name(self, written_name: str) -> str | None:
        """Return the offered tool that the written name resolves to; None if there is none."""
        if written_name in self._offered:
            return written_name
        if written_name not in self._resolved:
            self._resolved[written_name] = self._offered.resolve(written_name)
        return self._resolved[written_name]

    def may_begin_name(self, prefix: str) -> bool:
        """Whether the name of an offered tool starts with this text."""
        return self._offered.any_begins_with(prefix)

    def may_try(self, length: int) -> bool:
        """Whether the budget allows this many characters of broken text; sets `may_recover_more` if not."""
        if length <= self.effort:
            return True
        self.may_recover_more = True
        return False

    def spend_effort(self, length: int) -> None:
        """Subtract characters of broken text from the budget."""
        self.effort -= length

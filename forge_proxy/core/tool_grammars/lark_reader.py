"""Reads a grammar in Lark's syntax. Templates, and imports from other libraries than `common`, are refused.

The library `lark` reads the same syntax, but not the grammar of Codex's `apply_patch`, and not in bounded time
(docs/decisions/0035-tool-grammars.md).
"""

from __future__ import annotations

import orjson

from forge_proxy.core.tool_grammars.common_terminals import COMMON_TERMINALS
from forge_proxy.core.tool_grammars.lark_tokens import GrammarToken, TokenKind, tokenize
from forge_proxy.core.tool_grammars.nodes import (
    MAX_DEPTH,
    CharSet,
    Concatenation,
    Labelled,
    LiteralText,
    Node,
    Repetition,
    RuleReference,
    RuleSet,
    UnsupportedGrammar,
    in_order,
    one_of,
    references,
    transform,
)
from forge_proxy.core.tool_grammars.regex_reader import read_regex

_MAX_REPEAT = 1_000
_ANY_TEXT = frozenset({".*", ".+", "(.*)", "(.+)"})
_LONGEST_LABEL = 60
_LIBRARY = "common."
"""Begins the names of the library's terminals, which no rule of a client can have."""
_BEGIN = "start"
_BEGIN_AFTER_IGNORED = "$start"
"""The start rule of a grammar with `%ignore`; no rule of a client can have this name."""


class LarkReader:
    """Reads the definitions of one grammar."""

    def __init__(self, definition: str) -> None:
        self._tokens = [*tokenize(definition)]
        self._at = 0
        self._rules: dict[str, Node] = {}
        self._ignored: list[Node] = []
        self._in_terminal = False

    def read(self) -> RuleSet:
        """Return the grammar. Raises `UnsupportedGrammar`."""
        while self._at < len(self._tokens):
            if self._accept("newline") is None:
                self._definition()
        self._add_imported()
        if _BEGIN not in self._rules:
            raise UnsupportedGrammar("a grammar without the rule start")
        rules = {name: self._with_labels(name, node) for name, node in self._rules.items()}
        if not self._ignored:
            return RuleSet(_BEGIN, rules)
        ignored = Repetition(one_of(self._ignored))

        def skip_ignored(node: Node) -> Node:
            return Concatenation((node, ignored)) if isinstance(node, Labelled) else node

        rules = {name: node if _is_terminal(name) else transform(node, skip_ignored) for name, node in rules.items()}
        rules[_BEGIN_AFTER_IGNORED] = Concatenation((ignored, RuleReference(_BEGIN)))
        return RuleSet(_BEGIN_AFTER_IGNORED, rules)

    def read_terminal(self) -> Node:
        """Return the only definition, that of a terminal."""
        self._definition()
        (node,) = self._rules.values()
        return node

    def _definition(self) -> None:
        token = self._next()
        if token.kind == "directive":
            self._directive(token.text)
            return
        if token.kind not in ("rule", "terminal"):
            raise UnsupportedGrammar("a definition without a name")
        if self._accept("operator", "."):  # a priority: it selects among derivations, not texts
            self._expect("number")
        self._expect("operator", ":")
        self._in_terminal = token.kind == "terminal"
        if token.text in self._rules:
            raise UnsupportedGrammar("a rule that is defined twice")
        self._rules[token.text] = self._alternatives(0)
        self._expect("newline")

    def _directive(self, name: str) -> None:
        match name:
            case "%ignore":
                self._in_terminal = True
                self._ignored.append(self._alternatives(0))
            case "%import":
                self._import()
            case _:
                raise UnsupportedGrammar("a directive other than %import and %ignore")
        self._expect("newline")

    def _import(self) -> None:
        if self._expect("rule").text != "common":
            raise UnsupportedGrammar("an import from another library than common")
        if self._accept("operator", "."):
            name = self._expect("terminal").text
            self._define_import(self._expect("terminal").text if self._accept("operator", "->") else name, name)
            return
        self._expect("operator", "(")
        while True:
            name = self._expect("terminal").text
            self._define_import(name, name)
            if self._accept("operator", ",") is None:
                break
        self._expect("operator", ")")

    def _define_import(self, name: str, imported: str) -> None:
        if imported not in COMMON_TERMINALS:
            raise UnsupportedGrammar("an import that the library common does not have")
        self._rules[name] = RuleReference(_own_name(imported))

    def _add_imported(self) -> None:
        """Add the definitions of the library's terminals that are used, under names of their own."""
        pending = [name for node in (*self._rules.values(), *self._ignored) for name in references(node)]
        while pending:
            name = pending.pop()
            if name in self._rules:
                continue
            if not name.startswith(_LIBRARY):
                raise UnsupportedGrammar("a name that is not defined")
            self._rules[name] = _read_common(name.removeprefix(_LIBRARY))
            pending += references(self._rules[name])

    def _alternatives(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise UnsupportedGrammar("groups that are nested too deeply")
        options = [self._sequence(depth)]
        while self._accept("operator", "|"):
            options.append(self._sequence(depth))
        return one_of(options)

    def _sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while (atom := self._atom(depth)) is not None:
            parts.append(self._read_quantifier(atom))
        if self._accept("operator", "->"):
            self._expect("rule")
        return in_order(parts)

    def _atom(self, depth: int) -> Node | None:
        token = self._peek()
        match token.kind:
            case "string":
                return self._string()
            case "regex":
                self._at += 1
                label = "text" if token.text in _ANY_TEXT else f"text like /{_cut(token.text)}/"
                return self._add_label(read_regex(token.text, token.flags), label)
            case "rule" | "terminal":
                self._at += 1
                if self._accept("operator", "{") or (self._in_terminal and token.kind == "rule"):
                    raise UnsupportedGrammar("a template, or a rule in a terminal")
                return RuleReference(token.text)
            case "operator" if token.text in ("(", "["):
                self._at += 1
                node = self._alternatives(depth + 1)
                self._expect("operator", ")" if token.text == "(" else "]")
                return node if token.text == "(" else Repetition(node, 0, 1)
            case _:
                return None

    def _string(self) -> Node:
        low = self._next()
        if self._accept("operator", ".."):
            high = self._expect("string")
            if len(low.text) != 1 or len(high.text) != 1 or high.text < low.text:
                raise UnsupportedGrammar("a range that is not of two characters in order")
            node = CharSet(((ord(low.text), ord(high.text)),), ignore_case=bool(low.flags))
            return self._add_label(node, f"{_quote(low.text)} to {_quote(high.text)}")
        node = LiteralText(low.text, ignore_case=bool(low.flags))
        return self._add_label(node, _label_of_text(low.text))

    def _read_quantifier(self, node: Node) -> Node:
        for operator, low, high in (("?", 0, 1), ("*", 0, None), ("+", 1, None)):
            if self._accept("operator", operator):
                return Repetition(node, low, high)
        if self._accept("operator", "~") is None:
            return node
        least = int(self._expect("number").text)
        most = int(self._expect("number").text) if self._accept("operator", "..") else least
        if not 0 <= least <= most <= _MAX_REPEAT:
            raise UnsupportedGrammar("a repetition with such counts")
        return Repetition(node, least, most)

    def _add_label(self, node: Node, label: str) -> Node:
        return node if self._in_terminal else Labelled(node, label)

    def _with_labels(self, name: str, node: Node) -> Node:
        """Label the terminals of a rule, and a rule that is only a regular expression by the rule's own name."""
        if _is_terminal(name):
            return node
        if isinstance(node, Labelled) and node.label.startswith("text"):
            return Labelled(node.part, name.strip("_").replace("_", " "))
        return transform(node, self._label_terminal)

    def _label_terminal(self, reference: Node) -> Node:
        if not (isinstance(reference, RuleReference) and _is_terminal(reference.name)):
            return reference
        target: Node = reference
        for _ in range(MAX_DEPTH):
            if not isinstance(target, RuleReference):
                break
            target = self._rules[target.name]
        label = _label_of_text(target.text) if isinstance(target, LiteralText) else reference.name.strip("_")
        return Labelled(reference, label)

    def _peek(self) -> GrammarToken:
        return self._tokens[self._at] if self._at < len(self._tokens) else GrammarToken("newline", "")

    def _next(self) -> GrammarToken:
        token = self._peek()
        self._at += 1
        return token

    def _accept(self, kind: TokenKind, text: str | None = None) -> GrammarToken | None:
        token = self._peek()
        if token.kind != kind or (text is not None and token.text != text):
            return None
        self._at += 1
        return token

    def _expect(self, kind: TokenKind, text: str | None = None) -> GrammarToken:
        token = self._accept(kind, text)
        if token is None:
            raise UnsupportedGrammar("a definition that cannot be read")
        return token


def read_lark(definition: str) -> RuleSet:
    """Return a grammar in Lark's syntax. Raises `UnsupportedGrammar`."""
    return LarkReader(definition).read()


def _own_name(imported: str) -> str:
    return f"{_LIBRARY}{imported}"


def _read_common(imported: str) -> Node:
    """Return a terminal of the library, which refers to the other ones by their own names."""
    reader = LarkReader(f"TERMINAL: {COMMON_TERMINALS[imported]}")
    return transform(reader.read_terminal(), _rename)


def _rename(node: Node) -> Node:
    return RuleReference(_own_name(node.name)) if isinstance(node, RuleReference) else node


def _is_terminal(name: str) -> bool:
    return name.isupper() or name.startswith(_LIBRARY)


def _label_of_text(text: str) -> str:
    """Return a text as it is shown to the model, such as `"*** End Patch"`."""
    return "end of line" if text == "\n" else _quote(_cut(text))


def _quote(text: str) -> str:
    return orjson.dumps(text).decode()


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_LABEL else f"{text[:_LONGEST_LABEL]}…"

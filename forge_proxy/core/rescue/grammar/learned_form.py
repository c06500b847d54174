"""The markup of one model's calls, learned from its chat template: a value that can be stored and compared.

`templates` learns it, `readers/learned_calls.py` reads calls by it. A literal of a form is text of the template in
which white space matches any white space; `ANY_ID` and `ANY_NUMBER` replace parts that differ between calls.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from forge_proxy.core.jsontypes import Json, JsonObject

ANY_ID = "\ue000"
"""In a literal: the id of a call."""
ANY_NUMBER = "\ue001"
"""In a literal: a number that counts calls."""
SAME_KEY = "\ue002"
"""In the literal after a value: the name of the argument, as in `<city>Oslo</city>`."""
BY_KEY = ("*",)
"""The path of a name that is the only key of its object."""
NAME_SOURCE = r"[^\s<>{}()\[\]\"'`,;=|｜]{1,128}?"
_KEY_SOURCE = r"(?!/)[^\s<>{}()\[\]\"',;=|｜]{1,128}?"
_PLACEHOLDERS = {ANY_ID: r"[\w.:-]{1,80}", ANY_NUMBER: r"\d{1,4}"}
_MARKUP = re.compile(r"[^\w\s\[\]{}(),\"':]|\[/?[A-Z_]{3}")
"""What makes a literal markup, rather than brackets or words."""
_PIECES = re.compile(r"\s+|.", re.DOTALL)
_MAX_LITERAL = 240
"""Maximum characters of a literal. A longer one contains more than markup."""
_MAX_OPENING = 160
"""Maximum characters of the opening markup: its pattern nests as deeply, and Python compiles patterns recursively."""

Shape = Literal["object", "named", "arguments"]
Encoding = Literal["text", "string", "literal"]


@dataclass(frozen=True, slots=True)
class ArgumentStyle:
    """How arguments are written: the literals before the name, between name and value and after the value, and whether
    the value is text whose type comes from the schema (`text`), text (`string`), or a literal of JSON or Python
    (`literal`).
    """

    name_opens: str
    opens: str
    closes: str
    encoding: Encoding


@dataclass(frozen=True, slots=True)
class LearnedForm:
    """How a model writes calls: in an object with name and arguments (`object`), as a name and an object of arguments
    (`named`), or as a name and single arguments (`arguments`).
    """

    shape: Shape
    block_opens: str
    """The literal before the first call of a response and, in `call_opens`, before each call."""
    call_opens: str
    call_closes: str
    block_closes: str
    name_path: tuple[str, ...] = ()
    """The keys that lead to the name in the object; `BY_KEY` if the name is the key of the arguments."""
    arguments_path: tuple[str, ...] = ()
    name_closes: str = ""
    """The literal between the name and the arguments."""
    styles: tuple[ArgumentStyle, ...] = ()

    @property
    def is_distinctive(self) -> bool:
        """Whether the opening markup alone identifies a call, rather than being brackets or words."""
        return _is_distinctive(self.call_opens) or _is_distinctive(self.block_opens)

    @property
    def literals(self) -> tuple[str, ...]:
        """All literals of the form."""
        own = (self.block_opens, self.call_opens, self.name_closes, self.call_closes, self.block_closes)
        return (*own, *(text for style in self.styles for text in (style.name_opens, style.opens, style.closes)))

    @property
    def is_usable(self) -> bool:
        """Whether the literals are short enough for markup, and suffice to find a call and the end of each value."""
        if max(map(len, self.literals)) > _MAX_LITERAL or len(self.block_opens + self.call_opens) > _MAX_OPENING:
            return False
        if self.shape == "object":
            return self.is_distinctive or bool(self.name_path)
        if self.shape == "named":
            return self.is_distinctive
        if not (self.block_opens + self.call_opens).strip():
            return False
        return bool(self.styles) and all(
            (self.name_closes + style.name_opens).strip()
            and (style.opens.strip() or "\n" in style.opens)
            and (style.encoding == "literal" or style.closes.strip())
            for style in self.styles
        )

    def as_json(self) -> JsonObject:
        """Return the fields as a JSON object."""
        return asdict(self)


def read_form(value: Json) -> LearnedForm | None:
    """Parse a form from the output of `as_json`; None for anything else, such as a form of another version."""
    try:
        form = _form_type().validate_python(value)
    except ValidationError:
        return None
    return form if form.is_usable else None


@cache
def _form_type() -> TypeAdapter[LearnedForm]:
    return TypeAdapter(LearnedForm)


def _is_distinctive(literal: str) -> bool:
    return len("".join(literal.split())) > 2 and _MARKUP.search(literal) is not None


def literal_source(literal: str) -> str:
    """Return the pattern of a literal."""
    return "".join(map(_piece_source, _PIECES.findall(literal)))


def _piece_source(piece: str) -> str:
    return r"\s{0,16}" if piece.isspace() else _PLACEHOLDERS.get(piece) or re.escape(piece)


class FormPatterns:
    """The compiled patterns of a form."""

    def __init__(self, form: LearnedForm) -> None:
        block, call = form.block_opens.lstrip(), form.call_opens
        openings = [block + call] if block.strip() else [call.lstrip()]
        if block.strip() and _is_distinctive(call):
            openings.append(call.lstrip())
        self.explicit = form.is_distinctive
        tails: list[list[str]] = [[]] if self.explicit else _tails(form)
        pieces = [[*map(_piece_source, _PIECES.findall(opening)), *tail] for opening in openings for tail in tails]
        self.opener_source = "|".join(map("".join, pieces))
        """The pattern of the markup that starts a call."""
        self.opener = re.compile(rf"(?:{'|'.join(map(literal_source, openings))})\s{{0,16}}")
        self.begins = re.compile(self.opener_source)
        """The same with what must follow if the markup alone does not identify a call."""
        self.unfinished = re.compile("|".join(map(_unfinished_source, pieces)))
        """The start of such markup at the end of an incomplete text."""
        gap = r"[\s;,]{0,16}"
        call_source = literal_source(call.strip())
        brackets = r"[\s,;]{0,16}(?=\{)" if form.shape == "object" else r"\s{0,16}[,;]\s{0,16}(?=\w)"
        self.next_call = re.compile(rf"{gap}{call_source}\s{{0,16}}" if call_source else brackets)
        self.call_closes = _closer(form.call_closes)
        self.block_closes = _closer(form.block_closes)
        closing = _closer(form.call_closes).pattern or r"\s*\Z"
        arguments = [
            rf"{gap}{literal_source(style.name_opens.strip())}\s{{0,4}}(?P<key>{_KEY_SOURCE}){_opens_source(style)}"
            for style in form.styles
        ]
        begins_arguments = r"\{" if form.shape == "named" else "|".join(arguments).replace("(?P<key>", "(?:")
        after_name = rf"(?=\s{{0,16}}(?:{begins_arguments})|{closing})"
        self.name = re.compile(rf"(?P<name>{NAME_SOURCE}){literal_source(form.name_closes)}{after_name}\s{{0,16}}")
        self.arguments = tuple(map(re.compile, arguments))
        self._values_end = tuple(
            (r"\s{0,16}" if style.encoding == "literal" else "")
            + literal_source(style.closes.strip())
            + rf"(?={begins_arguments}|{closing})"
            for style in form.styles
        )

    def value_end(self, style: int, key: str) -> re.Pattern[str]:
        """Return the pattern that ends a value: the literal after it, before what may follow a value."""
        return _compile(self._values_end[style].replace(SAME_KEY, re.escape(key)))


_compile = lru_cache(maxsize=256)(re.compile)


def _opens_source(style: ArgumentStyle) -> str:
    """Return the pattern of the literal before a value, without the white space that may be part of the value."""
    return literal_source(style.opens.rstrip()) if style.opens.strip() else r"[ \t]{0,4}\n"


def _closer(literal: str) -> re.Pattern[str]:
    source = literal_source(literal.strip())
    return re.compile(rf"\s{{0,64}}{source}" if source else "")


def _tails(form: LearnedForm) -> list[list[str]]:
    """Return what must follow an opening that does not identify a call: the key of the name, or a name."""
    if form.shape == "object":
        keys = {path[0] for path in (form.name_path, form.arguments_path) if path}
        return [[r"\{", r"\s{0,16}", '"', *map(re.escape, key), '"'] for key in sorted(keys)]
    return [[NAME_SOURCE.removesuffix("?"), *map(_piece_source, _PIECES.findall(form.name_closes))]]


def _unfinished_source(pieces: list[str]) -> str:
    """Return the pattern of a text that ends inside these pieces, or right after them."""
    source = r"\Z"
    for piece in reversed(pieces[1:]):
        source = rf"(?:\Z|{piece}{source})"
    return (pieces[0] if pieces else "") + source


@lru_cache(maxsize=64)
def form_patterns(form: LearnedForm) -> FormPatterns:
    """Return the compiled patterns of a form."""
    return FormPatterns(form)

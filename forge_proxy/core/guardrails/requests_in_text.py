"""Finds the clauses of a user's message that ask for something to be done or looked up. Only English is understood.

Greetings, remarks, conditions, negations, quotations and questions about how or why ask for nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_MAX_BEGINNING, _MAX_END = 1_500, 500
"""Characters read at both ends of a message: what is between them is mostly pasted."""
_CITED = re.compile(
    r"""```.*?(?:```|\Z) | `[^`\n]*` | "[^"\n]*\s[^"\n]*" | “[^”]*” | (?<!\w)'[^'\n]*\s[^'\n]*'(?!\w)
    | <(\w+)[^>]*>.*?</\1> | https?://\S+ | ^[ ]*>.*$""",
    re.DOTALL | re.VERBOSE | re.MULTILINE,
)
"""Code, quotations, markup and addresses."""
_SENTENCE = re.compile(r"(?<=[.!?;:])\s+|\n+")
_CLAUSE = re.compile(r",|\b(?:and|then|but|also|plus|before|after|finally)\b", re.IGNORECASE)


def _phrases(*phrases: str) -> re.Pattern[str]:
    """Match any of the phrases. `/` separates alternatives of a word, `~` is an optional apostrophe."""
    alternatives = [
        r"\s+".join(f"(?:{word.replace('/', '|').replace('~', '[’' + chr(39) + ']?')})" for word in phrase.split())
        for phrase in phrases
    ]
    return re.compile(rf"(?:{'|'.join(alternatives)})(?!\w)", re.IGNORECASE)


_LEAD = re.compile(
    r"(?:\W+|\d+\W|(?:please|pls|ok|okay|alright|well|so|now|first|next|then|and|also|finally|hi|hello|hey|thanks"
    r"|thank you|good (?:morning|afternoon|evening|day)|great|perfect|cool|yes|sure|there)\b)*",
    re.IGNORECASE,
)
"""Words before the beginning of a sentence."""
_THANKS = re.compile(
    r"\W*(?:many thanks|thanks|thank you|thx|cheers)(?: a lot| so much| very much)? (?:for|to)\b"
    r"|\W*(?:excellent|fine|good|nice|very good|well done)[,.!]+ (?:the|this|that|my|our|your|it)\b(?![^?]*\?)",
    re.IGNORECASE,
)
"""What a whole sentence is a remark after: `Thank you for the report.`, `Good, the report is done.`"""
_QUESTION_OF_CONCEPT = _phrases(
    "how do/does/did/can/could/should/would/to/come",
    "why",
    "what~s/what an?",
    "what is/are/was an?",
    "what~s/what is/are the difference/point/purpose/meaning/definition/idea/concept/pros/advantages",
    "what is/are the best",
    "what does/do/did/would/should/can/could/happens?/kind/makes?",
    "can/could/would you explain/describe/define/recommend/suggest",
    "can/could/would you tell me about/more/how/why",
    "explain/describe/define/discuss/compare/imagine/suppose/brainstorm/rephrase/rewrite/repeat",
    "tell me about/more/a/an/how/why/something",
    "should/do/did/are/were/have/am i/you/we/they/people",
    "is it true/possible/ok/okay/safe/worth/better/normal/legal",
    "is/are there an?/any tool/tools/way/ways/reason",
    "who are/invented/wrote/is",
    "which tools?/of",
    "give me an?/some/three/five idea/ideas/example/examples/tip/tips/advice/overview",
    "is/are an?",
)
_REQUEST = _phrases(
    "can/could/would/will you/we",
    "can/could/may i have/get/see",
    "i need/want/wish",
    "i~d like/love/need",
    "i would like/love/need",
    "i~m/i am? looking for",
    "we need",
    "help me",
    "let~s",
    "your/the task/job/goal is",
    "you must/should/need",
)
_REMARK = _phrases(
    "i/i~m/i~ve/i~ll/we/we~re/it/it~s/that~s/he/she/they/there",
    "no/nope/not/nothing/never/because/since/as/by/lol/wow/nice/haha/sorry/welcome/bye/goodbye/cheers/congratulations",
)
_DETERMINER = _phrases("this/that/these/those/the/my/your/our/his/her/their/an?")
"""The beginning of a remark, or of a question such as `The weather in Oslo?`."""
_CONDITION = re.compile(
    r"\b(?:if|unless|in case|whenever|once|until|when (?!is\b|are\b|was\b|were\b|did\b|does\b|do\b|will\b|can\b))\b.*",
    re.IGNORECASE | re.DOTALL,
)
_NEGATION = re.compile(
    r"\b(?:don[’']?t|do not|never|without|no need|not necessary|needn[’']?t|instead of|rather than|avoid|no)\b",
    re.IGNORECASE,
)


def select_ends(text: str) -> str:
    """Return the parts of a message that are read."""
    if len(text) <= _MAX_BEGINNING + _MAX_END:
        return text
    return f"{text[:_MAX_BEGINNING]}\n{text[-_MAX_END:]}"


def find_requests(text: str) -> Iterator[str]:
    """Yield the clauses that ask for something, without conditional and negated ones."""
    for sentence in _SENTENCE.split(_CITED.sub(" ", text)):
        if not _asks(sentence):
            continue
        for clause in _CLAUSE.split(_CONDITION.sub("", sentence)):
            if clause and not _NEGATION.search(clause):
                yield clause


def _asks(sentence: str) -> bool:
    """Whether a sentence asks for something: it is a request, a question of facts, or begins like a command."""
    if _THANKS.match(sentence):
        return False
    lead = _LEAD.match(sentence)
    begin = lead.end() if lead else 0
    if begin == len(sentence) or _QUESTION_OF_CONCEPT.match(sentence, begin):
        return False
    if _REQUEST.match(sentence, begin):
        return True
    is_remark = _REMARK.match(sentence, begin) or (
        _DETERMINER.match(sentence, begin) and not sentence.rstrip().endswith("?")
    )
    return not is_remark

"""Values for arguments: names, places, paths, commands, free text and the like, drawn from pools of words.

Called by families.py. Every pool stands in a `Words`, so that what is measured can be said in words that the
training never had. The standard library only.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tests.tiny_model.conversations import LETTERS, Kind, Value, made_up_word, split


@dataclass(frozen=True, slots=True)
class Words:
    """What values are made of. `made_up` is how often a made-up word stands in, so that words must be copied."""

    people: list[str]
    cities: list[str]
    items: list[str]
    plain: list[str]  # words of which free text is made
    stems: list[str]  # of file names and folders
    made_up: float = 0.0


TRAINED = Words(
    people=split("""Anna Bob Carla David Elena Frank Grace Hugo Irene Jack Karim Lena Maria Nina Oscar Paul Rosa Sam
        Tina Victor Alice John Emma Peter Mary Tom Laura Ben Sofia Max"""),
    cities=split("""Paris Berlin London Madrid Rome Oslo Vienna Lisbon Tokyo Delhi Cairo Boston Denver Lima Prague
        Dublin Zurich Seoul Sydney Toronto Athens Munich Chicago Amsterdam Milan Warsaw"""),
    items=split("""coffee tea milk bread apple lemon cheese rice sugar butter laptop phone chair desk lamp bike
        shoes jacket book pencil camera keyboard mouse monitor printer paper water juice honey salt gold silver oil
        steel wood screws widgets bolts bananas oranges"""),
    plain=split("""the a new old big small red blue green good best cheap fast slow how to make build find fix write
        read plan start open clean for with in on about from and of my our your team meeting lunch dinner report
        project budget review update release test server garden holiday music history travel weather food health
        science school family market price order problem idea question answer page code data system today tomorrow
        morning evening week month is are was will be late ready done happy call back thanks please"""),
    stems=split("""main app index notes report data config readme utils test server client log error todo budget
        summary draft list users orders setup model image video music backup archive src docs lib bin tmp home var
        etc logs reports projects work"""),
    made_up=0.35,
)
HELDOUT = Words(
    people=split("Gloria Henrik Yusuf Priya Marco Ingrid"),
    cities=split("Lyon Porto Helsinki Nairobi Hanoi Bogota Geneva"),
    items=split("pepper blanket helmet candle mirror carrots ladder"),
    plain=split("""the a of for with how to in about wild quiet winter mountain repair teach piano harbour spanish
        cooking simple late train paint"""),
    stems=split("invoice schema router billing parser photos station"),
)
EXTENSIONS = split("txt py md csv json log yaml html pdf toml")
PROGRAMS: list[list[str]] = [
    ["ls", "ls -la", "ls -l", "du -sh", "cat", "tail -n 20", "head -5", "wc -l", "rm", "mkdir -p", "cd"],
    ["git status", "git diff", "git log --oneline", "git pull", "make test", "make build", "docker ps", "df -h"],
    ["pytest -q", "python", "python -m", "npm run", "npm install", "pip install", "cargo run", "git checkout"],
    ["uname -a", "whoami", "date", "pwd", "ps aux", "uptime", "env", "top -b"],
]
LANGUAGES = split("french german spanish english italian portuguese dutch polish japanese korean")


def word(rng: random.Random, words: Words, pool: list[str]) -> str:
    """One of the pool's, or a made-up one."""
    if rng.random() >= words.made_up:
        return rng.choice(pool)
    made = made_up_word(rng)
    return made.capitalize() if pool[0][0].isupper() else made


def person(rng: random.Random, words: Words) -> str:
    name = word(rng, words, words.people)
    return f"{name} {word(rng, words, words.people)}" if rng.random() < 0.15 else name


def item(rng: random.Random, words: Words) -> str:
    name = word(rng, words, words.items)
    return f"{rng.choice(['red', 'blue', 'green', 'small', 'big'])} {name}" if rng.random() < 0.15 else name


def phrase(rng: random.Random, words: Words) -> str:
    """Two to six words, as one searches or notes them."""
    return " ".join(word(rng, words, words.plain) for _ in range(rng.randint(2, 6)))


def sentence(rng: random.Random, words: Words) -> str:
    """Three to eight words, as one writes them to somebody."""
    text = " ".join(word(rng, words, words.plain) for _ in range(rng.randint(3, 8)))
    return text[0].upper() + text[1:] + rng.choice(["", "", "!", "?"]) if rng.random() < 0.5 else text


def file_name(rng: random.Random, words: Words) -> str:
    return f"{word(rng, words, words.stems)}.{rng.choice(EXTENSIONS)}"


def folder(rng: random.Random, words: Words) -> str:
    parts = [word(rng, words, words.stems) for _ in range(rng.randint(1, 3))]
    return rng.choice(["/", "", "", "~/", "./"]) + "/".join(parts)


def path(rng: random.Random, words: Words) -> str:
    return file_name(rng, words) if rng.random() < 0.3 else f"{folder(rng, words)}/{file_name(rng, words)}"


def command(rng: random.Random, words: Words) -> str:
    programs = rng.choice(PROGRAMS)
    program = rng.choice(programs) if rng.random() < 0.85 else made_up_word(rng)
    ends = [folder(rng, words), path(rng, words), "", word(rng, words, words.stems)]
    return f"{program} {ends[PROGRAMS.index(programs)]}".strip() if rng.random() < 0.8 else program


def date(rng: random.Random, _: Words) -> str:
    days = split("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
    months = split("January March April May June July October December")
    return rng.choice(
        [
            f"20{rng.randint(10, 39)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
            f"{rng.choice(months)} {rng.randint(1, 28)}",
            rng.choice(days),
            rng.choice(["tomorrow", "today"]),
        ]
    )


def clock(rng: random.Random, _: Words) -> str:
    hour = rng.randint(0, 23)
    return rng.choice([f"{hour:02d}:{rng.choice(['00', '15', '30', '45'])}", f"{hour % 12 + 1} {rng.choice('ap')}m"])


def identity(rng: random.Random, _: Words) -> str:
    letters = "".join(rng.choice(LETTERS) for _ in range(rng.randint(1, 3)))
    number = rng.randint(1, 9999)
    return rng.choice([f"{letters.upper()}-{number}", f"{letters.upper()}{number}", f"{letters}_{number}"])


def expression(rng: random.Random, _: Words) -> str:
    numbers = [str(rng.randint(1, rng.choice([9, 99, 999]))) for _ in range(rng.choice([2, 2, 3]))]
    return f" {rng.choice('+-*/')} ".join(numbers)


def some_text(rng: random.Random, words: Words) -> str:
    """Whatever a string may be."""
    makers = [person, item, phrase, file_name, identity, date, lambda r, w: word(r, w, w.cities)]
    return rng.choice(makers)(rng, words)


Maker = Callable[[random.Random, Words], Value]
MAKERS: Mapping[str, Maker] = {
    "person": person,
    "city": lambda rng, words: word(rng, words, words.cities),
    "item": item,
    "query": phrase,
    "text": sentence,
    "path": path,
    "folder": folder,
    "command": command,
    "date": date,
    "time": clock,
    "id": identity,
    "expression": expression,
    "email": lambda rng, words: f"{word(rng, words, words.people).lower()}@{word(rng, words, words.items)}.com",
    "url": lambda rng, words: f"https://{word(rng, words, words.items)}.com/{word(rng, words, words.stems)}",
    "symbol": lambda rng, _: "".join(rng.choice(LETTERS) for _ in range(rng.randint(2, 5))).upper(),
    "language": lambda rng, _: rng.choice(LANGUAGES),
    "word": lambda rng, words: word(rng, words, words.items),
    "any": some_text,
    "number": lambda rng, _: rng.randint(1, rng.choice([9, 99, 999, 9999])),
}


def make(rng: random.Random, slot: str, words: Words) -> Value:
    """A value for a slot; choices are written `a|b|c`."""
    return rng.choice(slot.split("|")) if "|" in slot else MAKERS[slot](rng, words)


def kind_of(slot: str) -> Kind:
    return "integer" if slot == "number" else "string"

"""Families of tools for generated tasks: a tool that looks something up, and one that uses what was found."""

from __future__ import annotations

from dataclasses import dataclass

from forge_proxy.core.chat import ToolSpec
from forge_proxy.evals.scenarios.task import spec, text

_PEOPLE = ("Anna", "Oscar", "Priya", "Hugo", "Gloria", "Lena", "Marco", "Nina", "Yusuf", "Rosa", "Henrik", "Tova")
_CITIES = ("Oslo", "Lima", "Nairobi", "Hanoi", "Porto", "Vienna", "Cairo", "Geneva", "Dublin", "Quito", "Tunis")
_THINGS = ("tea", "bread", "honey", "paper", "candle", "coffee", "ladder", "cheese", "mirror", "rice", "lamp", "rope")
_TEAMS = ("red", "blue", "green", "north", "south", "east", "west", "amber", "silver", "violet")
_CODES = ("K17", "B204", "M9", "Q311", "T48", "R72", "V55", "W106", "Z8", "H93")


@dataclass(frozen=True, slots=True)
class ToolFamily:
    """`find` a `noun` by its `key`, such as the invoice of a customer; then `use` it, such as pay it."""

    noun: str
    find: str
    key: str
    words: tuple[str, ...]
    """Values of `key`."""
    use: str
    outcome: str
    """What using it results in, such as a payment."""

    @property
    def finder(self) -> ToolSpec:
        """The tool that looks it up."""
        about = f"{self.find} the {self.noun} of a {self.key}"
        return spec(f"{self.find}_{self.noun}", about, **{self.key: text(self.key)})

    @property
    def user(self) -> ToolSpec:
        """The tool that uses it."""
        return spec(f"{self.use}_{self.noun}", f"{self.use} a {self.noun}", **{self.noun: text(self.noun)})


_ROWS = (
    ("invoice", "find", "customer", _PEOPLE, "pay", "payment"),
    ("ticket", "find", "customer", _PEOPLE, "close", "receipt"),
    ("parcel", "track", "customer", _PEOPLE, "return", "label"),
    ("booking", "find", "guest", _PEOPLE, "cancel", "refund"),
    ("table", "reserve", "guest", _PEOPLE, "confirm", "confirmation"),
    ("badge", "find", "employee", _PEOPLE, "renew", "order"),
    ("laptop", "find", "employee", _PEOPLE, "lock", "incident"),
    ("salary", "get", "employee", _PEOPLE, "archive", "record"),
    ("vacation", "find", "employee", _PEOPLE, "approve", "approval"),
    ("lesson", "find", "student", _PEOPLE, "move", "slot"),
    ("grade", "get", "student", _PEOPLE, "publish", "notice"),
    ("essay", "find", "student", _PEOPLE, "review", "review"),
    ("appointment", "find", "patient", _PEOPLE, "confirm", "confirmation"),
    ("prescription", "find", "patient", _PEOPLE, "renew", "pickup"),
    ("policy", "find", "holder", _PEOPLE, "extend", "contract"),
    ("claim", "find", "holder", _PEOPLE, "settle", "settlement"),
    ("train", "find", "city", _CITIES, "book", "seat"),
    ("flight", "find", "city", _CITIES, "book", "seat"),
    ("hotel", "find", "city", _CITIES, "reserve", "room"),
    ("museum", "find", "city", _CITIES, "visit", "pass"),
    ("warehouse", "find", "city", _CITIES, "inspect", "report"),
    ("station", "find", "city", _CITIES, "restart", "restart"),
    ("forecast", "get", "city", _CITIES, "print", "page"),
    ("offer", "find", "product", _THINGS, "accept", "deal"),
    ("supplier", "find", "product", _THINGS, "call", "call"),
    ("shelf", "find", "product", _THINGS, "count", "count"),
    ("recipe", "find", "ingredient", _THINGS, "print", "page"),
    ("coupon", "find", "product", _THINGS, "redeem", "voucher"),
    ("review", "find", "product", _THINGS, "hide", "case"),
    ("sample", "find", "product", _THINGS, "test", "result"),
    ("meeting", "find", "team", _TEAMS, "move", "slot"),
    ("budget", "get", "team", _TEAMS, "freeze", "order"),
    ("roster", "get", "team", _TEAMS, "publish", "notice"),
    ("channel", "find", "team", _TEAMS, "mute", "rule"),
    ("match", "find", "team", _TEAMS, "stream", "link"),
    ("build", "find", "branch", _TEAMS, "deploy", "release"),
    ("backup", "find", "server", _CODES, "restore", "job"),
    ("alarm", "find", "sensor", _CODES, "silence", "entry"),
    ("meter", "find", "house", _CODES, "read", "reading"),
    ("valve", "find", "tank", _CODES, "open", "permit"),
    ("camera", "find", "gate", _CODES, "rotate", "position"),
    ("printer", "find", "floor", _CODES, "reset", "ticket"),
    ("locker", "find", "hall", _CODES, "unlock", "code"),
    ("contract", "find", "client", _PEOPLE, "sign", "signature"),
)
FAMILIES: tuple[ToolFamily, ...] = tuple(ToolFamily(*row) for row in _ROWS)

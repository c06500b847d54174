"""Advanced reasoning: a chain of lookups with two dead ends, and services with different formats of the same data."""

from __future__ import annotations

from collections.abc import Mapping

from forge_proxy.core.jsontypes import Json, JsonObject
from forge_proxy.core.workflow.errors import ToolResolutionError
from forge_proxy.evals.scenario import Scenario, ScenarioState
from forge_proxy.evals.scenarios.facts import every, is_name, is_number, is_set, says
from forge_proxy.evals.scenarios.task import Task, always, call, integer, number, spec, text, texts

# --- a long trail ------------------------------------------------------------------

_NO_PARCEL = "No parcel is registered at Quarry Lane 5: that lane was renamed. find_address knows old names."
_ADDRESS = {"old": "Quarry Lane 5", "new": "Linden Row 5", "district": "West"}
_PARCEL: Json = {
    "parcel": "W-5508",
    "address": "Linden Row 5",
    "area_m2": 640,
    "value": None,
    "merged_from": ["W-1207"],
}
_NO_VALUE = "W-5508 was never valued: it was merged in 2028. A merged parcel is valued by the one it came from."
_OLD_VALUE = {"parcel": "W-1207", "area_m2": 500, "value_per_m2": 84, "valued_on": "2027-04-02", "rate_class": "B"}
_RATE = {"rate_class": "B", "permille": 3.5}
_TAX = Task(
    name="data_gap_recovery_extended",
    system=(
        "You work out land taxes. The yearly tax is the area of the parcel as it is today, times the value per square "
        "metre, times the rate of its class in permille (thousandths). Records may be missing: follow what the tools "
        "say, and never guess. End with report_tax."
    ),
    user="What is the yearly land tax of the parcel at Quarry Lane 5?",
    tools=(
        spec("get_parcel", "The parcel at an address.", address=text("Street and number.")),
        spec("find_address", "The present name of an old address.", old=text("The old street and number.")),
        spec("get_valuation", "The latest valuation of a parcel.", parcel=text("Id of the parcel.")),
        spec("get_rate", "The tax rate of a class.", rate_class=text("A letter.")),
        spec("get_owner", "The owner of a parcel.", parcel=text("Id of the parcel.")),
        spec(
            "report_tax",
            "Ends the task: reports the tax.",
            parcel=text("Id of the parcel as it is today."),
            valued_as=text("Id of the parcel whose valuation holds."),
            tax=number("The yearly tax."),
        ),
    ),
    terminal="report_tax",
    # 640 m² × 84 × 3.5 ‰
    check=every(is_name("parcel", "W-5508"), is_name("valued_as", "W-1207"), is_number("tax", 188.16, within=0.01)),
    ideal=(
        call("get_parcel", address="Quarry Lane 5"),
        call("find_address", old="Quarry Lane 5"),
        call("get_parcel", address="Linden Row 5"),
        call("get_valuation", parcel="W-5508"),
        call("get_valuation", parcel="W-1207"),
        call("get_rate", rate_class="B"),
        call("report_tax", parcel="W-5508", valued_as="W-1207", tax=188.16),
    ),
)
_OWNER = always({"owner": "Verein Obstgarten", "since": 2019})


def _parcel(address: str) -> Json:
    return _PARCEL if address.strip().casefold() == "linden row 5" else _NO_PARCEL


def _valuation(parcel: str) -> Json:
    return _OLD_VALUE if parcel.strip().upper() == "W-1207" else _NO_VALUE


class _LandOffice:
    """Returns a parcel only for its address, and a rate only after its valuation was read."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def parcel(self, address: str) -> Json:
        if address.strip().casefold() != "linden row 5":
            raise ToolResolutionError(_NO_PARCEL if "quarry" in address.casefold() else f"no parcel at {address!r}")
        self._known |= {"W-5508", "W-1207"}
        return _PARCEL

    def address(self, old: str) -> Json:
        if "quarry lane" not in old.casefold():
            raise ToolResolutionError(f"{old!r} was never renamed")
        return _ADDRESS

    def valuation(self, parcel: str) -> Json:
        if parcel.strip().upper() not in self._known:
            raise ToolResolutionError(f"no parcel {parcel!r} in any record you have read")
        if parcel.strip().upper() == "W-5508":
            raise ToolResolutionError(_NO_VALUE)
        self._known.add("B")
        return _OLD_VALUE

    def rate(self, rate_class: str) -> Json:
        if rate_class.strip().upper() not in self._known:
            raise ValueError(f"which parcel is of class {rate_class!r}? Have it valued first")
        return _RATE


def _tax(_: int) -> ScenarioState:
    return _TAX.world(
        {
            "get_parcel": _parcel,
            "find_address": always(_ADDRESS),
            "get_valuation": _valuation,
            "get_rate": always(_RATE),
            "get_owner": _OWNER,
        }
    )


def _tax_stateful(_: int) -> ScenarioState:
    office = _LandOffice()
    does = {"get_parcel": office.parcel, "find_address": office.address, "get_valuation": office.valuation}
    return _TAX.world({**does, "get_rate": office.rate, "get_owner": _OWNER})


# --- services that do not agree on how to say it -----------------------------------

_PAGES: Mapping[int, JsonObject] = {
    1: {
        "bookings": [
            {"ref": "BK-301", "guest": "Tove Lind", "paid_cents": 42000},
            {"ref": "BK-305", "guest": "Amir Sen", "paid_cents": 18650},
        ],
        "page": 1,
        "next_page": 2,
    },
    2: {"bookings": [{"ref": "BK-312", "guest": "Jo Vale", "paid_cents": 9990}], "page": 2, "next_page": None},
}
_INVOICES: Mapping[str, JsonObject] = {
    "301": {"booking_no": "301", "total_eur": "420.00", "open": False},
    "305": {"booking_no": "305", "total_eur": "236.50", "open": True},
    "312": {"booking_no": "312", "total_eur": "99.90", "open": False},
}
_BOOKINGS = Task(
    name="inconsistent_api_recovery",
    system=(
        "You check the books of a guest house against two services that were never made to fit: one says refs such as "
        "BK-300 and cents, in pages; the other plain booking numbers such as 300 and euros. End with report_unpaid."
    ),
    user="Which of this week's bookings is not paid in full, and how many euros are still to be paid for it?",
    tools=(
        spec("list_bookings", "This week's bookings and what was paid, a page at a time.", page=integer("From 1.")),
        spec("get_invoice", "The invoice of a booking.", booking_no=text("The booking's number.")),
        spec(
            "report_unpaid",
            "Ends the task: reports what is not paid in full.",
            ref=text("Ref of the booking."),
            guest=text("Name of the guest."),
            owed_eur=number("Euros that are still to be paid."),
            checked=texts("The refs of all bookings that were compared."),
        ),
    ),
    terminal="report_unpaid",
    check=every(
        is_name("ref", "BK-305", "305"),
        says("guest", ("Amir Sen", "Sen")),
        is_number("owed_eur", 50),
        is_set("checked", "BK-301", "BK-305", "BK-312"),
    ),
    ideal=(
        call("list_bookings", page=1),
        call("list_bookings", page=2),
        call("get_invoice", booking_no="301"),
        call("get_invoice", booking_no="305"),
        call("get_invoice", booking_no="312"),
        call("report_unpaid", ref="BK-305", guest="Amir Sen", owed_eur=50.0, checked=["BK-301", "BK-305", "BK-312"]),
    ),
)


def _page(page: int) -> Json:
    return _PAGES.get(page, {"bookings": [], "page": page, "next_page": None})


def _invoice(booking_no: str) -> Json:
    if not booking_no.strip().isdigit():
        raise ValueError(f"booking_no has to be digits only, such as 300, not {booking_no!r}")
    if booking_no.strip() not in _INVOICES:
        raise ToolResolutionError(f"no invoice for booking {booking_no}")
    return _INVOICES[booking_no.strip()]


class _GuestHouse:
    """Returns pages in order, and records which invoices were read."""

    def __init__(self) -> None:
        self._next = 1
        self._seen: set[str] = set()

    def page(self, page: int) -> Json:
        if page not in _PAGES:
            raise ToolResolutionError(f"there is no page {page}; next_page says whether there is another")
        if page > self._next:
            raise ValueError(f"page {page} cannot be opened before page {self._next}")
        self._next = max(self._next, page + 1)
        return _PAGES[page]

    def invoice(self, booking_no: str) -> Json:
        found = _invoice(booking_no)
        self._seen.add(booking_no.strip())
        return found

    def all_seen(self, _: JsonObject) -> str | None:
        missing = sorted(set(_INVOICES) - self._seen)
        return f"checked names bookings whose invoices were never looked at: {', '.join(missing)}" if missing else None


def _bookings(_: int) -> ScenarioState:
    return _BOOKINGS.world({"list_bookings": _page, "get_invoice": _invoice})


def _bookings_stateful(_: int) -> ScenarioState:
    house = _GuestHouse()
    return _BOOKINGS.world({"list_bookings": house.page, "get_invoice": house.invoice}, house.all_seen)


_ADVANCED = frozenset({"advanced_reasoning"})
_STATEFUL = frozenset({"advanced_reasoning", "stateful"})

SCENARIOS = (
    Scenario("data_gap_recovery_extended", "Two dead ends, then a sum.", _ADVANCED, 7, _tax),
    Scenario("inconsistent_api_recovery", "Pages, ids and units that differ.", _ADVANCED, 6, _bookings),
    Scenario("data_gap_recovery_extended_stateful", "Records open one by one.", _STATEFUL, 7, _tax_stateful),
    Scenario("inconsistent_api_recovery_stateful", "Each invoice is looked at.", _STATEFUL, 6, _bookings_stateful),
)

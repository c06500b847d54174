"""The tool families of the generated tasks, as a table. Each family has four tools: find, search, change and status.

`find` and `search` take the key and return the id and the detail; `change` takes the id and a value; `status` takes
the id. The table has the columns of `Family`, in that order.
"""

# ruff: noqa: E501  # the rows of a table

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Family:
    """Tools of one area, and the words of its tasks."""

    name: str
    noun: str
    find: str
    search: str
    key: str
    """The argument of `find` and `search`."""
    keys: tuple[str, ...]
    id: str
    """The argument of `change` and `status`, which `find` returns."""
    detail: str
    """A number that `find` returns as well."""
    change: str
    value: str
    """The second argument of `change`."""
    values: tuple[str, ...]
    """Its values; integers if they are digits."""
    order: str
    """The user's words for `change`: `{noun}` is the thing, `{value}` the value."""
    status: str

    @property
    def takes_number(self) -> bool:
        """Whether the second argument of `change` is an integer."""
        return self.values[0].isdigit()


_TABLE = """
calendar|meeting|find_meeting|search_calendar|title|standup review retro kickoff|meeting_id|duration|move_meeting|day|Monday Tuesday Friday|move {noun} to {value}|sync_status
mail|mail|find_mail|search_inbox|sender|Anna Oscar Priya Hugo|mail_id|size|label_mail|label|urgent later private|label {noun} as {value}|delivery_status
files|file|find_file|search_files|filename|budget.csv notes.txt plan.md logo.png|file_id|bytes|move_file|folder|archive drafts shared|move {noun} to the folder {value}|upload_status
database|record|query_record|scan_table|customer|Lena Marco Nina Yusuf|record_id|balance|update_record|tier|gold silver bronze|set the tier of {noun} to {value}|replication_status
weather|station|find_station|list_stations|city|Oslo Lima Hanoi Porto|station_id|temperature|set_interval|minutes|5 10 30|set the interval of {noun} to {value} minutes|sensor_status
issues|issue|find_issue|search_issues|topic|login crash timeout typo|issue_id|votes|assign_issue|person|Rosa Henrik Gloria|assign {noun} to {value}|triage_status
home|lamp|find_lamp|scan_devices|room|kitchen office hall garage|lamp_id|watts|dim_lamp|level|20 50 80|dim {noun} to {value}|device_status
shop|product|get_product|browse_shop|product|honey candle ladder mirror|sku|price|change_discount|percent|10 15 25|set the discount of {noun} to {value} percent|stock_status
git|branch|find_branch|list_branches|branch|hotfix parser docs cache|commit_id|commits|tag_commit|tag|stable beta nightly|tag {noun} as {value}|build_status
shipping|parcel|find_parcel|search_parcels|recipient|Bob Carla David Elena|parcel_id|weight|redirect_parcel|city|Rome Paris Berlin|redirect {noun} to {value}|tracking_status
hotel|booking|find_booking|search_bookings|guest|Frank Grace Irene Jack|booking_id|nights|upgrade_booking|room_type|suite double single|upgrade {noun} to {value}|payment_status
flights|flight|find_flight|search_flights|route|Oslo-Rome Lima-Quito Cairo-Tunis Paris-Porto|flight_id|gate|choose_seat|row|4 12 27|choose row {value} for {noun}|boarding_status
bank|account|find_account|search_accounts|owner|Maria Peter Sonja Tomas|account_id|funds|limit_account|limit|100 500 900|limit {noun} to {value}|transfer_status
library|book|find_book|search_catalogue|title|Dune Emma Ulysses Faust|book_id|pages|lend_book|reader|Uma Victor Wanda|lend {noun} to {value}|return_status
music|song|find_song|search_songs|song|Yesterday Halo Imagine Thriller|song_id|seconds|add_song|playlist|party focus sleep|add {noun} to the playlist {value}|download_status
recipes|recipe|find_recipe|search_recipes|dish|soup curry pizza salad|recipe_id|calories|scale_recipe|portions|2 6 8|scale {noun} to {value} portions|oven_status
fitness|workout|find_workout|search_workouts|sport|running rowing yoga boxing|workout_id|minutes|plan_workout|weekday|Sunday Thursday Saturday|plan {noun} for {value}|watch_status
school|course|find_course|search_courses|subject|history physics biology art|course_id|students|move_course|hall|A B C|move {noun} to hall {value}|enrolment_status
clinic|patient|find_patient|search_patients|surname|Meyer Rossi Novak Silva|patient_id|age|book_visit|doctor|Brandt Okoye Lund|book a visit of {noun} with {value}|lab_status
tickets|ticket|find_ticket|search_tickets|customer|Acme Globex Initech Umbra|ticket_id|priority|route_ticket|team|sales billing support|route {noun} to {value}|reply_status
servers|server|find_server|list_servers|host|atlas hermes zeus apollo|server_id|load|resize_server|cores|4 8 16|resize {noun} to {value} cores|reboot_status
containers|container|find_container|list_containers|image|redis nginx postgres grafana|container_id|restarts|scale_container|copies|2 3 5|scale {noun} to {value} copies|rollout_status
dns|domain|find_domain|list_domains|domain|acme.com tiny.org blue.net oak.io|zone_id|records|point_domain|target|north south west|point {noun} to {value}|propagation_status
payroll|employee|find_employee|search_staff|employee|Ines Jonas Karin Luis|employee_id|salary|promote_employee|grade|3 5 7|promote {noun} to grade {value}|payout_status
invoices|invoice|find_invoice|search_invoices|client|Stark Wayne Soylent Hooli|invoice_id|amount|remind_client|days|7 14 30|send a reminder for {noun} with {value} days|approval_status
cars|car|find_car|search_cars|plate|B-12 K-77 M-31 S-90|car_id|mileage|rent_car|driver|Olga Pavel Quinn|rent {noun} to {value}|charging_status
trains|train|find_train|search_trains|line|coast valley summit harbor|train_id|platform|delay_train|delay|3 9 15|delay {noun} by {value}|track_status
garden|plant|find_plant|list_plants|plant|rose basil fern tulip|plant_id|moisture|water_plant|liters|1 2 3|water {noun} with {value} liters|pump_status
farm|field|find_field|list_fields|crop|wheat maize barley oats|field_id|hectares|irrigate_field|hours|2 4 6|irrigate {noun} for {value} hours|drone_status
warehouse|pallet|find_pallet|scan_shelves|goods|paper tiles cables paint|pallet_id|boxes|move_pallet|dock|north east south|move {noun} to dock {value}|robot_status
printing|document|find_document|list_documents|document|poster flyer menu badge|document_id|sheets|print_document|copies|20 40 60|print {noun} {value} times|printer_status
photos|photo|find_photo|search_photos|place|beach castle forest bridge|photo_id|pixels|rotate_photo|degrees|90 180 270|rotate {noun} by {value}|render_status
video|clip|find_clip|search_clips|topic|intro demo teaser outro|clip_id|frames|trim_clip|length|15 30 60|trim {noun} to {value}|encoding_status
chat|channel|find_channel|list_channels|channel|general random design ops|channel_id|members|invite_person|person|Rita Stefan Tara|invite {value} to {noun}|webhook_status
survey|survey|find_survey|list_surveys|survey|coffee parking lunch travel|survey_id|answers|close_survey|weekday|Monday Wednesday Friday|close {noun} on {value}|export_status
museum|painting|find_painting|search_paintings|painter|Monet Klee Miro Turner|painting_id|year|hang_painting|room|red blue green|hang {noun} in the {value} room|climate_status
sports|team|find_team|list_teams|team|Lions Bears Hawks Wolves|team_id|points|train_team|coach|Ulla Viktor Xenia|train {noun} with {value}|match_status
energy|meter|find_meter|list_meters|street|Elm Oak Pine Maple|meter_id|usage|set_tariff|tariff|day night eco|set the tariff of {noun} to {value}|grid_status
legal|contract|find_contract|search_contracts|party|Orion Vega Lyra Draco|contract_id|clauses|extend_contract|months|6 12 24|extend {noun} by {value} months|signature_status
lab|sample|find_sample|list_samples|sample|quartz resin saline copper|sample_id|purity|heat_sample|degrees|40 60 95|heat {noun} to {value} degrees|analysis_status
space|satellite|find_satellite|list_satellites|satellite|Aurora Beacon Comet Pulsar|satellite_id|altitude|turn_antenna|angle|15 45 75|turn the antenna of {noun} to {value}|downlink_status
"""


def _read(row: str) -> Family:
    cells: list[str | tuple[str, ...]] = [*row.split("|")]
    for place, column in enumerate(fields(Family)):
        if column.name in {"keys", "values"}:
            cells[place] = tuple(str(cells[place]).split())
    return Family(*cells)  # pyright: ignore[reportArgumentType]


FAMILIES: tuple[Family, ...] = tuple(map(_read, _TABLE.strip().splitlines()))

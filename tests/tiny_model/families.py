"""What can be asked for in plain words: families of tools, each with its phrasings, values and results.

Called by scenarios.py. A family is a tool under several names, questions and orders that ask for it, and the keys
of its result. `{name}` in a phrase is an argument; what it may hold says `SLOTS`. The last question of each family
is kept from the training, to be measured on. `noun_family` makes families up, of which the words say themselves
which tool is meant.
"""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tests.tiny_model.conversations import PARAMS, made_up_word, split

SLOTS: Mapping[str, str] = {
    "city": "city", "origin": "city", "destination": "city", "name": "person", "customer": "person",
    "user": "person", "email": "email", "item": "item", "product": "item", "query": "query", "topic": "query",
    "text": "text", "message": "text", "body": "text", "title": "query", "task": "query", "path": "path",
    "folder": "folder", "command": "command", "date": "date", "time": "time", "expression": "expression",
    "url": "url", "symbol": "symbol", "language": "language", "order_id": "id", "ticket_id": "id",
    "invoice_id": "id", "days": "number", "amount": "number", "quantity": "number", "minutes": "number",
    "limit": "number", "unit": "celsius|fahrenheit", "priority": "low|medium|high", "state": "on|off",
    "status": "open|closed|pending", "room": "word", "device": "word", "content": "text", "recipient": "person",
    "currency": "USD|EUR|GBP|CHF", "source": "path", "target": "folder", "song": "query", "value": "any",
    "branch": "word", "entity": "any", "flight_id": "id", "customer_id": "id", "user_id": "id", "entity_id": "id",
}  # fmt: skip
ALIASES: Mapping[str, list[str]] = {
    "city": ["location", "place", "town"], "name": ["person", "full_name", "customer_name"], "query": ["q", "search"],
    "path": ["file", "file_path", "filename"], "command": ["cmd", "shell_command"], "item": ["product", "article"],
    "text": ["content", "message", "input"], "customer": ["name", "client"], "order_id": ["id", "order"],
    "ticket_id": ["id", "ticket"], "invoice_id": ["id", "invoice"], "folder": ["directory", "path", "dir"],
    "topic": ["subject", "about"], "date": ["day", "when"], "expression": ["formula", "input"],
    "value": ["name", "key"],
    "recipient": ["to", "person"], "email": ["address", "to"], "symbol": ["ticker", "stock"],
    "title": ["name", "topic"],
}  # fmt: skip
FIELD = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Family:
    """One thing that can be asked for."""

    names: list[str]
    about: str
    asks: list[str]
    orders: list[str]  # such as "get the price of {item}": parts of longer requests
    gives: Mapping[str, str]  # keys of the result, the reported one first

    @property
    def params(self) -> dict[str, bool]:
        """The arguments, and whether they are required: those that every phrase names are."""
        said = [FIELD.findall(phrase) for phrase in (*self.asks, *self.orders)]
        return {name: all(name in one for one in said) for one in said for name in one}


def family(names: str, about: str, gives: str, asks: str, orders: str) -> Family:
    """Phrases a line each; what it gives as `key:slot`."""
    lines = [[line.strip() for line in text.strip().splitlines()] for text in (asks, orders)]
    return Family(
        split(names), about, *lines, {key: slot for key, _, slot in (one.partition(":") for one in gives.split())}
    )


FAMILIES = [
    family("get_weather get_current_weather weather_lookup check_weather", "get the weather",
        "weather:word temperature:number", """
        What is the weather in {city}?
        How is the weather in {city} today?
        Tell me the weather in {city}
        What's the weather like in {city}?
        Will it rain in {city}?
        Is it sunny in {city}?
        What is the weather in {city} in {unit}?
        What will the weather be in {city} for the next {days} days?
        Weather in {city}?
        I would like to know the weather in {city}""", """
        get the weather in {city}
        check the weather in {city}
        look up the weather in {city}
        get the weather for {city}"""),
    family("get_time get_current_time world_clock time_in_city", "the time in a city", "time:time", """
        What time is it in {city}?
        Tell me the time in {city}
        What is the current time in {city}?
        Do you know what time it is in {city}?""", """
        get the time in {city}
        check the time in {city}"""),
    family("get_price check_price lookup_price get_product_price", "the price of a product", "price:number", """
        What is the price of {item}?
        How much is {item}?
        How much does {item} cost?
        What does {item} cost?
        Tell me the price of {item}
        What do I pay for {item}?""", """
        get the price of {item}
        look up the price of {item}
        check the price of {item}
        find out what {item} costs"""),
    family("get_stock check_stock check_inventory get_inventory_level", "how many are in stock", "stock:number", """
        How many {item} are in stock?
        Is {item} in stock?
        Check the stock of {item}
        Do we have {item} in stock?""", """
        check the stock of {item}
        get the stock of {item}
        check the inventory for {item}"""),
    family("get_stock_price get_share_price stock_quote", "the price of a share", "share_price:number", """
        What is the stock price of {symbol}?
        How is {symbol} trading?
        What is the share price of {symbol}?
        Give me the quote of {symbol}""", """
        get the stock price of {symbol}
        get the share price of {symbol}"""),
    family("search_web web_search search_the_web internet_search", "search the web", "result:query", """
        Search the web for {query}
        Search for {query}
        Look up {query} on the web
        Find information about {query}
        Can you search the internet for {query}?
        Google {query}""", """
        search the web for {query}
        search for {query}"""),
    family("read_file open_file view_file get_file_contents", "read a file", "content:text", """
        Read {path}
        Show me the file {path}
        What is in {path}?
        Open the file {path}
        Show me the contents of {path}
        Let me see {path}""", """
        read the file {path}
        open {path}
        read {path}"""),
    family("list_files list_directory ls list_folder", "list the files of a folder", "files:path", """
        List the files in {folder}
        What files are in {folder}?
        Show me the files in {folder}
        Which files does {folder} hold?""", """
        list the files in {folder}
        list {folder}"""),
    family("delete_file remove_file", "delete a file", "deleted:path", """
        Delete {path}
        Remove the file {path}
        Please delete the file {path}
        Get rid of {path}""", """
        delete the file {path}
        delete {path}
        remove {path}"""),
    family("write_file create_file save_file", "write text to a file", "written:path", """
        Write "{content}" to {path}
        Create a file {path} with the content "{content}"
        Save "{content}" in {path}
        Put "{content}" into the file {path}""", """
        write "{content}" to {path}
        save "{content}" in {path}"""),
    family("copy_file move_file", "copy or move a file", "moved:path", """
        Copy {source} to {target}
        Move {source} to {target}
        Move the file {source} into {target}
        Put {source} into {target}""", """
        copy {source} to {target}
        move {source} to {target}"""),
    family("run_command bash shell execute_command run_shell", "run a shell command", "output:text", """
        Run {command}
        Run the command {command}
        Execute {command}
        Please run `{command}`
        Run `{command}` in the shell
        Can you execute `{command}`?""", """
        run {command}
        run the command {command}
        execute `{command}`"""),
    family("calculate calculator evaluate_expression", "calculate", "result:number", """
        What is {expression}?
        Calculate {expression}
        How much is {expression}?
        Compute {expression}""", """
        calculate {expression}
        compute {expression}"""),
    family("translate_text translate", "translate text", "translation:text", """
        Translate "{text}" to {language}
        Translate "{text}" into {language}
        How do you say "{text}" in {language}?
        What is "{text}" in {language}?""", """
        translate "{text}" to {language}
        translate "{text}" into {language}"""),
    family("send_email send_mail email_send", "send an email", "sent:id", """
        Send an email to {email} about {topic}
        Email {email} about {topic}
        Write an email to {email} about {topic}
        Drop {email} a mail about {topic}""", """
        send an email to {email} about {topic}
        email {email} about {topic}"""),
    family("send_message send_chat_message notify_user", "send a message to a person", "message_id:id", """
        Tell {recipient} "{message}"
        Send {recipient} the message "{message}"
        Message {recipient}: "{message}"
        Let {recipient} know: "{message}\"""", """
        send {recipient} the message "{message}"
        tell {recipient} "{message}\""""),
    family("create_reminder set_reminder add_reminder", "set a reminder", "reminder:id", """
        Remind me to {task} at {time}
        Set a reminder to {task} at {time}
        Remind me at {time} to {task}
        Don't let me forget to {task} at {time}""", """
        set a reminder to {task} at {time}
        remind me to {task} at {time}"""),
    family("set_timer start_timer", "start a timer", "timer:id", """
        Set a timer for {minutes} minutes
        Start a timer of {minutes} minutes
        Timer for {minutes} minutes
        Wake me in {minutes} minutes""", """
        set a timer for {minutes} minutes
        start a timer for {minutes} minutes"""),
    family("create_event add_event schedule_meeting calendar_create_event", "add an event to the calendar", "event:id",
        """
        Schedule a meeting about {title} on {date}
        Add an event about {title} on {date} to my calendar
        Plan a meeting about {title} for {date}
        Put a meeting about {title} on {date} into the calendar""", """
        schedule a meeting about {title} on {date}
        add an event about {title} on {date}"""),
    family("list_events get_calendar show_schedule", "what is in the calendar", "event:query", """
        What is in my calendar on {date}?
        What do I have on {date}?
        Show my schedule for {date}
        Which meetings do I have on {date}?""", """
        check the calendar for {date}
        list the events on {date}"""),
    family("find_order get_order lookup_order search_customer_orders", "find the order of a customer",
        "order_id:id status:word", """
        Find the order of {customer}
        What did {customer} order?
        Show me the order of customer {customer}
        Which order is from {customer}?""", """
        find the order of {customer}
        find the order of customer {customer}
        look up the order of {customer}"""),
    family("cancel_order", "cancel an order", "cancelled:id", """
        Cancel order {order_id}
        Cancel the order {order_id}
        Please cancel my order {order_id}
        I don't want order {order_id} any more""", """
        cancel the order {order_id}
        cancel order {order_id}"""),
    family("ship_order send_order dispatch_order", "ship an order", "shipment:id", """
        Ship order {order_id}
        Please ship the order {order_id}
        Send out order {order_id}""", """
        ship order {order_id}
        ship the order {order_id}"""),
    family("get_order_status check_order order_status track_order", "the status of an order", "status:word", """
        Where is my order {order_id}?
        What is the status of order {order_id}?
        Track order {order_id}
        How far is order {order_id}?""", """
        get the status of order {order_id}
        check the status of order {order_id}"""),
    family("create_ticket open_ticket create_issue github_create_issue", "open a ticket", "ticket_id:id", """
        Open a ticket about {title} with priority {priority}
        Create a {priority} priority ticket about {title}
        Create a ticket about {title}
        File a ticket about {title}
        I need a ticket about {title}""", """
        open a ticket about {title}
        create a ticket about {title}"""),
    family("close_ticket resolve_ticket", "close a ticket", "closed:id", """
        Close ticket {ticket_id}
        Close the ticket {ticket_id}
        Ticket {ticket_id} can be closed""", """
        close ticket {ticket_id}
        close the ticket {ticket_id}"""),
    family("get_ticket show_ticket read_ticket", "show a ticket", "ticket:query priority:word", """
        Show me ticket {ticket_id}
        What is ticket {ticket_id} about?
        Read ticket {ticket_id}
        Let me see ticket {ticket_id}""", """
        read ticket {ticket_id}
        show ticket {ticket_id}"""),
    family("list_tickets search_tickets", "list tickets by status", "ticket:id", """
        Which tickets are {status}?
        List the {status} tickets
        Show me all {status} tickets
        Are there any {status} tickets?""", """
        list the {status} tickets"""),
    family("find_customer get_customer lookup_customer search_customer_by_name", "find a customer",
        "customer_id:id email:email", """
        Find the customer {name}
        Who is customer {name}?
        Look up the customer {name}
        Do we have a customer called {name}?""", """
        find the customer {name}
        look up customer {name}"""),
    family("get_email find_email lookup_email_address", "find the email address of a person", "email:email", """
        What is the email address of {name}?
        Find the email of {name}
        What's {name}'s email?
        How can I mail {name}?""", """
        find the email address of {name}
        look up the email of {name}"""),
    family("book_flight reserve_flight", "book a flight", "booking:id", """
        Book a flight from {origin} to {destination} on {date}
        I need a flight from {origin} to {destination} on {date}
        Fly me from {origin} to {destination} on {date}""", """
        book a flight from {origin} to {destination} on {date}"""),
    family("search_flights find_flights flight_search", "search flights", "flight:id", """
        Search flights from {origin} to {destination}
        Find flights from {origin} to {destination}
        Which flights go from {origin} to {destination}?
        Is there a flight from {origin} to {destination}?""", """
        search flights from {origin} to {destination}
        find a flight from {origin} to {destination}"""),
    family("book_hotel reserve_hotel_room", "book a hotel", "booking:id", """
        Book a hotel in {city} for {days} nights
        I need a hotel in {city} for {days} nights
        Reserve a room in {city} for {days} nights""", """
        book a hotel in {city} for {days} nights"""),
    family("find_restaurant search_restaurants", "find a restaurant", "restaurant:person", """
        Find a restaurant in {city}
        Where can I eat in {city}?
        I want to eat in {city}
        Any good restaurants in {city}?""", """
        find a restaurant in {city}"""),
    family("get_population population_of_city", "the population of a city", "population:number", """
        How many people live in {city}?
        What is the population of {city}?
        Tell me the population of {city}
        How big is the population of {city}?""", """
        get the population of {city}
        find the population of {city}"""),
    family("convert_currency exchange_money", "convert money", "converted:number", """
        Convert {amount} to {currency}
        How much is {amount} in {currency}?
        Change {amount} into {currency}""", """
        convert {amount} to {currency}"""),
    family("switch_light set_light toggle_light smart_home_set_light", "switch a light", "light:word", """
        Turn {state} the light in the {room}
        Switch {state} the light in the {room}
        Switch the {room} light {state}
        Make the light in the {room} go {state}""", """
        turn {state} the light in the {room}
        switch {state} the {room} light"""),
    family("play_song play_music music_player_play", "play a song", "playing:query", """
        Play {song}
        Play the song {song}
        I want to hear {song}
        Put on {song}""", """
        play {song}
        play the song {song}"""),
    family("fetch_url open_page get_webpage fetch_page", "fetch a web page", "title:query", """
        Open {url}
        Fetch {url}
        Get the page {url}
        What does {url} say?""", """
        fetch {url}
        open the page {url}"""),
    family("add_item add_to_cart cart_add_item", "add an item to the cart", "cart:number", """
        Add {quantity} {item} to my cart
        Put {quantity} {item} into the cart
        Add {quantity} {item}
        I'll take {quantity} {item}""", """
        add {quantity} {item} to the cart
        put {quantity} {item} into the cart"""),
    family("create_note add_note take_note", "write down a note", "note:id", """
        Note that {text}
        Make a note: {text}
        Write down: {text}
        Keep in mind: {text}""", """
        make a note: {text}
        write a note that {text}"""),
    family("git_checkout switch_branch", "switch to a branch", "branch:word", """
        Switch to the branch {branch}
        Check out the branch {branch}
        Go to the branch {branch}""", """
        switch to the branch {branch}"""),
]  # fmt: skip

NOUN_VERBS = split("get find fetch lookup show check read query")
NOUN_ASKS = [
    "What is the {noun} of @?",
    "What is the {noun} for @?",
    "What's the {noun} of @?",
    "Show me the {noun} of @",
    "I need the {noun} for @",
    "Tell me the {noun} of @",
    "Give me the {noun} of @",
    "{verb} the {noun} of @",
    "{verb} the {noun} for @",
    "{verb} {noun} @",
    "Could you tell me the {noun} of @?",
]
NOUN_ORDERS = ["{verb} the {noun} of @", "{verb} the {noun} for @", "get the {noun} of @", "{verb} {noun} @"]
SPOKEN = {"lookup": "look up", "fetch": "get", "query": "find"}


def noun_family(rng: random.Random, nouns: list[str], *, made_up: float) -> Family:
    """One that looks a thing up by a single argument."""
    noun = made_up_word(rng) if rng.random() < made_up else rng.choice(nouns)
    verb = rng.choice(NOUN_VERBS)
    spoken = SPOKEN.get(verb, verb)
    said = rng.choice(["value", "city", "name", "item", "entity"])
    field = f"{{{said}}}"
    names = [f"{verb}_{noun}", f"{noun}_lookup", f"{verb}_{noun}_by_{said}", f"get_{noun}"]
    asks = [ask.replace("@", field).format_map({"noun": noun, "verb": spoken, said: field}) for ask in NOUN_ASKS]
    orders = [one.replace("@", field).format_map({"noun": noun, "verb": spoken, said: field}) for one in NOUN_ORDERS]
    gives = {noun: rng.choice(["number", "word", "id", "any"])}
    if rng.random() < 0.3:
        gives[rng.choice(PARAMS["string"])] = "word"
    about = rng.choice([f"{spoken} the {noun}", f"the {noun} of a {said}", f"{spoken} the {noun} by {said}"])
    return Family(names, about, [ask[0].upper() + ask[1:] for ask in asks], orders, gives)


@dataclass(frozen=True, slots=True)
class Chain:
    """Two tools of which the second takes what the first gave."""

    first: Family
    second: Family  # its orders name by "it" what the first gave
    key: str  # in the result of the first
    param: str  # of the second


ACTS = split("""cancel close delete update send open approve archive ship refund book check read start stop print
restore assign merge share export pay details show notify reserve copy translate""")
EXTRAS = {
    "name": "to {name}", "recipient": "to {recipient}", "amount": "with amount {amount}", "date": "for {date}",
    "status": "with status {status}", "message": 'with the message "{message}"', "quantity": "with quantity {quantity}",
}  # fmt: skip


def chain(first: str, second: str, key: str, asks: str, orders: str, after: str) -> Chain:
    """Tools as `name what it does`; what the first gives, what the second does and gives."""
    (first_name, about), (second_name, second_about) = first.split(" ", 1), second.split(" ", 1)
    asked, ordered = asks.split("; "), orders.split("; ")
    return Chain(
        Family([first_name], about, asked, asked, {key: SLOTS.get(key, "any")}),
        Family([second_name], second_about, ordered, ordered, {after: "id"}),
        key,
        key,
    )


CHAINS = [
    chain("get_email the email address of a person", "send_email send an email", "email",
        "find the email of {name}; get the email address of {name}; look up the email of {name}",
        "send an email about {topic} to it; send them an email about {topic}; email them about {topic}", "sent"),
    chain("find_file find a file", "read_file read a file", "path",
        "find the file about {query}; search for the file about {query}", "read it; open it; show it", "content"),
    chain("search_flights search flights", "book_flight book a flight", "flight_id",
        "find a flight from {origin} to {destination}; search flights to {destination}",
        "book it; book that flight; reserve it", "booking"),
    chain("find_customer find a customer", "create_invoice make an invoice", "customer_id",
        "find the customer {name}; look up customer {name}",
        "make an invoice of {amount}; create an invoice for {amount}; bill them {amount}", "invoice"),
    chain("find_order find the order of a customer", "cancel_order cancel an order", "order_id",
        "find the order of {customer}; look up the order of customer {customer}; find the order of customer {customer}",
        "cancel it; cancel that order; cancel the order", "cancelled"),
    chain("find_order find the order of a customer", "refund_order refund an order", "order_id",
        "find the order of {customer}; get the order of {customer}", "refund it; refund that order", "refund"),
    chain("get_user find a user", "delete_user delete a user", "user_id",
        "find the user {user}; look up {user}", "delete it; delete that user; remove the user", "deleted"),
    chain("get_entity find an entity", "get_details the details of an entity", "entity_id",
        "find the entity {name}; look up {name}", "get its details; get the details; show the details", "details"),
    chain("list_tickets list tickets by status", "close_ticket close a ticket", "ticket_id",
        "find the {status} ticket; list the {status} tickets", "close it; close that ticket", "closed"),
    chain("get_country the country of a city", "get_currency the currency of a country", "country",
        "find the country of {city}; get the country of {city}", "get its currency; find its currency", "currency"),
]  # fmt: skip


def make_chain(rng: random.Random, nouns: list[str], *, made_up: float) -> Chain:
    """Find a thing, then do something with the identity that was found."""
    if rng.random() < 0.35:
        return rng.choice(CHAINS)
    noun = made_up_word(rng) if rng.random() < made_up else rng.choice(nouns)
    verb, act = rng.choice(["find", "get", "search", "lookup", "fetch"]), rng.choice(ACTS)
    spoken = SPOKEN.get(verb, verb)
    said = rng.choice(["customer", "name", "title", "city", "item", "user", "value"])
    key = rng.choice([f"{noun}_id", f"{noun}_id", "id", f"{noun}_number"])
    gives = {key: rng.choice(["id", "id", "number"])}
    if rng.random() < 0.5:
        gives[rng.choice(PARAMS["string"])] = "word"
    asks = [f"{spoken} the {noun} {join}" for join in (f"of {{{said}}}", f"for {{{said}}}", f"of {said} {{{said}}}")]
    acted = "get the details of" if act == "details" else act
    extra = " " + rng.choice(list(EXTRAS.values())) if rng.random() < 0.3 else ""
    order = f"{acted} {rng.choice(['it', 'it', f'that {noun}', f'the {noun}'])}{extra}"
    after = {rng.choice(["status", "result", noun, "confirmation"]): rng.choice(["word", "id"])}
    name = f"get_{noun}_details" if act == "details" else f"{act}_{noun}"
    return Chain(
        Family([f"{verb}_{noun}"], f"{spoken} a {noun} by {said}", asks, asks, gives),
        Family([name], f"{acted} a {noun}", [order], [order], after),
        key,
        rng.choice([key, key, f"{noun}_id", "id"]),
    )

"""`forge-proxy rescue`: what the daemon finds in a text that a model wrote, and why.

`inputs` reads the files; `findings`, `why_not` and `reasons` look at the text with the functions of the daemon; `show`
and `as_json` write down what they found. Nothing of that is imported here: other commands start without it.
"""

from typing import Literal

Finish = Literal["stop", "length"]


class InputError(Exception):
    """An input cannot be used; the message names it and says what to do."""

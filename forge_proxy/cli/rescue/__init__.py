"""`forge-proxy rescue`: explains which tool calls the daemon finds in the text of a model.

`inputs` reads the files; `findings`, `candidates` and `reasons` analyze the text with the functions of the daemon;
`text_output` and `json_output` render the result. None of them is imported here: other commands start without them.
"""

from typing import Literal

Finish = Literal["stop", "length"]


class InputError(Exception):
    """An input cannot be used. The message names it and what to do."""

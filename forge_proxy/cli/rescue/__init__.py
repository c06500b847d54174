"""`forge-proxy rescue`: what the daemon finds in a text that a model wrote, and why.

`inputs` reads the files; `findings`, `why_not` and `reasons` look at the text with the functions of the daemon; `show`
and `as_json` write down what they found.
"""

from forge_proxy.cli.rescue.command import run_rescue
from forge_proxy.cli.rescue.inputs import Finish, InputError

__all__ = ["Finish", "InputError", "run_rescue"]

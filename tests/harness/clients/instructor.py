"""instructor, which wants the parameters of one named tool and asks again by itself where they are not valid."""

from __future__ import annotations

from tests.harness.client import program
from tests.harness.packages import Venv
from tests.harness.tasks import ExtractTwo

ROWS = program(Venv("instructor", ("instructor",)), "instructor_extract.py", "whole", task=ExtractTwo)

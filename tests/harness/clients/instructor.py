"""instructor, which requires the parameters of one named tool and retries by itself if they are invalid."""

from __future__ import annotations

from tests.harness.client import program
from tests.harness.packages import Venv
from tests.harness.tasks import ExtractTwo

ROWS = program(Venv("instructor", ("instructor",)), "instructor_extract.py", "whole", task=ExtractTwo)

"""A wall clock that a test sets while a daemon runs, as an operator or NTP does. The monotonic clock is not changed."""

from __future__ import annotations

from pathlib import Path

_SITECUSTOMIZE = """
import datetime, pathlib, time
_offset = pathlib.Path(__file__).with_name("offset")
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + int(_offset.read_text())
time.time_ns = lambda: _time_ns() + int(_offset.read_text()) * 10**9

class _Shifted(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(time.time(), tz)

datetime.datetime = _Shifted
"""


class WallClock:
    """The wall clock of the processes whose environment has `settings`."""

    def __init__(self, folder: Path) -> None:
        (folder / "sitecustomize.py").write_text(_SITECUSTOMIZE)
        self._offset = folder / "offset"
        self.jump(0)
        self.settings = {"PYTHONPATH": str(folder)}

    def jump(self, seconds: int) -> None:
        """Set the clock to this many seconds off the true time."""
        new = self._offset.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self._offset)

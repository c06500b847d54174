"""The one place that knows every concrete class: builds them, starts them in order, stops them in the other order."""

from forge_proxy.daemon.assembly import Assembled, MonotonicClock, assemble
from forge_proxy.daemon.serving import open_listener, run, serve

__all__ = ["Assembled", "MonotonicClock", "assemble", "open_listener", "run", "serve"]

"""The one place that knows every concrete class: builds them, starts them in order, stops them in the other order."""

from forge_proxy.daemon.container import EngineAssembly, MonotonicClock, assemble
from forge_proxy.daemon.serving import open_listener, run, serve

__all__ = ["EngineAssembly", "MonotonicClock", "assemble", "open_listener", "run", "serve"]

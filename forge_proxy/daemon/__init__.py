"""The composition root: the only package that imports every concrete class. It builds them, starts them in order and
stops them in reverse order.
"""

from forge_proxy.daemon.container import EngineAssembly, MonotonicClock, assemble
from forge_proxy.daemon.serving import open_listener, run, serve

__all__ = ["EngineAssembly", "MonotonicClock", "assemble", "open_listener", "run", "serve"]

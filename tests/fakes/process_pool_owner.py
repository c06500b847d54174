"""A program whose process pool never becomes idle: `python -m tests.fakes.process_pool_owner`."""

from __future__ import annotations

import uvloop

from forge_proxy.engine.process_pool import ProcessPool
from tests.fakes.work import spin


async def main() -> None:
    """Wait until killed."""
    await ProcessPool(seconds=600).run(spin)


if __name__ == "__main__":
    uvloop.run(main())

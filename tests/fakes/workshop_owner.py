"""A program whose workshop never comes to an end: `python -m tests.fakes.workshop_owner`."""

from __future__ import annotations

import uvloop

from forge_proxy.engine.process_pool import ProcessPool
from tests.fakes.work import spin


async def main() -> None:
    """Wait until killed."""
    await ProcessPool(seconds=600).run(spin)


if __name__ == "__main__":
    uvloop.run(main())

"""A program whose workshop never comes to an end: `python -m tests.fakes.workshop_owner`."""

from __future__ import annotations

import uvloop

from forge_proxy.engine.workshop import Workshop
from tests.fakes.work import spin


async def main() -> None:
    """Wait until killed."""
    await Workshop(seconds=600).run(spin)


if __name__ == "__main__":
    uvloop.run(main())

"""`make schemas`: many made-up requests to every described route, others each time."""

from __future__ import annotations

import argparse

from tests.schemas.checks import operations, try_out
from tests.schemas.routes import Application


def main() -> None:
    """Print how many requests each route took; a request that it does not is shown by the exception."""
    parser = argparse.ArgumentParser(prog="make schemas")
    parser.add_argument("--examples", type=int, default=200, help="of right and of wrong ones, for each route")
    examples = parser.parse_args().examples
    for managed in (False, True):
        application = Application(managed=managed)
        for operation in operations(application):
            made = try_out(application, operation, examples, seeded=False)
            print(f"{made:6} {operation.label}{' (managed)' if managed else ''}", flush=True)  # noqa: T201
        application.close()


if __name__ == "__main__":
    main()

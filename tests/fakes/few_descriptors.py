"""`python -m tests.fakes.few_descriptors 256 serve ...`: the daemon with that limit of open files, soft and hard."""

import resource
import sys

from forge_proxy.cli import main

if __name__ == "__main__":
    limit = int(sys.argv.pop(1))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    main()

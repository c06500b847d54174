"""`python -m tests.fakes.with_hosts FILE serve ...`: the daemon with that file as its /etc/hosts. Needs root.

The file is mounted for this process and its children only.
"""

import os
import sys

if __name__ == "__main__":
    file, *words = sys.argv[1:]
    script = 'mount --bind "$0" /etc/hosts && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", script, file, sys.executable, "-m", "forge_proxy", *words]
    os.execvp(command[0], command)  # no shell parses the arguments

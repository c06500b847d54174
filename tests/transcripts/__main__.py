"""`python -m tests.transcripts [NAME …]`: record the transcripts whose names begin so. Review the diff."""
# ruff: noqa: T201  a command line prints

from __future__ import annotations

import sys

from tests.transcripts.recording import record_of, run_transcript, write_record
from tests.transcripts.scenarios import TRANSCRIPTS


def main() -> None:
    """Record them."""
    for transcript in TRANSCRIPTS:
        if transcript.name.startswith(tuple(sys.argv[1:] or [""])):
            write_record(transcript, run_transcript(transcript))
            print(record_of(transcript).name)


if __name__ == "__main__":
    main()

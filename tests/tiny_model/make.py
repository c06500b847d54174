"""Make the tiny model from nothing, with one command: data, training, GGUF files.

    python -m tests.tiny_model.make            # or: make tiny-model

Each part can be run by itself with its own options: make_data.py, train.py, export.py. This runs them with their
defaults, which are those of the shipped model, into build/tiny-model.
"""

import runpy
import sys

PARTS = ("make_data", "train", "export")


def main() -> None:
    for part in PARTS:
        sys.argv = [part]
        runpy.run_module(f"tests.tiny_model.{part}", run_name="__main__")


if __name__ == "__main__":
    main()

"""Write every generated file: reference pages of the documentation, and the JSON Schema of the settings."""

from __future__ import annotations

from scripts.generated import GENERATED, ROOT


def main() -> None:
    """Write the files whose text has changed, and print their paths."""
    for path, render in GENERATED.items():
        file, text = ROOT / path, render()
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
            print(path)


if __name__ == "__main__":
    main()

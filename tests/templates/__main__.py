"""Measures the forms that are learned from the chat templates in packages, and writes the table of the documentation.

python -m tests.templates [--cuts] [--negatives FILE]
"""

# ruff: noqa: T201  a command line prints

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from forge_proxy.backends.chat_templates.learning import learn_template
from forge_proxy.core.rescue import LearnedForm, rescue
from forge_proxy.core.rescue.templates.learn import FAILURES
from tests.core.rescue.test_negatives import NAMES, SHOWN
from tests.templates.packages import PACKAGES, Package, fetch
from tests.templates.scoring import CASES, Template, open_template, read, streams_alike, wrong_cuts

_PAGE = Path(__file__).parents[2] / "docs" / "chat-templates.md"
_BEGIN, _END = "<!-- measured: begin -->", "<!-- measured: end -->"


@dataclass
class Result:
    """The result of one template: cases read with the general grammar and without it, wrong cuts, false calls."""

    template: Template
    package: Package
    milliseconds: float
    cases: int = 0
    read: int = 0
    read_alone: int = 0
    wrong_cuts: int = 0
    unlike: int = 0
    false_calls: int = 0


def main() -> int:
    """Measure; 1 if a promise is not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", action="store_true", help="cut each response at every byte, and stream it so")
    parser.add_argument("--negatives", type=Path, help="a corpus whose texts without calls are read too")
    options = parser.parse_args()
    negatives = [*_shown(), *(_corpus(options.negatives) if options.negatives else ())]
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        for package in PACKAGES:
            for name, source in fetch(package, Path(folder)):
                results.append(_measure(package, name, source, negatives, cuts=options.cuts))
                print(_row(results[-1]), flush=True)
    summary = _summary(results, len(negatives))
    print(summary)
    page = _PAGE.read_text()
    head, _, rest = page.partition(_BEGIN)
    tail = rest.partition(_END)[2]
    rows = "\n".join(map(_row, results))
    _PAGE.write_text(f"{head}{_BEGIN}\n{summary}\n\n{_HEADER}\n{rows}\n{_END}{tail}")
    learned = [result for result in results if result.template.learned.form]
    kept = sum(result.read == result.read_alone == result.cases for result in learned) >= 0.9 * len(results)
    return 0 if kept and not any(one.wrong_cuts + one.unlike + one.false_calls for one in results) else 1


def _measure(package: Package, name: str, source: str, negatives: list[_Negative], *, cuts: bool) -> Result:
    began = time.process_time()
    learn_template(source)
    milliseconds = (time.process_time() - began) * 1000
    result = Result(open_template(name, source), package, milliseconds)
    form = result.template.learned.form
    for case, text in result.template.responses() if form else ():
        expected = [*CASES[case]]
        result.cases += 1
        result.read += read(text, form, general=True) == expected
        result.read_alone += read(text, form, general=False) == expected
        if cuts:
            result.wrong_cuts += wrong_cuts(text, CASES[case], form, general=True)
            result.wrong_cuts += wrong_cuts(text, CASES[case], form, general=False)
            result.unlike += not streams_alike(f"I look. {text}", form)
    result.false_calls = sum(_is_false(negative, form) for negative in negatives) if form else 0
    return result


@dataclass
class _Negative:
    """A text without calls, and the tools that were offered."""

    text: str
    names: tuple[str, ...]


def _shown() -> Iterator[_Negative]:
    return (_Negative(text, NAMES) for text in SHOWN.values())


def _corpus(file: Path) -> Iterator[_Negative]:
    for line in file.read_text().splitlines():
        case = json.loads(line)
        if case["kind"] == "negative":
            yield _Negative(case["text"], tuple(tool["function"]["name"] for tool in case["tools"]))


def _is_false(negative: _Negative, form: LearnedForm | None) -> bool:
    """Whether a call is found with the form, with or without the general grammar, that is not found without it.

    Calls of tools that were not offered are found in some of the texts, and refused when they are judged.
    """
    without = rescue(negative.text, negative.names)
    known = {item.call for item in without.calls}
    # Only the general grammar knows the tags of reasoning, in which there are drafts of calls.
    modes = (True,) if without.reasoning else (True, False)
    found = [rescue(negative.text, negative.names, form=form, general=general).calls for general in modes]
    return any(item.call not in known for calls in found for item in calls)


_HEADER = (
    "| template | source | form | read | alone | wrong cuts | false calls | ms |\n|---|---|---|---|---|---|---|---|"
)


def _row(result: Result) -> str:
    learned = result.template.learned
    form = learned.form.shape if learned.form else FAILURES[learned.failure]
    counts = (
        f"{result.read}/{result.cases} | {result.read_alone}/{result.cases}"
        f" | {result.wrong_cuts + result.unlike} | {result.false_calls}"
        if learned.form
        else "– | – | – | –"
    )
    return f"| {result.template.name} | {result.package.title} | {form} | {counts} | {result.milliseconds:.0f} |"


def _summary(results: list[Result], negatives: int) -> str:
    learned = [one for one in results if one.template.learned.form]
    whole = sum(one.read == one.cases for one in learned)
    alone = sum(one.read_alone == one.cases for one in learned)
    return (
        f"{len(results)} templates, {len(learned)} learned. All calls are read back with exactly the same arguments for"
        f" {whole}"
        f" ({100 * whole / len(results):.0f} %), without the general grammar for {alone}"
        f" ({100 * alone / len(results):.0f} %). {sum(one.cases for one in learned)} responses:"
        f" {sum(one.wrong_cuts for one in learned)} wrong calls when cut off at any byte,"
        f" {sum(one.unlike for one in learned)} streamed differently when cut anywhere,"
        f" {sum(one.false_calls for one in learned)} false calls in {negatives} texts without calls per template."
        f" Learning takes {max(one.milliseconds for one in results):.0f} ms of processor time at most."
    )


if __name__ == "__main__":
    raise SystemExit(main())

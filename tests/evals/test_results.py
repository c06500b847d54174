"""The results file: what was written stays, whatever ends the process that writes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from forge_proxy.evals.results import ResultsError, ResultsFile, read_results
from tests.evals.records import record
from tests.fakes.processes import ROOT


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "evals.jsonl"
    runs = [record(run=0), record(run=1, error="MaxIterationsError", args={"city": "Rome"})]
    file = ResultsFile(path)
    for run in runs:
        file.add(run)
    file.close()

    again = ResultsFile(path)
    again.close()

    assert list(again.records) == list(read_results([path])) == runs


def test_a_run_that_was_made_twice_counts_once_as_it_was_last(tmp_path: Path) -> None:
    path = tmp_path / "evals.jsonl"
    file = ResultsFile(path)
    for run in (record(run=0, seconds=1.0), record(run=0, seconds=2.0)):
        file.add(run)
    file.close()

    (found,) = read_results([path])
    again = ResultsFile(path)
    again.close()

    assert found.seconds == 2.0
    assert list(again.records) == [found]


def test_a_torn_last_line_is_passed_over_and_then_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "evals.jsonl"
    whole = record(run=0).model_dump_json() + "\n"
    path.write_text(whole + record(run=1).model_dump_json()[:50])

    assert [run.run for run in read_results([path])] == [0]
    file = ResultsFile(path)
    file.add(record(run=1))
    file.close()

    assert [run.run for run in read_results([path])] == [0, 1]


RUN = record(run=0).model_dump_json()


@pytest.mark.parametrize(
    ("written", "line"),
    [
        ('{"my": "json"}', 1),
        ("my notes", 1),
        ("{", 1),
        ('{"config": {"debug": true}}', 1),
        ('{"config":{"model":"mine","debug":true}}', 1),
        (f'{RUN}\n{{"my": "json"}}', 2),
        (f"{RUN}\nmy notes", 2),
        (f"my notes\n{RUN[:50]}", 1),
        ("\0\xff", 1),
    ],
)
def test_a_file_of_another_kind_is_not_changed(written: str, line: int, tmp_path: Path) -> None:
    path = tmp_path / "my.json"
    path.write_text(written, encoding="latin-1")

    with pytest.raises(ResultsError, match=rf"my\.json, line {line}: not a run of an eval: "):
        ResultsFile(path)
    with pytest.raises(ResultsError, match=rf"my\.json, line {line}: not a run of an eval: "):
        read_results([path])

    assert path.read_text(encoding="latin-1") == written


@pytest.mark.parametrize("torn", ["{", '{"config":', RUN[:50], RUN[:-1]])
def test_wherever_a_line_is_torn_it_is_cut_off(torn: str, tmp_path: Path) -> None:
    path = tmp_path / "evals.jsonl"
    path.write_text(f"{RUN}\n{torn}")

    ResultsFile(path).close()

    assert path.read_text() == f"{RUN}\n"


def test_a_whole_record_needs_no_end_of_line(tmp_path: Path) -> None:
    path = tmp_path / "evals.jsonl"
    path.write_text(RUN)

    file = ResultsFile(path)
    for run in (1, 2):
        file.add(record(run=run))
    file.close()

    assert [run.run for run in read_results([path])] == [0, 1, 2]
    assert len(path.read_text().splitlines()) == 3


def test_a_new_file_without_records_is_removed(tmp_path: Path) -> None:
    path, mine = tmp_path / "evals.jsonl", tmp_path / "mine.jsonl"
    mine.touch()

    for each in (path, mine):
        ResultsFile(each).close()

    assert (path.exists(), mine.exists()) == (False, True)


def test_a_line_that_is_no_record_is_named(tmp_path: Path) -> None:
    path = tmp_path / "evals.jsonl"
    path.write_text(record().model_dump_json() + '\n{"scenario": "one"}\n')

    with pytest.raises(
        ResultsError, match=r"evals\.jsonl, line 2: not a run of an eval: config: required, but missing"
    ):
        read_results([path])


def test_two_evals_do_not_write_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "evals.jsonl"
    first = ResultsFile(path)

    with pytest.raises(ResultsError, match="another eval writes to it"):
        ResultsFile(path)

    first.close()
    ResultsFile(path).close()


def test_a_full_disk_is_an_error_and_loses_only_the_last_run(tmp_path: Path) -> None:
    path = tmp_path / "evals.jsonl"
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000)); "
    program = (
        "import pathlib, sys; from forge_proxy.evals.results import ResultsFile, ResultsError; "
        "from tests.evals.records import record\n"
        "file = ResultsFile(pathlib.Path(sys.argv[1]))\n"
        "try:\n    [file.add(record(run=run, detail='x' * 3500)) for run in range(9)]\n"
        "except ResultsError as error: print(error)\n"
        "finally: file.close()"
    )
    done = subprocess.run(
        [sys.executable, "-c", full + program, str(path)], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{path}: File too large\n"
    assert [run.run for run in read_results([path])] == [0, 1]


def test_a_kill_loses_no_run_that_was_kept(tmp_path: Path) -> None:
    path = tmp_path / "evals.jsonl"
    told: list[int] = []
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-m", "tests.evals.writer", str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            told += [int(process.stdout.readline()) for _ in range(20)]
            process.kill()

    runs = [run.run for run in read_results([path])]

    assert set(told) <= set(runs)
    assert runs == list(range(len(runs)))  # each start went on where the one before was killed

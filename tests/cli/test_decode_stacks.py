"""`stethoscope decode` with stacks of many ranks: found by content, a page, JSON, and files without stacks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from stethoscope.cli.decode import command
from stethoscope.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

WAITS = (
    "    all_reduce (torch/distributed/distributed_c10d.py:2501)\n    step (train.py:412)\n    main (train.py:618)\n"
)
LOADS = "    __next__ (torch/utils/data/dataloader.py:630)\n    step (train.py:380)\n    main (train.py:618)\n"


@pytest.fixture
def stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "80")
    directory = tmp_path / "stacks"
    directory.mkdir()
    for rank in range(16):
        text = (
            f'Process 4{rank}: python3 train.py\n\nThread 4{rank} (idle): "MainThread"\n{LOADS if rank == 9 else WAITS}'
        )
        (directory / f"rank{rank}.txt").write_text(text)
    return directory


def decode(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, list(arguments), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value, result.stdout


def test_the_page_shows_the_odd_rank_first(stacks: Path) -> None:
    code, text = decode(str(stacks))
    assert code == 2
    assert "Rank 9: in DataLoader.__next__; 15 others are waiting in all_reduce." in text
    tree = text[text.index("Who is where") :].splitlines()
    assert tree[1:9] == [
        "  all: main (train.py:618)",
        "  rank 9: in DataLoader.__next__",
        "      __next__ (torch/utils/data/dataloader.py:630)",
        "      step (train.py:380)",
        "  ranks 0-8 and 10-15: waiting in all_reduce",
        "      all_reduce (torch/distributed/distributed_c10d.py:2501)",
        "      step (train.py:412)",
        "",
    ]
    assert max(map(len, text.splitlines())) <= 80


def test_the_json_holds_the_places(stacks: Path) -> None:
    code, text = decode("--json", "--stacks", str(stacks))
    found: dict[str, Any] = json.loads(text)
    assert (code, found["schema"], found["verdict"]["root_cause"]) == (2, "stethoscope.decode/1", "data_loading")
    assert [(place["ranks"][0], place["kind"]) for place in found["stacks"]] == [(9, "data"), (0, "collective")]


def test_stacks_of_many_ranks_may_be_mixed_in_one_file(stacks: Path, tmp_path: Path) -> None:
    lines = [f"{rank}: {line}" for rank in (8, 9) for line in (stacks / f"rank{rank}.txt").read_text().splitlines()]
    (tmp_path / "mixed").write_text("\n".join(lines))
    _, text = decode(str(tmp_path / "mixed"))
    assert "2 stacks at 2 places" in text


def test_files_without_stacks_are_named(stacks: Path, tmp_path: Path) -> None:
    (stacks / "rank3.txt").write_text("Error: Permission denied (os error 13)\n")
    assert "rank3.txt: no stacks of py-spy dump in it" in " ".join(decode(str(stacks))[1].split())
    empty = tmp_path / "a.txt"
    empty.write_text("step 1\n")
    with pytest.raises(DataError, match="no stacks of py-spy dump in it"):
        decode("--stacks", str(empty))

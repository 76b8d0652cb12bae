"""`stethoscope decode --flight-recorder`: the page, the JSON, files that are no dumps, and hostile ones."""

from __future__ import annotations

import gzip
import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from stethoscope.cli.decode import command
from stethoscope.errors import DataError, UsageError
from tests.flight_dumps import call, dump

if TYPE_CHECKING:
    from pathlib import Path

GROUPS = {"0": ("default_pg", [0, 1, 2, 3])}


@pytest.fixture
def dumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "80")
    directory = tmp_path / "dumps"
    directory.mkdir()
    here = dump([call(5, 10, where="train.py:7:step")], GROUPS, {"0": (10, 9)})
    (directory / "nccl_trace_rank_0").write_bytes(pickle.dumps(here, 2))
    (directory / "nccl_trace_rank_1.json").write_text(json.dumps(here))
    (directory / "nccl_trace_rank_2.gz").write_bytes(gzip.compress(pickle.dumps(here, 4)))
    (directory / "nccl_trace_rank_3").write_bytes(pickle.dumps(dump([], GROUPS, {"0": (9, 9)}), 2))
    return directory


def decode(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, list(arguments), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value, result.stdout


def test_the_page_names_who_never_came(dumps: Path) -> None:
    code, text = decode("--flight-recorder", str(dumps))
    assert code == 2
    assert "Rank 3 never came to all_reduce number 10 of default_pg (4 ranks)" in " ".join(text.split())
    assert "who      rank 3\n" in text
    assert "default_pg 4 ranks all_reduce number 10, 1024" in " ".join(text.split())
    assert "      at train.py:7 step\n" in text
    assert "dumps of 4 of 4 ranks" in text
    assert max(map(len, text.splitlines())) <= 80


def test_the_json_holds_the_verdict_and_the_groups(dumps: Path) -> None:
    code, text = decode("--json", "--flight-recorder", str(dumps))
    found: dict[str, Any] = json.loads(text)
    assert (code, found["schema"]) == (2, "stethoscope.decode/1")
    assert [culprit["rank"] for culprit in found["verdict"]["culprits"]] == [3]
    recorder = found["flight_recorder"]
    assert (recorder["ranks"], recorder["absent"]) == ([0, 1, 2, 3], [])
    assert recorder["groups"][0]["late"] == [3]
    assert recorder["ends"] == [
        {"reason": "late", "ranks": [3], "group": "0", "seq": 10, "op": "all_reduce", "waited_for_by": [0, 1, 2]}
    ]


def test_a_hostile_dump_is_named_and_the_others_are_read(dumps: Path) -> None:
    (dumps / "nccl_trace_rank_1.json").unlink()
    (dumps / "nccl_trace_rank_1").write_bytes(b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00id\x85R.")
    _, text = decode("--flight-recorder", str(dumps))
    assert "it asks for code to be run (GLOBAL os.system)" in " ".join(text.split())
    assert "dumps of rank 1" in text


def test_nothing_but_hostile_dumps_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "rank0").write_bytes(b"\x80\x02cos\nsystem\n.")
    with pytest.raises(DataError, match="asks for code to be run"):
        decode("--flight-recorder", str(tmp_path))


def test_logs_and_dumps_are_read_apart(dumps: Path) -> None:
    with pytest.raises(UsageError, match="reads dumps alone"):
        decode("--flight-recorder", str(dumps), "train.log")


def test_dumps_are_known_by_their_content(dumps: Path) -> None:
    assert "Rank 3 never came" in decode(str(dumps))[1]
    assert "dumps of 1 of 4 ranks" in decode(str(dumps / "nccl_trace_rank_1.json"))[1]

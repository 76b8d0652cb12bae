"""The manifest of probes: what is on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stethoscope.errors import DataError
from stethoscope.specs.probes import load_manifest

if TYPE_CHECKING:
    from pathlib import Path

PROBE = "{id: mlxlink, title: t, summary: s, script: mlxlink.sh}"


def manifest(tmp_path: Path, *probes: str) -> Path:
    path = tmp_path / "manifest.yaml"
    listed = "".join(f"- {probe}\n" for probe in probes)
    path.write_text(f"schema: stethoscope.probes/1\nprobes: []\nondemand:\n{listed}")
    return path


def test_a_probe_with_nothing_but_what_is_needed(tmp_path: Path) -> None:
    (probe,) = load_manifest(manifest(tmp_path, PROBE)).ondemand
    assert (probe.target, probe.root, probe.disturbs, probe.limit_s) == ("node", "no", "nothing", 30.0)
    assert (probe.whole, probe.loads_gpu, probe.asks_driver) == (False, False, False)


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        (PROBE.replace("id: mlxlink", "id: ../etc"), "small letters, digits and _"),
        (PROBE.replace("script: mlxlink.sh", "script: /etc/passwd"), "the script of mlxlink is called mlxlink.sh"),
        (PROBE.replace("}", ", parser: os.path}"), "parser consists of small letters"),
        (PROBE.replace("}", ', only: "(("}'), "not a regular expression"),
        (PROBE.replace("}", ", limit_s: 0}"), "limit_s is 1 to 600"),
        (PROBE.replace("}", ", limit_s: 86400}"), "limit_s is 1 to 600"),
        (PROBE.replace("}", ", target: rack}"), "rack"),
        (PROBE.replace("}", ", rooot: needed}"), "rooot"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, probe: str, words: str) -> None:
    with pytest.raises(DataError, match=r"manifest\.yaml:4:\d+: ") as caught:
        load_manifest(manifest(tmp_path, probe))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ("every_s: 30, tier: slow", "medium is what is read more often than once a minute"),
        ("every_s: 60, tier: medium", "medium is what is read more often than once a minute"),
        ("every_s: 1, tier: medium", "every_s is 5 to 86400"),
        ('every_s: 60, tier: slow, run: [{id: a, argv: [sh, -c, "echo a"]}]', "words of a command have no blanks"),
        ("every_s: 60, tier: slow, read: [{path: /a, keep: all}]", '"all" is not a way to keep text'),
    ],
)
def test_what_is_wrong_with_a_group_is_said_with_its_place(tmp_path: Path, group: str, words: str) -> None:
    path = tmp_path / "manifest.yaml"
    path.write_text(f"schema: stethoscope.probes/1\nprobes: []\nwatch:\n- {{id: a, title: t, {group}}}\n")
    with pytest.raises(DataError, match=r"manifest\.yaml:4:\d+: ") as caught:
        load_manifest(path)
    assert words in str(caught.value)


def test_no_id_twice(tmp_path: Path) -> None:
    with pytest.raises(DataError, match='"mlxlink" stands here twice'):
        load_manifest(manifest(tmp_path, PROBE, PROBE))


def test_what_loads_a_gpu_or_needs_root_says_so_in_the_bundled_one() -> None:
    probes = {probe.id: probe for probe in load_manifest().ondemand}
    assert {probe.id for probe in probes.values() if probe.loads_gpu} == {"dcgm_diag_r1"}
    assert {probe.id for probe in probes.values() if probe.root == "needed"} == {
        "ibqueryerrors", "smartctl", "nvme", "ipmitool_sel", "ipmi_sensor", "switch_counters", "switch_qos",
    }  # fmt: skip
    assert {probe.id for probe in probes.values() if probe.tool in ("nvidia-smi", "dcgmi")} == {
        probe.id for probe in probes.values() if probe.asks_driver
    }

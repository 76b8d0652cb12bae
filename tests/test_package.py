"""The wheel carries what the program needs, and works when it is installed away from the checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel with the locked backend, without a network."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "-w", str(out), str(ROOT)], check=True, timeout=120)
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_carries_playbooks_and_probes(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for top in ("playbooks", "probes"):
        for file in (ROOT / top).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                assert f"stethoscope/_bundled/{file.relative_to(ROOT)}" in names
    assert not [name for name in names if name.startswith("tests/")]


def test_the_wheel_finds_its_data_where_it_is_installed(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "stethoscope", "lint"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    where = subprocess.run(
        [sys.executable, "-c", "from stethoscope.paths import bundled; print(bundled('probes'))"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.strip() == str(tmp_path / "stethoscope" / "_bundled" / "probes")


def test_the_wheel_carries_the_large_tables_compiled(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    names = {path.name.partition("-")[0] for path in tmp_path.rglob("_bundled/playbooks/compiled/*.json")}
    assert names == {"signatures", "xid", "sxid", "kinds", "rules"}
    program = """
import sys
from stethoscope.specs.codes import load_codes
from stethoscope.specs.incident_kinds import load_kinds
from stethoscope.specs.signature import load_signatures
assert load_kinds()
signatures, codes = load_signatures(), load_codes()
codes.all("xid"), codes.all("sxid")
print("yaml" in sys.modules, next(iter(signatures.by_id.values())).source)
from stethoscope.specs.metric import load_catalogue
from stethoscope.specs.root_cause import load_root_causes
from stethoscope.specs.rule_book import load_rules
assert load_rules(load_catalogue(), load_root_causes())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "installed"), "HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    parsed, source = done.stdout.split()
    assert parsed == "False"
    assert source.startswith(str(tmp_path / "installed" / "stethoscope" / "_bundled" / "playbooks" / "signatures"))
    assert not (tmp_path / "home").exists()

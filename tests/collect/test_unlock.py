"""Whether a key that could be named has a passphrase, told without reading a configuration for every node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stethoscope.collect.unlock import may_need

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n"
LOCKED = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / "plain").write_text(PLAIN)
    (tmp_path / "locked").write_text(LOCKED)
    return tmp_path


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("Host *\n  IdentityFile ~/plain\n", False),
        ("Host *\n  IdentityFile ~/locked\n", True),
        ("Include absent.conf absent.d/*\n", False),
        ("Include plain.conf\n", False),
        ("Include locked.conf\n", True),
        ("include = ~/.ssh/more.d/*.conf\n", True),
        ("Include more.d/*\n", True),
        ("Include round.conf\n", False),
        ("Include hidden.d/*\n", True),
        # What only a connection can tell is left to the long way.
        ("Include %d/absent.conf\n", True),
        ('Include "absent with blanks.conf"\n', True),
        ("Include **/absent.conf\n", True),
    ],
)
def test_what_a_configuration_includes_is_looked_at(home: Path, config: str, expected: bool) -> None:
    ssh = home / ".ssh"
    (ssh / "plain.conf").write_text("IdentityFile ~/plain\n")
    (ssh / "locked.conf").write_text("Host gpu-*\n  IdentityFile ~/locked\n")
    (ssh / "round.conf").write_text("Include round.conf\nInclude config\n")
    for name in ("more.d/10.conf", "hidden.d/.own"):
        (ssh / name).parent.mkdir()
        (ssh / name).write_text("Include locked.conf\n")
    (ssh / "config").write_text(config)
    assert may_need(None, [], str(ssh / "config")) is expected


def test_relative_names_count_from_the_files_own_directory_too(home: Path) -> None:
    (home / "elsewhere").mkdir()
    (home / "elsewhere" / "config").write_text("Include more\n")
    assert not may_need(None, [], str(home / "elsewhere" / "config"))
    (home / "elsewhere" / "more").write_text("IdentityFile ~/locked\n")
    assert may_need(None, [], str(home / "elsewhere" / "config"))


def test_a_configuration_without_end_is_left_to_the_long_way(home: Path) -> None:
    many = home / ".ssh" / "many.d"
    many.mkdir()
    for number in range(70):
        (many / f"{number}.conf").write_text("Port 22\n")
    (home / ".ssh" / "config").write_text("Include many.d/*\n")
    assert may_need(None, [], str(home / ".ssh" / "config"))


def test_keys_of_options_and_fleet_files(home: Path) -> None:
    config = str(home / ".ssh" / "config")
    assert not may_need(None, [], config)
    assert not may_need(str(home / "plain"), [f"defaults: {{identity_file: {home}/plain}}"], config)
    assert may_need(str(home / "locked"), [], config)
    assert may_need(None, [f"defaults: {{identity_file: {home}/locked}}"], config)
    (home / ".ssh" / "id_rsa").write_text(LOCKED)
    assert may_need(None, [], config)

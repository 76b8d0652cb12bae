"""known_hosts files as ssh writes them."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

import asyncssh
import pytest

from stethoscope.collect.hostkeys import HostKeys, KnownHosts, entry_name
from tests import needs

if TYPE_CHECKING:
    from pathlib import Path

ONE, TWO, THREE = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(3))


def public(key: asyncssh.SSHKey) -> str:
    return key.export_public_key().decode().strip()


def blobs(keys: list[asyncssh.SSHKey]) -> list[bytes]:
    return [key.public_data for key in keys]


def known(path: Path, text: str) -> KnownHosts:
    path.write_text(text)
    return HostKeys().files([str(path)], [])


def test_plain_names_ports_and_patterns(tmp_path: Path) -> None:
    hosts = known(
        tmp_path / "kh",
        f"n1,10.0.0.1 {public(ONE)}\n[n2]:2222 {public(TWO)} comment\ngpu-*,!gpu-9 {public(THREE)}\n# {public(ONE)}\n",
    )
    assert blobs(hosts.match(["n1"], 22).keys) == [ONE.public_data]
    assert blobs(hosts.match(["10.0.0.1"], 22).keys) == [ONE.public_data]
    assert blobs(hosts.match(["N1"], 22).keys) == [ONE.public_data], "names have no case"
    assert blobs(hosts.match(["n2"], 2222).keys) == [TWO.public_data]
    assert blobs(hosts.match(["n2"], 22).keys) == []
    assert blobs(hosts.match(["gpu-1"], 22).keys) == [THREE.public_data]
    assert blobs(hosts.match(["gpu-9"], 22).keys) == []
    found = hosts.match(["other", "n1"], 22)
    assert (found.where, found.path, found.by_port) == ("n1", tmp_path / "kh", True)


def test_an_entry_without_the_port_vouches_but_does_not_accuse(tmp_path: Path) -> None:
    found = known(tmp_path / "kh", f"n1 {public(ONE)}\n").match(["n1"], 2222)
    assert blobs(found.keys) == [ONE.public_data]
    assert not found.by_port


def test_authorities_and_revoked_keys(tmp_path: Path) -> None:
    hosts = known(
        tmp_path / "kh", f"@cert-authority *.lab {public(ONE)}\n@revoked * {public(TWO)}\nn1.lab {public(TWO)}\n"
    )
    found = hosts.match(["n1.lab"], 22)
    assert (blobs(found.keys), blobs(found.authorities), blobs(found.revoked)) == (
        [TWO.public_data],
        [ONE.public_data],
        [TWO.public_data],
    )


def test_hashed_names(tmp_path: Path) -> None:
    needs.tool("ssh-keygen")
    path = tmp_path / "kh"
    path.write_text(f"n1 {public(ONE)}\n[n1]:2222 {public(TWO)}\nn2 {public(THREE)}\nn1 {public(THREE)}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(path)], check=True, capture_output=True)
    text = path.read_text()
    assert text.count("|1|") == 4
    name = text.splitlines()[2].split()[0]
    hosts = known(path, f"{text}@revoked {name} {public(ONE)}\n")
    for _ in range(2):
        assert blobs(hosts.match(["n1"], 22).keys) == [ONE.public_data, THREE.public_data]
        assert blobs(hosts.match(["n1"], 2222).keys) == [TWO.public_data]
        found = hosts.match(["n2"], 22)
        assert (blobs(found.keys), blobs(found.revoked)) == ([THREE.public_data], [ONE.public_data])
        assert hosts.match(["n3"], 22).keys == []


def test_broken_lines_cost_only_themselves(tmp_path: Path) -> None:
    hosts = known(
        tmp_path / "kh",
        f"rubbish\n@what n1 {public(TWO)}\n|1|broken {public(TWO)}\nn1 ssh-new AAAA\n|1|a|b\nn1 {public(ONE)}\n\x00\n",
    )
    assert blobs(hosts.match(["n1"], 22).keys) == [ONE.public_data]


def test_a_new_key_is_appended_and_known_at_once(tmp_path: Path) -> None:
    path = tmp_path / "new" / "kh"
    hosts = HostKeys().files([str(path)], [])
    assert hosts.match(["n1"], 22).keys == []
    hosts.add("n1", 22, ONE)
    hosts.add("N2", 2222, TWO)
    assert path.read_text() == f"n1 {public(ONE)}\n[n2]:2222 {public(TWO)}\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert blobs(hosts.match(["n2"], 2222).keys) == [TWO.public_data]


def test_a_file_without_a_last_newline_keeps_its_last_entry(tmp_path: Path) -> None:
    path = tmp_path / "kh"
    hosts = known(path, f"n1 {public(ONE)}")
    hosts.add("n2", 22, TWO)
    assert path.read_text() == f"n1 {public(ONE)}\nn2 {public(TWO)}\n"


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "kh"
    hosts = known(path, f"n1 {public(ONE)}\n")
    assert blobs(hosts.match(["n1"], 22).keys) == [ONE.public_data]
    path.write_text(f"n1 {public(TWO)}\n\n")
    assert blobs(hosts.match(["n1"], 22).keys) == [TWO.public_data]
    path.unlink()
    assert hosts.match(["n1"], 22).keys == []


def test_the_file_of_the_user_and_of_the_system(tmp_path: Path, own_home: Path) -> None:
    (own_home / ".ssh").mkdir()
    (own_home / ".ssh" / "known_hosts").write_text(f"n1 {public(ONE)}\n")
    (tmp_path / "system").write_text(f"n1 {public(TWO)}\n")
    hosts = HostKeys().files(None, [str(tmp_path / "system")])
    assert blobs(hosts.match(["n1"], 22).keys) == [ONE.public_data, TWO.public_data]
    assert hosts.path == own_home / ".ssh" / "known_hosts"


@pytest.mark.parametrize(("host", "port", "name"), [("n1", 22, "n1"), ("n1", 2222, "[n1]:2222"), ("::1", 22, "::1")])
def test_entry_name(host: str, port: int, name: str) -> None:
    assert entry_name(host, port) == name


def test_two_thousand_entries_are_parsed_once(tmp_path: Path) -> None:
    hosts = known(tmp_path / "kh", "".join(f"n{number} {public(ONE)}\n" for number in range(2000)))
    hosts.match(["n1"], 22)
    start = time.process_time()
    for number in range(200):
        assert hosts.match([f"n{number}"], 22).keys
    assert time.process_time() - start < 0.2, "1 ms each, where parsing takes more than 20"

"""The walk through the blocks of a configuration gives what asyncssh gives for the whole file."""

from __future__ import annotations

import getpass
import time
from typing import TYPE_CHECKING

import pytest
from asyncssh.config import SSHClientConfig
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stethoscope.collect.sshconfig import ConfigFiles, NodeConfig

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS = (
    "HostName",
    "Hostname",
    "User",
    "Port",
    "IdentityFile",
    "IdentitiesOnly",
    "ProxyJump",
    "ProxyCommand",
    "UserKnownHostsFile",
    "HostKeyAlias",
    "Ciphers",
    "SetEnv",
    "SendEnv",
    "Tag",
)
PIECES = (
    "Host a",
    "Host a b",
    "Host b",
    "Host *",
    "Host a* !a",
    "host = b",
    'Host "a"',
    "Match all",
    "Match host real-*",
    "Match originalhost a",
    "Match user root",
    "Match tagged here",
    "HostName real-%h",
    "HostName=10.0.0.%%1",
    "User root",
    "User 'some body'",
    "Port 2022",
    "Port=2023",
    "IdentityFile ~/.ssh/%n_%r",
    "IdentityFile none",
    "IdentitiesOnly yes",
    "ProxyJump j1,j2",
    "ProxyJump none",
    "ProxyCommand nc -X 5 %h %p",
    "UserKnownHostsFile /a /b",
    "UserKnownHostsFile none",
    "HostKeyAlias alias",
    "Ciphers aes128-ctr",
    "SetEnv A=1 B=2",
    "SendEnv LANG LC_*",
    "Tag here",
    "SomethingNew with arguments",
    "# a comment",
    "",
    "Include included",
)


class Whole(SSHClientConfig):
    """asyncssh's own reading, with what this project wants of the way to a node: the first of jump host and proxy
    command counts, and the command's tokens are filled in later."""

    _percent_expand = SSHClientConfig._percent_expand - {"ProxyCommand"}
    _handlers = {  # noqa: RUF012
        **SSHClientConfig._handlers,
        **{option: NodeConfig._handlers[option] for option in ("proxyjump", "proxycommand")},
    }


def theirs(path: Path, host: str) -> dict[str, object]:
    config = Whole.load(None, [str(path)], False, False, False, getpass.getuser(), (), host, ())  # type: ignore[arg-type]
    return {option: config.get(option) for option in OPTIONS}


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(PIECES), max_size=14),
    st.lists(st.sampled_from(PIECES[:-1]), max_size=6),
    st.sampled_from(["a", "b", "ab", "c"]),
)
def test_as_asyncssh(own_home: Path, lines: list[str], included: list[str], host: str) -> None:
    (own_home / ".ssh").mkdir(exist_ok=True)
    path = own_home / ".ssh" / "config"
    path.write_text("\n".join(lines))
    (own_home / ".ssh" / "included").write_text("\n".join(included))
    ours = ConfigFiles(str(path)).evaluate(host)
    assert {option: ours.get(option) for option in OPTIONS} == theirs(path, host)


def test_the_command_line_wins_and_is_matched(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("Match user admin\n  Port 2222\nHost *\n  User other\n")
    config = ConfigFiles(str(path)).evaluate("n1", user="admin")
    assert (config.text("User"), config.get("Port")) == ("admin", 2222)


@pytest.mark.parametrize(
    ("command", "user"),
    [
        ("test %n = n1", "matched"),
        ("test %n = n2", None),
        ("test %h-%p = real-7", "matched"),
        ("test 100%% = 100%%", "matched"),
        ("true", "matched"),
    ],
)
def test_match_exec_fills_in_the_tokens(tmp_path: Path, command: str, user: str | None) -> None:
    path = tmp_path / "config"
    path.write_text(f'Host n1\n  HostName real\nMatch exec "{command}"\n  User matched\n')
    files = ConfigFiles(str(path))
    assert files.evaluate("n1", port=7).text("User") == user
    assert files.runs_programs


def test_a_name_that_a_shell_would_read_goes_into_no_command(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(f'Match exec "touch {tmp_path}/%n"\n  Port 2222\n')
    with pytest.raises(ValueError, match="cannot go into a command"):
        ConfigFiles(str(path)).evaluate("n1;touch x")
    assert not (tmp_path / "n1").exists()


def test_match_final_sees_the_name_that_was_found(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("Match final host real\n  User last\nHost n1\n  HostName real\n")
    assert ConfigFiles(str(path)).evaluate("n1").text("User") == "last"


def test_comments_behind_arguments(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("Host n1 # the first\n  Port 22 # as usual\n")
    assert ConfigFiles(str(path)).evaluate("n1").get("Port") == 22


def test_errors_have_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text('Host n1\n  User "open\n')
    with pytest.raises(ValueError, match="config line 2: No closing quotation"):
        ConfigFiles(str(path)).evaluate("n2")


def test_no_file_at_all() -> None:
    assert ConfigFiles("none").evaluate("n1").text("User") is None


def test_the_cost_of_a_node_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("".join(f"Host n{i}\n  HostName 10.0.{i // 250}.{i % 250}\n  User u\n" for i in range(2000)))
    files = ConfigFiles(str(path))
    assert files.evaluate("n0").text("Hostname") == "10.0.0.0"
    start = time.process_time()
    for i in range(100):
        files.evaluate(f"n{i}")
    assert time.process_time() - start < 0.2, "2 ms each, where reading the file takes 57"

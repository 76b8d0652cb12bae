"""The real program in a terminal: what is drawn, what is sent, and how it ends."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time

import pyte
import pytest

from tests.ui.scenes import EVIL
from tests.ui.terminal import CONSOLES, Terminal, console

_SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[=>78])")


def repainted(terminal: Terminal) -> list[str]:
    """Let the program draw everything again, by a resize and back, and return the screen."""
    columns, lines = terminal.screen.columns, terminal.screen.lines
    terminal.resize(columns - 1, lines)
    terminal.settle()
    terminal.screen.reset()
    terminal.resize(columns, lines)
    terminal.settle()
    return list(terminal.screen.display)


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (200, 60)])
def test_the_screen_is_right_after_everything_a_person_does(columns: int, lines: int) -> None:
    steps = ["jjjlllll", "G", "g", "]", "]", "[", "f", "f", "G", "kkkk", "s", "s", "s", "f", "?", "\x1b", "m", "sym",
             "\r", "jjjj", "\x1b", "/", "00", "\r", "\x1b", " ", " ", "\x10", "node: gpu-01", "\x1b"]  # fmt: skip
    with console("troubled", columns=columns, lines=lines) as terminal:
        terminal.wait("like their peers")
        for step in steps:
            terminal.send(step)
            terminal.settle()
        # A busy machine takes longer to see that an escape was not the beginning of another key.
        terminal.wait(lambda text: "node: gpu-01" not in text)
        terminal.settle()
        seen = list(terminal.screen.display)
        looks = [dict(terminal.screen.buffer[y]) for y in range(lines)]
        assert seen == repainted(terminal)
        assert looks == [dict(terminal.screen.buffer[y]) for y in range(lines)]
        terminal.send("q")
        assert terminal.finish() == 0, terminal.raw[-2000:]


def test_the_fleet_at_80x24() -> None:
    with console("troubled") as terminal:
        lines = terminal.wait("like their peers").splitlines()
        assert lines[0].startswith(" prod-a SIM 64n 512g · 61 live ‖1 –1 ~1 ?1 · 2 s · ✖2 ▲3 •1")
        assert lines[2] == "─" * 80
        assert lines[3] == "✖ gpu-002   ██–█████ ········ gpu/2 fell off the bus (Xid 79)"
        assert lines[-1].split() == ["enter", "node", "m", "metric", "/", "filter", "t", "triage", "?", "keys"]
        terminal.send("q")
        assert terminal.finish() == 0, terminal.raw[-2000:]


def test_without_colour_everything_is_still_said() -> None:
    with console("troubled", NO_COLOR="1") as terminal:
        text = terminal.wait("like their peers")
        assert "▲ gpu-011   ████▲███" in text
        terminal.send("jjj")
        terminal.settle()
        codes = {code for match in re.findall(rb"\x1b\[([0-9;]*)m", terminal.raw) for code in match.split(b";")}
        assert codes <= {b"", b"0", b"1", b"2", b"7", b"39", b"49"}
        terminal.send("q")
        terminal.finish()


@pytest.mark.parametrize("environment", [{"LC_ALL": "C"}, {"LC_ALL": "POSIX"}])
def test_a_plain_locale_gets_ascii(environment: dict[str, str]) -> None:
    with console("troubled", **environment) as terminal:
        text = terminal.wait("like their peers")
        assert text.isascii(), [line for line in text.splitlines() if not line.isascii()]
        assert "X gpu-002" in text
        terminal.send("q")
        terminal.finish()


@pytest.mark.parametrize(("column", "ascii_only"), [(2, False), (3, True)])
def test_a_terminal_that_draws_signs_wide_gets_ascii(column: int, *, ascii_only: bool) -> None:
    with console("troubled") as terminal:
        terminal.cursor_column = column
        terminal.wait("like their peers")
        assert terminal.settle().isascii() is ascii_only
        terminal.send("q")
        assert terminal.finish() == 0, terminal.raw[-2000:]


@pytest.mark.parametrize("term", ["xterm", "xterm-256color", "screen-256color", "linux"])
def test_poor_terminals_get_few_colours(term: str) -> None:
    with console("troubled", TERM=term) as terminal:
        terminal.wait("like their peers")
        assert b"38;2;" not in terminal.raw
        assert (b"38;5;" in terminal.raw) is (term.endswith("256color"))
        terminal.send("q")
        terminal.finish()


def test_no_sequence_of_the_text_reaches_the_terminal() -> None:
    steps = ["j", "jj", "G", "\r", "\x1b[6~", "\x1b[6~", "\x1b", "/", "n1", "\r", "\r", "\x1b", "\x1b", "\x10", "n0",
             "\x1b", "m", "\x1b"]  # fmt: skip
    with console("hostile", columns=200, lines=60) as terminal:
        terminal.wait("n3")
        for step in steps:
            terminal.send(step)
            terminal.settle()
        terminal.send("q")
        assert terminal.finish() == 0, terminal.raw[-2000:]
        # The pointer's shape is Textual's own; nothing else may be a command to the terminal.
        raw = terminal.raw.replace(b"\x1b]22;default\x07", b"")
        for bad in (b"\x1b]52", b"\x1b]0;title", b"\x1b[31m", b"\xc2\x9b", "\u202e".encode(), b"\x00", b"\x07"):
            assert bad not in raw, bad
        left = _SEQUENCE.sub(b"", raw).decode()
        assert not [character for character in left if not character.isprintable() and character not in "\r\n"]
        assert "[/x]" in left
        assert "[@click=app.quit]press" in left
        assert "[INFO] eaten" in left


def test_nothing_of_the_hostile_text_was_obeyed() -> None:
    assert any("[@click" in text for text in EVIL)
    with console("hostile", columns=120, lines=40) as terminal:
        terminal.wait("n3")
        terminal.send("\r")
        text = terminal.settle()
        assert "title" not in terminal.screen.title
        assert "Kernel log" in text
        terminal.send("\x1b")
        terminal.settle()
        terminal.send("q")
        assert terminal.finish() == 0, terminal.raw[-2000:]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_end_it_and_give_the_terminal_back(number: signal.Signals) -> None:
    with console("healthy", "4") as terminal:
        terminal.wait("gpu-004")
        os.kill(terminal.pid, number)
        assert terminal.finish() == 128 + number
        assert terminal.raw.rfind(b"\x1b[?1049l") > terminal.raw.rfind(b"\x1b[?1049h")
        assert b"\x1b[?25h" in terminal.raw[terminal.raw.rfind(b"\x1b[?1049h") :]
        assert b"Traceback" not in terminal.raw


def test_an_error_is_one_line_after_the_screen_is_given_back() -> None:
    with console("nothing_of_that_name") as terminal:
        assert terminal.finish() == 70
        after = terminal.raw[terminal.raw.rfind(b"\x1b[?1049l") :].decode()
        assert "stethoscope: the session ended: AttributeError" in after
        assert "Traceback" not in after


def test_without_a_terminal_it_points_to_check() -> None:
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, str(CONSOLES), "healthy"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 64
    assert done.stderr == "stethoscope: the console needs a terminal; `stethoscope check` answers without one\n"


def test_little_is_sent_when_little_changes() -> None:
    with console("jitter", columns=200, lines=60) as terminal:
        terminal.wait("like their peers")
        terminal.read(3)
        before, start = len(terminal.raw), time.monotonic()
        while time.monotonic() - start < 6:
            terminal.read(0.2)
        assert (len(terminal.raw) - before) / (time.monotonic() - start) < 10_000
        terminal.send("q")
        terminal.finish()


def test_the_first_picture_needs_none_of_the_heavy_modules() -> None:
    import subprocess
    import sys

    code = (
        "import sys, stethoscope.ui.run, stethoscope.ui.app\n"
        "heavy = {'numpy', 'msgspec', 'asyncssh', 'yaml', 'ClusterShell'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_terminal_of_the_tests_knows_what_it_is_told() -> None:
    screen = pyte.Screen(10, 2)
    pyte.Stream(screen).feed("\x1b[1;3Hab\x1b[7Gc")
    assert screen.display[0] == "  ab  c   "


@pytest.mark.parametrize("kind", ["still", "jitter"])
@pytest.mark.parametrize("controls", [False, True], ids=["without a signal", "with SIGHUP"])
def test_a_terminal_that_goes_ends_the_console(kind: str, *, controls: bool) -> None:
    keep, give = pty.openpty()
    # Whose controlling terminal it is gets a SIGHUP, and nobody else.
    take = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
    program = subprocess.Popen(
        [*([sys.executable, "-c", take] if controls else []), sys.executable, CONSOLES, kind],
        stdin=give,
        stdout=give,
        stderr=give,
        env={**os.environ, "TERM": "xterm-256color"},
        start_new_session=True,
    )
    os.close(give)
    seen = b""
    while b"keys" not in seen:
        seen += os.read(keep, 65536)
    os.close(keep)
    began = time.monotonic()
    try:
        assert program.wait(30) == 128 + signal.SIGHUP
    finally:
        program.kill()
    # Not by the last resort, which is for a terminal that nobody reads.
    assert time.monotonic() - began < 8


def test_a_terminal_that_nobody_reads_does_not_keep_a_console_that_was_told_to_end() -> None:
    with console("troubled", columns=200, lines=60) as terminal:
        terminal.wait("like their peers")
        # Every theme is drawn anew: far more than a terminal's buffer takes.
        terminal.send("T" * 200)
        time.sleep(2)
        os.kill(terminal.pid, signal.SIGTERM)
        end = time.monotonic() + 30
        while terminal.status is None and time.monotonic() < end:
            done, status = os.waitpid(terminal.pid, os.WNOHANG)
            terminal.status = status if done else None
            time.sleep(0.2)
        assert terminal.status is not None, "still running"

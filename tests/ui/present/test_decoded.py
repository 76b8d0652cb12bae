"""The page of `decode`, to the character: what stands first, what is folded, what is cut."""

from __future__ import annotations

from datetime import datetime

from stethoscope.model.finding import Fact, Severity
from stethoscope.model.logs import Culprit, Event, Log, LogFile, LogVerdict, Origin
from stethoscope.session.decode import Decoded
from stethoscope.specs.signature import Signature, Signatures
from stethoscope.ui.present.decoded import answer_rows, culprits_text
from stethoscope.ui.present.decoded_events import news_rows, ranks_text
from stethoscope.ui.present.decoded_read import bytes_text, span_text
from stethoscope.ui.present.spans import ASCII, UNICODE, Glyphs, plain, to_ascii

AT = datetime.fromisoformat("2026-03-14T02:07:00Z").timestamp()
GONE = "NVRM: Xid (PCI:0000:81:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
LEFT = "NCCL WARN socketProgress: Connection closed by remote peer gpu-007<4421>"
TRACE = "NCCL INFO misc/socket.cc:47 -> 6"
SIGNATURES = Signatures(
    {
        name: Signature(name, (), (), "context", Severity.INFO, meaning)
        for name, meaning in (
            ("nccl.version", "Version of NCCL, the same in the whole job."),
            ("aer.replay", "A link sent a packet again; a few an hour are normal."),
        )
    },
    {},
)


def event(signature: str, second: float, text: str, line: int, rank: int | None = None, **more: object) -> Event:
    host = None if rank is None else f"gpu-{rank // 8:03d}"
    fields = {"role": "symptom", "severity": Severity.P1, "at": AT + second, "origin": Origin(host=host, rank=rank)}
    return Event(signature, text=text, line=line, **(fields | more))  # type: ignore[arg-type]


def decoded(*events: Event, verdict: LogVerdict | None = None, files: int = 1, **more: object) -> Decoded:
    verdict = verdict or LogVerdict(
        "gpu_fallen_off_bus",
        0.93,
        Severity.P0,
        "GPU 0000:81:00 of gpu-007 no longer answers on PCIe; rank 59 was on it and the others only waited.",
        "xid.79",
        (Culprit(59, "gpu-007", "gpu/3", "gpu-007/gpu/3"),),
        (
            Fact("first line of it", GONE[:40], "", "gpu-007", "", "logs/a.log:812"),
            Fact("511 ranks wait for rank 59", 511, "", "", "", "logs/a.log:900"),
        ),
        (Fact("step time", 0.81, "0.80", "job", "", ""),),
        ("Drain, then power-cycle.", "dmesg for AER lines"),
        ("the BMC event log of gpu-007",),
    )
    names = [LogFile(f"logs/{chr(97 + n)}.log", first_at=AT, last_at=AT + 90, kernel_lines=3) for n in range(files)]
    log = Log(names, list(events), bytes=12_400_000, lines=41_233, seconds=0.21)
    return Decoded(log, verdict, [], SIGNATURES, **more)  # type: ignore[arg-type]


def page(found: Decoded, width: int, glyphs: Glyphs = UNICODE, **options: bool) -> list[str]:
    return [plain(row).rstrip() for row in answer_rows(found, glyphs, width, **options)]


STORY = (
    event("nccl.version", -60, "NCCL version 2.21.5", 3, role="context", severity=Severity.INFO),
    event("xid.79", 0, GONE, 812, role="cause", severity=Severity.P0, pci="0000:81:00", origin=Origin(host="gpu-007")),
    *(event("nccl.socket.closed_by_peer", 7 + rank / 100, LEFT, 900 + rank, rank) for rank in range(59)),
    event("aer.replay", 8, "pcieport 0000:80:01.0: replay", 990, role="benign", severity=Severity.INFO, count=14),
)  # fmt: skip


def test_narrow() -> None:
    assert page(decoded(*STORY), 80) == [
        "✖ P0  gpu_fallen_off_bus                                               sure 0.93",
        "      GPU 0000:81:00 of gpu-007 no longer answers on PCIe; rank 59 was on it and",
        "      the others only waited.",
        "",
        "  who      gpu-007/gpu/3, rank 59",
        "  because  511 ranks wait for rank 59 [a.log:900]",
        "  against  step time: 0.81 (expected 0.80) [job]",
        "  check    1 Drain, then power-cycle.",
        "           2 dmesg for AER lines",
        "  settles  the BMC event log of gpu-007",
        "",
        "Evidence, in the order of time ────────────────────────────────── 2026-03-14 UTC",
        "  02:07:00  ✖ xid.79  gpu-007 0000:81:00                                line 812",
        "              NVRM: Xid (PCI:0000:81:00): 79, pid='<unknown>', name=<unknown>,",
        "              GPU has fallen off the bus.",
        "  02:07:07  ▲ nccl.socket.closed_by_peer  8 hosts ranks 0-58       ×59  line 900",
        "              NCCL WARN socketProgress: Connection closed by remote peer",
        "              gpu-007<4421>",
        "",
        "Also seen ──────────────────────────────────────────────────────────────────────",
        "       ×14  looks bad and is not: A link sent a packet again; a few an hour are…",
        "            Version of NCCL, the same in the whole job.",
        "",
        "  read     a.log · 41,233 lines · 12.4 MB · 2026-03-14 02:07:00 to 02:08:30 UTC",
        "           · 0.21 s",
    ]


def test_wide() -> None:
    lines = page(decoded(*STORY), 160)
    assert lines[10:13] == [
        "Evidence, in the order of time " + "─" * 114 + " 2026-03-14 UTC",
        "  02:07:00  ✖ xid.79                          gpu-007 0000:81:00      NVRM: Xid (PCI:0000:81:00): 79, "
        "pid='<unknown>', name=<unknown>, GPU has fallen…  line 812",
        "  02:07:07  ▲ nccl.socket.closed_by_peer      8 hosts ranks 0-58      NCCL WARN socketProgress: Connection "
        "closed by remote peer gpu-007<4421>     ×59  line 900",
    ]
    assert all(len(line) <= 160 for line in lines)


def test_every_width_fits() -> None:
    for width in range(50, 220, 7):
        assert max(map(len, page(decoded(*STORY), width))) <= width


def test_lines_of_the_log_are_whole_where_nobody_looks_at_the_width() -> None:
    lines = page(decoded(*STORY), 80, is_cut=False)
    assert f"              {GONE}" in lines


def test_every_event_on_its_own() -> None:
    lines = page(decoded(*STORY), 80, every=True)
    assert sum("nccl.socket.closed_by_peer" in line for line in lines) == 59
    assert "Every event " + "─" * 53 + " 2026-03-14 UTC" in lines
    assert not any(line.startswith("Also seen") for line in lines)


def test_nothing_wrong_says_what_was_read_and_what_is_not_here() -> None:
    verdict = LogVerdict(
        "healthy", 0.85, Severity.INFO, "Nothing is wrong: the job makes progress", missing=("its end",)
    )
    found = decoded(verdict=verdict, files=3, limits="since 2026-03-14T02:00:00Z: 0 of 9 events")
    found.log.files[1].trouble = "not a text: a program"
    for file in found.log.files:
        file.kernel_lines = 0
    assert page(found, 100) == [
        "· healthy                                                                                  sure 0.85",
        "      Nothing is wrong: the job makes progress",
        "",
        "  not seen its end",
        "",
        "  read     3 files · 41,233 lines · 12.4 MB · 2026-03-14 02:07:00 to 02:08:30 UTC · 0.21 s",
        "  only     since 2026-03-14T02:00:00Z: 0 of 9 events",
        "  not read logs/b.log: not a text: a program",
        "  not here a kernel log: what GPUs, links and disks report of themselves (dmesg -T, journalctl -k)",
    ]


def test_ranks_that_nobody_has_a_line_of() -> None:
    ready = event("nccl.init.complete", 0, "Init COMPLETE", 1, 0, role="context", fields={"rank": 0, "nranks": 4})
    assert "  not here ranks 1-3 of 4: no line is known to be theirs" in page(decoded(ready), 100)


def test_the_same_on_many_devices_is_one_row() -> None:
    events = [
        event("xid.31", second, "fault", 10 + second, pci=f"0000:{second:02x}:00", origin=Origin(host=f"n{second}"))
        for second in range(9)
    ]
    lines = page(decoded(*events), 100)
    assert [line for line in lines if "xid.31" in line] == [
        "  02:07:00  ▲ xid.31  9 hosts 9 devices                                   ×9 until 02:07:08  line 10"
    ]


def test_many_kinds_are_cut_to_those_that_matter() -> None:
    events = [event(f"kind.{number}", number, "x", number, role="symptom") for number in range(30)]
    events.append(event("xid.79", 40, GONE, 812, role="cause", severity=Severity.P0))
    lines = page(decoded(*events), 100)
    assert "  and 19 more kinds of line that came later: --all shows every event" in lines
    assert any("xid.79" in line for line in lines)


def test_times_that_are_no_wall_times() -> None:
    boot = event("xid.79", 0, GONE, 1, at=None, uptime_s=12345.678)
    near = event("xid.48", 0, GONE, 2, at_is_near=True)
    none = event("xid.63", 0, GONE, 3, at=None)
    lines = [line for line in page(decoded(boot, near, none), 80) if "xid." in line and "line" in line]
    assert [line[:12] for line in lines] == ["  12345.7   ", " ~02:07:00  ", " " * 12]
    assert any(line.endswith("─ seconds since boot") for line in page(decoded(boot), 80))


def test_several_days_are_told_apart() -> None:
    lines = page(decoded(event("a.b", 0, "x", 1), event("c.d", 86_400, "y", 2)), 80)
    assert lines[12].endswith(" 2026-03-14 to 2026-03-15 UTC")
    assert lines[13] == "  2026-03-14"
    assert "  2026-03-15" in lines


def test_several_files_are_named_and_long_names_cut_at_their_beginning() -> None:
    found = decoded(event("a.b", 0, "x", 12), files=2)
    assert any(line.endswith("logs/a.log:12") for line in page(found, 80))
    found.log.files[0].name = "/var/log/a/very/long/way/to/rank7.log"
    assert any(line.endswith("…ry/long/way/to/rank7.log:12") for line in page(found, 80))


def test_news() -> None:
    rows = news_rows([event("xid.79", 0, GONE, 1, role="cause", severity=Severity.P0)], UNICODE, 80, is_cut=True)
    assert plain(rows[0]).rstrip() == "  02:07:00  ✖ xid.79"


def test_ascii() -> None:
    assert all(to_ascii(line).isascii() for line in page(decoded(*STORY), 80, ASCII) if "×" not in line)


def test_words() -> None:
    assert ranks_text([]) == ""
    assert ranks_text({7}) == "rank 7"
    assert ranks_text(range(512)) == "ranks 0-511"
    assert ranks_text([n for n in range(512) if n != 31]) == "ranks 0-30,32-511"
    assert ranks_text(range(0, 512, 2)) == "256 ranks"
    assert [bytes_text(n) for n in (7, 1000, 12_400_000, 3_200_000_000)] == ["7 bytes", "1.0 KB", "12.4 MB", "3.2 GB"]
    assert culprits_text([Culprit(1, "a"), Culprit(2, "a"), Culprit(None, "b", "ib/mlx5_0", "b/ib/mlx5_0")]) == (
        "a, ranks 1-2; b/ib/mlx5_0"
    )
    log = Log([LogFile("x", first_at=AT, last_at=AT + 86_400)], [])
    assert span_text(log) == "2026-03-14 02:07:00 to 2026-03-15 02:07:00 UTC"

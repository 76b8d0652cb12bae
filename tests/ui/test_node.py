"""The node screen: what is wrong first, one quiet line for what is healthy, a cursor that explains every value."""

from __future__ import annotations

import base64
import os
import re
import stat
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest

from stethoscope.analysis.history import History
from stethoscope.errors import UsageError
from stethoscope.model.frame import Link, LinkState
from stethoscope.model.mark import Mark
from stethoscope.model.metric import Reason, Scope
from stethoscope.session.login import shell_on
from stethoscope.ui.present.assess import assess, what_is_wrong
from stethoscope.ui.present.node.explain import explain
from stethoscope.ui.present.node.export import node_json
from stethoscope.ui.present.node.moves import find, first, sideways, stands, vertical
from stethoscope.ui.present.node.page import TEXT_CELLS, node_page, node_rows, node_text
from stethoscope.ui.present.node.trend import bars, trend_text
from stethoscope.ui.present.node.view import Spot, View, row_of
from stethoscope.ui.present.node.wrong import node_title
from stethoscope.ui.present.spans import ASCII, UNICODE, Level, plain, width
from stethoscope.ui.screens.node import NodeScreen
from tests.builders import DEVICES, MONO, WALL, catalogue, fleet
from tests.ui.scenes import EVIL, finding, hostile, sick, troubled
from tests.ui.terminal import console
from tests.ui.test_console import app_on, line, ready, visible

if TYPE_CHECKING:
    from pathlib import Path

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.ui.app import StethoscopeApp

SICK = "gpu-003"


def view_of(snapshot: FleetSnapshot, name: str, cells: int = 80, **options: object) -> View:
    return View(assess(snapshot, MONO), snapshot.node(name), WALL, cells, UNICODE, **options)  # type: ignore[arg-type]


def text_of(view: View) -> list[str]:
    return [plain(row).rstrip() for row in node_rows(view)]


def said(view: View, spot: Spot, cells: int = 400) -> str:
    return "\n".join(plain(row) for row in explain(view, spot, "", cells, 3)).strip()


def test_a_healthy_node_is_one_quiet_line_for_each_section() -> None:
    rows = text_of(view_of(fleet(8, devices=DEVICES), "gpu-001", 100))
    assert rows[0] == " · nothing wrong: 8 GPUs, 8 ports, every value within its limits"
    assert rows[1] == ""
    assert [row[:14].rstrip() for row in rows[2:]] == [
        " + GPUs", " + NVLink", " + Fabric", " + PCIe", " + Host", " + Storage", " + Processes", " + Kernel log",
        " + Identity", " + Probe",
    ]  # fmt: skip
    assert rows[5] == " + PCIe         16 links at their maximum · no AER errors"
    assert "144 links up · 18 of each GPU · no errors moving" in rows[3]
    assert "8 on GPUs · user kim · job 4242 · 0 in state D, 0 zombies" in rows[8]


def test_the_first_page_of_a_sick_node_says_what_is_wrong_and_what_should_be() -> None:
    rows = text_of(view_of(sick(), SICK, 80))[:17]
    assert rows[0] == " ▲ P1 gpu/4  thermal: 88 °C · 12 m"
    text = "\n".join(rows)
    assert " ✖    disk/nvme1n1  SMART verdict failed" in text
    assert " ✖    fs/scratch  space used 99 %   limit 98 % · peers 41 %" in text
    assert " ▲    gpu/5  NVLinks up 17 links   18 links on 7 of 7 nodes like this" in text
    # The finding says it already.
    assert "gpu/4  GPU temperature" not in text
    assert "more below" in text


def test_sections_open_by_themselves_when_something_in_them_is_wrong() -> None:
    page = node_page(view_of(sick(), SICK))
    assert page.open == {"gpus", "nvlink", "fabric", "pcie", "storage", "processes", "log", "host"} - {"host"}
    assert set(page.ids) - page.open == {"unseen", "host", "identity", "probe"}
    closed = node_page(view_of(sick(), SICK, opened={"gpus": False, "host": True}))
    assert "gpus" not in closed.open
    assert "host" in closed.open


def test_what_is_below_comparable_nodes_is_loud_and_a_model_with_fewer_links_is_not() -> None:
    text = "\n".join(text_of(view_of(sick(), SICK, 120)))
    assert re.search(r"▲ NVLinks up .* ▲17 ", text)
    assert re.search(r"▲ Port rate Gb/s .* ▲200 ", text)
    assert re.search(r"▲ 0000:1b:00.0 +32 GT/s +x8 .*gpu/3 · x16 on 7 of 7 nodes like this", text)
    eight = {(f"gpu-00{n}/gpu/{gpu}", "nvlink_active_count"): 8 for n in range(1, 5) for gpu in range(8)}
    rows = text_of(view_of(fleet(4, devices=DEVICES, set=eight), "gpu-001"))
    assert rows[0].startswith(" · nothing wrong")


def test_a_lost_gpu_is_told_once_and_its_column_is_quiet() -> None:
    snapshot = fleet(4, lost=["gpu-002/gpu/2"])
    rows = text_of(view_of(snapshot, "gpu-002", 120))
    assert rows[0].startswith(" –    gpu/2  lost: no answer any more")
    text = "\n".join(rows)
    assert "–gpu 2" in text
    assert text.count("lost") == 2
    assert any(row.startswith(" – GPUs         7 x H100 80GB HBM3 · 1 lost · ") for row in rows)
    clocks = next(row for row in rows if "SM clock" in row)
    assert clocks.split()[3:11] == ["1980", "1980", "–", "1980", "1980", "1980", "1980", "1980"]


def test_the_links_of_a_lost_gpu_are_not_told_again() -> None:
    links = [f"gpu-002/nvlink/2/{link}" for link in range(18)]
    lost = ["gpu-002/gpu/2", *links, "gpu-002/pcie/0000:1a:00.0", "gpu-002/disk/nvme1n1"]
    view = view_of(fleet(4, devices=DEVICES, lost=lost), "gpu-002", 120)
    page = node_page(view)
    assert [plain(row_of(one)).strip() for one in page.lines[:3]] == [
        "–    gpu/2  lost: no answer any more", "–    disk/nvme1n1  lost: no answer any more", "",
    ]  # fmt: skip
    assert page.open == {"gpus", "storage"}
    opened = text_of(replace(view, opened={"nvlink": True}))
    assert "   gpu 2  ––––––––––––––––––  0 of 18 up" in opened


def test_a_driver_that_hangs_is_told_once_and_the_host_stays_visible() -> None:
    hung = {
        (f"gpu-002/gpu/{index}", metric.id): Reason.HUNG
        for index in range(8)
        for metric in catalogue().values()
        if metric.scope is Scope.GPU and metric.tier != "console"
    }
    rows = text_of(view_of(fleet(4, set=hung, notes={"gpu-002": {"nvml": "hung"}}), "gpu-002"))
    assert rows[0] == " ‖    GPU driver does not answer"
    assert any(row.startswith(" + Host") and "CPU 12 %" in row for row in rows)


def without_names(snapshot: FleetSnapshot, name: str) -> FleetSnapshot:
    """Return the snapshot with a node whose GPUs were only seen on the PCI bus."""
    node = snapshot.node(name)
    unnamed = replace(node, gpus=tuple(msgspec.structs.replace(gpu, name="") for gpu in node.gpus))
    return replace(snapshot, nodes=tuple(unnamed if one is node else one for one in snapshot.nodes))


def test_gpus_of_a_driver_that_cannot_be_used_are_counted_and_their_links_are_not_none() -> None:
    why = "driver/library version mismatch"
    errors = {
        (f"gpu-002/gpu/{index}", metric.id): Reason.ERROR
        for index in range(8)
        for metric in catalogue().values()
        if metric.scope is Scope.GPU and metric.tier != "console"
    }
    broken = finding("P1", "gpu-002", "GPU driver cannot be used", "2026-03-14T02:00:00Z", "driver_unusable")
    whole = fleet(4, set=errors, notes={"gpu-002": {"nvml": why}}, findings=(broken,))
    view = view_of(without_names(whole, "gpu-002"), "gpu-002", 120)
    rows = text_of(view)
    assert f" ▲ GPUs         8 GPUs · {why}" in rows
    assert f" + NVLink       not seen: {why}" in rows
    assert "8 GPUs" in plain(node_title(view, 120))


def test_links_that_the_probe_in_sh_cannot_see_are_not_none() -> None:
    rows = text_of(view_of(fleet(4, notes={"gpu-002": {"traffic": "no Python, using sh"}}), "gpu-002"))
    assert " + NVLink       not seen: no Python, using sh" in rows


@pytest.mark.parametrize("rate", [0.0, Reason.ONE_READING])
def test_errors_that_were_never_normal_are_loud_however_long_ago(rate: float | Reason) -> None:
    counter = ("gpu-002/gpu/3", "gpu_ecc_uncorr_volatile_dram")
    snapshot = fleet(4, devices=DEVICES, set={counter: rate}, totals={counter: 2})
    rows = text_of(view_of(snapshot, "gpu-002", 120))
    assert rows[0] == " ✖    gpu/3  uncorrected DRAM ECC 2 in all   should be 0"
    row = next(row for row in rows if "Uncorr DRAM ECC, total" in row)
    assert row.startswith(" ✖ ")
    assert row.split()[5:13] == ["0", "0", "0", "✖2", "0", "0", "0", "0"]
    assessment = assess(snapshot, MONO)
    assert assessment.nodes.tolist() == [Level.NORMAL, Level.CRITICAL, Level.NORMAL, Level.NORMAL]
    assert what_is_wrong(assessment, snapshot.node("gpu-002"), WALL)[0] == "gpu/3 uncorrected DRAM ECC 2 in all"
    (beyond,) = node_json(view_of(snapshot, "gpu-002"))["beyond"]
    assert (beyond["where"], beyond["level"]) == ("gpu-002/gpu/3", "critical")


def test_some_errors_in_the_life_of_a_board_are_history() -> None:
    counter = ("gpu-002/gpu/3", "gpu_ecc_uncorr_aggregate_sram")
    assert text_of(view_of(fleet(4, devices=DEVICES, totals={counter: 4}), "gpu-002"))[0].startswith(" · nothing wrong")
    rows = text_of(view_of(fleet(4, devices=DEVICES, totals={counter: 5}), "gpu-002", 120))
    assert rows[0] == " ✖    gpu/3  uncorrected SRAM ECC, life 5 in all   limit 5 in all"


def test_the_first_reading_of_a_counter_shows_what_it_has_counted() -> None:
    counter = ("gpu-002/nvlink/3/7", "nvlink_crc_errors")
    snapshot = fleet(4, devices=DEVICES, set={counter: Reason.ONE_READING}, totals={counter: 1207})
    rows = text_of(view_of(snapshot, "gpu-002", 120, opened={"nvlink": True}))
    assert next(row.split() for row in rows if row.split()[:1] == ["3/7"])[1] == "1,207"


def test_a_node_that_cannot_be_read_shows_why_and_no_table_of_reasons() -> None:
    why = Link(LinkState.REFUSED, WALL - 95, "10.0.0.7:22 refuses connections", next_try=WALL + 12, attempts=4)
    snapshot = fleet(nodes=2, lost=["gpu-002"], links={"gpu-002": why})
    rows = text_of(view_of(snapshot, "gpu-002"))
    assert rows[0] == " – refused 95 s · next try in 12 s · 10.0.0.7:22 refuses connections"
    assert "                10.0.0.7:22 refuses connections" in rows
    assert "                next try in 12 s, after 4 attempts" in rows
    assert not any("unreachable" in row for row in rows)


def test_processes_and_the_log_are_loud_where_they_must_be() -> None:
    text = "\n".join(text_of(view_of(sick(), SICK, 120)))
    assert " ▲ state D      python3 · pid 99 · kim · waits for the kernel in nvidia_ioctl · holds a GPU" in text
    assert " ▲ state Z      nccl · pid 101 · kim · dead, not collected · holds a GPU" in text
    assert "   state D      ls · pid 120 · bob · waits for the kernel in rpc_wait" in text
    assert "   gpu 0        python3 · pid 4100 · kim · job 4242 · 68.4 GiB · state R" in text
    assert " ▲ 02:13:40     NVRM: Xid (PCI:0000:1c:00): 74, NVLink error" in text
    assert "not readable: permission: needs group systemd-journal" in text


@pytest.mark.parametrize("cells", [40, 79, 120, 159, 160, 199, 300])
@pytest.mark.parametrize("every", [False, True])
def test_it_fits_at_every_width(cells: int, every: bool) -> None:
    for snapshot, name in ((sick(), SICK), (troubled(), "gpu-007"), (troubled(), "gpu-014")):
        view = view_of(snapshot, name, cells, all_open=every, roomy=True)
        assert all(width(row) <= max(cells, 76) for row in text_of(view))
        assert width(plain(node_title(view, cells))) <= max(cells, 60)


def test_on_a_wide_screen_sections_stand_side_by_side() -> None:
    rows = text_of(view_of(fleet(8, devices=DEVICES), "gpu-001", 199, roomy=True))
    heads = next(row for row in rows if row.startswith(" - GPUs"))
    assert " - Host " in heads
    assert heads.index(" - Host ") == 121


def test_without_unicode_every_sign_is_ascii() -> None:
    from stethoscope.ui.present.spans import to_ascii

    view = replace(view_of(sick(), SICK, 120), glyphs=ASCII, all_open=True)
    assert all(to_ascii(row).isascii() for row in text_of(view))


def test_the_cursor_explains_a_counter_since_connected_since_the_mark_and_in_all() -> None:
    snapshot = sick()
    mark = replace(Mark.of(sick()), wall=WALL - 247)
    spot = Spot("fabric", Scope.PORT, "ib_symbol_error", 3)
    text = said(view_of(snapshot, SICK, mark=mark), spot)
    assert text.startswith(
        "gpu-003/ib/mlx5_3 · Symbol errors 41/s · limit 10/h · peers 0/s · +8,123 in 10 m since connected"
    )
    assert "+0 since mark 02:10:00 · total 8,123" in text
    pinned = said(view_of(snapshot, SICK), Spot("fabric", Scope.PORT, "ib_link_downed", 5))
    assert "pinned: stands at its highest value and cannot tell of more" in pinned


def test_the_cursor_explains_throttling_margins_expectations_and_reasons() -> None:
    view = view_of(sick(), SICK)
    assert "HW thermal 45 % of the time" in said(view, Spot("gpus", Scope.GPU, "gpu_clocks_event_reasons", 4))
    hot = said(view, Spot("gpus", Scope.GPU, "gpu_temp", 4))
    assert "limit 83 °C · peers 62 °C" in hot
    assert "margin 3 °C over the point where the clocks are lowered" in hot
    narrow = said(view, Spot("pcie", Scope.PCIE, "pcie_link_width", 3))
    assert "gpu-003/pcie/0000:1b:00.0 · PCIe" in narrow or "Link width x8 · x16 at 7 of 7 nodes like this" in narrow
    reset = fleet(4, devices=DEVICES, set={("gpu-001/gpu/1", "gpu_pcie_replay"): Reason.RESET})
    words = said(view_of(reset, "gpu-001"), Spot("gpus", Scope.GPU, "gpu_pcie_replay", 1))
    assert "the counter went back: the rate of this interval is not known" in words


def test_rarely_read_values_tell_their_age_only_when_it_is_unusual() -> None:
    snapshot = sick()
    spot = Spot("gpus", Scope.GPU, "gpu_ecc_mode", 0)
    assert "read" not in said(view_of(snapshot, SICK), spot).partition("Metric")[0].partition("ECC mode on")[2][:40]
    node = snapshot.node(SICK)
    parts = dict(node.parts) | {"gpu": replace(node.parts["gpu"], mono=MONO - 240)}
    late = replace(snapshot, nodes=tuple(replace(n, parts=parts) if n.name == SICK else n for n in snapshot.nodes))
    assert "read 4 m ago, usually every 30 s" in said(view_of(late, SICK), spot)


def test_trends_have_a_span_and_their_ends() -> None:
    metric = catalogue()["gpu_temp"]
    ages, values = np.linspace(900, 0, 10), np.array([62.0, 62, 63, 70, 75, 80, 85, 88, 88, np.nan])
    assert trend_text(metric, (ages, values), 60, UNICODE) == "15 min ▁▁▁▃▅▆▇██  62..88 °C"
    assert trend_text(metric, (ages, values), 60, ASCII) == "15 min ___-+*%##  62..88 °C"
    assert bars(np.zeros(4), 4, UNICODE) == "▁▁▁▁"
    assert trend_text(metric, (np.empty(0), np.empty(0)), 60, UNICODE) == ""


def test_tables_show_the_trend_of_the_device_under_the_cursor() -> None:
    snapshot = sick()
    past = History(snapshot.catalogue)
    for step in range(4):
        past.take(replace(snapshot, mono=MONO + 5 * step))
    rows = text_of(view_of(snapshot, SICK, 159, past=past))
    assert any("gpu 4, 15 s" in row for row in rows)
    focus = Spot("gpus", Scope.GPU, "gpu_temp", 6)
    rows = text_of(view_of(snapshot, SICK, 159, past=past, focus=focus))
    assert any("gpu 6, 15 s" in row for row in rows)


def test_the_cursor_moves_over_values_and_stays_in_its_column_of_the_page() -> None:
    page = node_page(view_of(sick(), SICK, 199, roomy=True))
    at = first(page)
    assert at is not None
    assert at.line == 0
    seen = [at]
    while (below := vertical(page, seen[-1], 1, seen[-1].x)) != seen[-1]:
        seen.append(below)
    assert all(stand.x < page.split for stand in seen)
    assert len(seen) > 30
    right = sideways(page, find(page, Spot("gpus", Scope.GPU, "gpu_temp", 4), 20) or at, 1)
    assert right.spot == Spot("gpus", Scope.GPU, "gpu_temp", 5)
    assert find(page, Spot("gpus", Scope.GPU, "no_such", 4)) == find(page, Spot("gpus"))


def test_every_value_of_a_node_can_be_reached_by_the_cursor() -> None:
    snapshot = sick()
    page = node_page(view_of(snapshot, SICK, all_open=True))
    reached = {stand.spot for number, one in enumerate(page.lines) for stand in stands(one, number)}
    metrics = {spot.metric for spot in reached if spot.is_value}
    hidden = {"node_reachable", "node_data_age", "nvlink_speed"}
    elsewhere = {m.id for m in catalogue().values() if m.scope in (Scope.FS, Scope.PCIE, Scope.NVLINK, Scope.JOB)}
    assert {m.id for m in catalogue().values()} - metrics <= hidden | elsewhere


def test_the_text_is_the_whole_node_without_anything_that_a_terminal_obeys() -> None:
    text = node_text(view_of(sick(), SICK, 40))
    assert text.startswith(" ✖ gpu-003  live")
    assert text.count(" + ") == 0
    assert "0000:5f:00.0" in text
    assert all(width(row) <= TEXT_CELLS for row in text.splitlines())
    evil = hostile()
    for node in evil.nodes[:4]:
        out = node_text(view_of(evil, node.name))
        assert all(row.isprintable() or not row for row in out.splitlines())
        assert "\x1b" not in out
    assert len(EVIL) > 5


def test_the_json_of_a_node_has_every_value_with_its_unit_and_why_there_is_none() -> None:
    doc = node_json(view_of(sick(), SICK))
    assert doc["schema"] == "stethoscope.node/1"
    devices = {device["place"]: device for device in doc["devices"]}
    assert devices["gpu-003/pcie/0000:1b:00.0"]["values"]["pcie_link_width"] == {
        "value": 8.0, "unit": "lanes", "age_s": 12.0, "level": "warning", "peers": 16.0,
        "expected": {"value": 16.0, "source": "7 of 7 nodes like this"},
    }  # fmt: skip
    error = devices["gpu-003/ib/mlx5_3"]["values"]["ib_symbol_error"]
    assert (error["value"], error["unit"], error["total"], error["since_first"]) == (41.0, "/s", 8123, 8123)
    assert {one["where"] for one in doc["beyond"]} >= {"gpu-003/nvlink/5/11", "gpu-003/fs/scratch"}
    assert doc["processes"][0]["slurm_job"] == "4242"


# ---- the screen


async def opened(app: StethoscopeApp, pilot: object, name: str = SICK) -> NodeScreen:
    app.open_node(name)
    for _ in range(3):
        await pilot.pause(0.05)  # type: ignore[attr-defined]
        app.pull()
    await pilot.pause()  # type: ignore[attr-defined]
    assert isinstance(app.screen, NodeScreen)
    return app.screen


async def test_keys_move_the_cursor_and_open_and_close_sections() -> None:
    async with app_on(sick()).run_test(size=(80, 24)) as pilot:
        screen = await opened(await ready(pilot), pilot)
        await pilot.press("down", "down")
        assert screen.spot is not None
        assert screen.spot.is_value
        await pilot.press("enter")
        # From what is wrong to where it stands.
        assert screen.spot.is_value
        await pilot.press("g")
        for _ in range(12):
            await pilot.press("down")
        await pilot.press("enter")
        assert screen.spot.is_section
        await pilot.press("a", "G")
        assert screen.spot.section == "probe"


async def test_the_cursor_stays_on_its_value_while_the_page_changes() -> None:
    async with app_on(sick()).run_test(size=(80, 24)) as pilot:
        app = await ready(pilot)
        screen = await opened(app, pilot)
        for _ in range(20):
            await pilot.press("down")
        spot = screen.spot
        session = app.session
        assert session is not None
        calm = replace(session.snapshot(), findings=(), wall=WALL + 5, mono=MONO + 5)
        session.now = calm  # type: ignore[attr-defined]
        screen.show_snapshot(calm, MONO + 5, WALL + 5)
        await pilot.pause()
        assert screen.spot == spot


async def test_a_paused_picture_says_of_when_it_is() -> None:
    async with app_on(sick()).run_test(size=(100, 24)) as pilot:
        app = await ready(pilot)
        await opened(app, pilot)
        await pilot.press("p")
        assert line(app, "top").endswith(" PAUSED   picture of 02:14:07 UTC ")


async def test_the_mark_is_set_and_shown() -> None:
    async with app_on(sick()).run_test(size=(120, 30)) as pilot:
        app = await ready(pilot)
        await opened(app, pilot)
        await pilot.press("M")
        assert app.session is not None
        assert app.session.mark is not None
        app.screen.query_one("#top")
        await pilot.press("p")
        assert "mark 02:14:07" in line(app, "top")


async def test_the_node_is_saved_for_the_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with app_on(sick()).run_test(size=(80, 24)) as pilot:
        await opened(await ready(pilot), pilot)
        await pilot.press("w")
        saved = tmp_path / "stethoscope" / "saved" / "gpu-003-2026-03-14T02-14-07Z.txt"
        assert saved.read_text().startswith(" ✖ gpu-003  live")
        assert stat.S_IMODE(saved.stat().st_mode) == 0o600


def test_what_is_under_the_cursor_goes_to_the_clipboard_of_the_terminal() -> None:
    with console("sick") as terminal:
        terminal.wait("gpu-003")
        terminal.settle()
        terminal.send("\r")
        terminal.wait("Not seen")
        terminal.send("y")
        terminal.wait("copied a line of gpu-003")
        sent = re.findall(rb"\x1b\]52;c;([A-Za-z0-9+/=]+)\x07", terminal.raw)
        assert base64.b64decode(sent[-1]).decode().startswith("P1 gpu/4 thermal: 88 °C, for 12 m")
        terminal.send("q")
        assert terminal.finish() == 0


def test_a_shell_is_refused_where_there_is_none() -> None:
    with console("sick", columns=100) as terminal:
        terminal.wait("gpu-003")
        terminal.settle()
        terminal.send("\r")
        terminal.wait("Not seen")
        terminal.send("s")
        terminal.wait("no shell: a recording has no shell")
        terminal.send("q")
        assert terminal.finish() == 0


def test_a_shell_takes_the_terminal_and_gives_it_back(tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text('#!/bin/sh\necho "shell with $*"\nread line\necho "$line" > "$HOME/typed"\n')
    ssh.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    with console("sick", "--reached", HOME=str(tmp_path), PATH=path) as terminal:
        terminal.wait("gpu-003")
        terminal.settle()
        terminal.send("\r")
        terminal.wait("Not seen")
        terminal.send("s")
        terminal.wait("shell with -p 2222 -l kim -J jump1 -- gpu-003")
        # Data goes on being collected meanwhile, and nothing of it is drawn.
        terminal.settle()
        drawn = len(terminal.raw)
        terminal.read(0.8)
        assert len(terminal.raw) == drawn
        terminal.send("hostname\r")
        terminal.wait("back from gpu-003")
        terminal.settle()
        assert "shell with" not in terminal.text
        assert (tmp_path / "typed").read_text() == "hostname\n"
        terminal.send("q")
        assert terminal.finish() == 0


async def test_no_shell_in_words() -> None:
    class Source:
        nodes = ()
        simulated = True

    class Session:
        source = Source()

    async def run(arguments: list[str]) -> int:
        raise AssertionError(arguments)

    with pytest.raises(UsageError, match="gpu-001 is simulated: there is no shell behind it"):
        await shell_on(Session(), "gpu-001", run)


def test_rows_mark_one_piece() -> None:
    page = node_page(view_of(sick(), SICK))
    at = find(page, Spot("gpus", Scope.GPU, "gpu_temp", 4), 20)
    assert at is not None
    marked = [span.text for span in row_of(page.lines[at.line], at.spot) if span.selected]
    assert marked == ["▲88"]


def test_a_driver_that_hangs_is_told_once_and_not_for_every_value() -> None:
    rows = text_of(view_of(troubled(), "gpu-009", 80))
    section = rows.index(next(row for row in rows if row.startswith(" ‖ GPUs")))
    assert re.fullmatch(r" ‖ the driver does not answer: \d+ values are not known", rows[section + 1])
    assert sum("hung" in row for row in rows) <= 3


def test_xid_errors_that_a_finding_names_are_not_told_again() -> None:
    counted = {("gpu-002/gpu/2", "gpu_xid_events"): 1}
    rows = text_of(view_of(replace(fleet(4, set=counted), findings=troubled().findings), "gpu-002", 100))
    assert "fell off the bus (Xid 79)" in rows[0]
    assert rows[1] == ""
    assert text_of(view_of(fleet(4, set=counted), "gpu-002", 100))[0].startswith(" ▲    gpu/2  Xid errors")


def test_where_there_is_room_a_table_says_what_peers_have_and_what_was_counted_since_the_mark() -> None:
    place = ("gpu-003/ib/mlx5_3", "ib_symbol_error")
    before = fleet(4, devices=DEVICES, totals={place: 8000})
    now = fleet(4, devices=DEVICES, set={place: 41, ("gpu-002/gpu/4", "gpu_power_draw"): 100}, totals={place: 8123})
    rows = text_of(replace(view_of(now, "gpu-003", 130, all_open=True), mark=Mark.of(before)))
    head = next(row for row in rows if "mlx5_7" in row)
    assert head.split()[-2:] == ["peers", "mark"]
    errors = rows.index(next(row for row in rows if "Symbol errors /s" in row))
    assert rows[errors].split()[-1] == "0"
    assert rows[errors + 1].split()[-1] == "+123"
    assert head.index("peers") + len("peers") == rows[errors].rindex("0") + 1
    power = next(row for row in rows if "GPU power" in row)
    assert power.split()[3:] == ["640"] * 9
    narrow = next(row for row in text_of(view_of(now, "gpu-003", 80, all_open=True)) if "mlx5_7" in row)
    assert "peers" not in narrow


def test_the_title_is_as_loud_as_the_page() -> None:
    snapshot = fleet(8, devices=DEVICES, set={("gpu-003/pcie/0000:1b:00.0", "pcie_link_width"): 8})
    view = view_of(snapshot, "gpu-003")
    assert plain(node_title(view, 80, worst=node_page(view).worst)).startswith(" ▲ gpu-003")
    assert plain(node_title(view_of(snapshot, "gpu-002"), 80)).startswith(" · gpu-002")


@pytest.mark.parametrize("cells", [80, 100])
def test_titles_of_a_narrow_table_have_short_words_and_no_holes(cells: int) -> None:
    rows = text_of(view_of(sick(), SICK, cells, all_open=True))
    start = rows.index(next(row for row in rows if " GPUs " in row))
    table = rows[start + 2 : start + 14]
    assert not [row for row in table if "…" in row[:24]], table


async def test_a_node_that_leaves_the_fleet_leaves_no_numbers_behind() -> None:
    async with app_on(sick()).run_test(size=(80, 24)) as pilot:
        app = await ready(pilot)
        screen = await opened(app, pilot)
        session = app.session
        assert session is not None
        rest = fleet(2, name="prod-a", devices=DEVICES)
        session.now = rest  # type: ignore[attr-defined]
        screen.show_snapshot(rest, MONO + 2, WALL + 2)
        await pilot.pause()
        assert line(app, "top") == " gpu-003  left the fleet"
        assert "no longer among the nodes" in "\n".join(visible(app))
        assert "°C" not in "\n".join(visible(app))
        for key in ("down", "right", "enter", "a", "y", "Y", "w", "pagedown", "G", "o", "M", "s"):
            await pilot.press(key)
        await pilot.press("escape")


@pytest.mark.parametrize(
    ("lost", "nodes", "said"),
    [
        pytest.param([2], 5, "–    fs/scratch  not mounted any more   mounted on 4 of 4 nodes like this", id="one"),
        pytest.param([1, 2, 3, 4], 5, "· nothing wrong", id="comes-and-goes"),
        pytest.param([2], 2, "•    fs/scratch  not mounted any more", id="nothing-to-compare"),
    ],
)
def test_a_file_system_that_is_gone_is_wrong_where_most_have_it(lost: list[int], nodes: int, said: str) -> None:
    gone = [f"gpu-{number:03}/fs/scratch" for number in lost]
    rows = text_of(view_of(fleet(nodes, devices=DEVICES, lost=gone), "gpu-002", 120))
    assert rows[0].strip().startswith(said)


def test_counts_that_stand_still_and_a_boot_in_the_future_are_told_as_they_are() -> None:
    snapshot = fleet(
        4,
        devices=DEVICES,
        set={("gpu-002", "boot_time"): WALL + 3600, ("gpu-002", "oom_kills"): 0},
        totals={("gpu-002", "oom_kills"): 3},
    )
    rows = "\n".join(text_of(view_of(snapshot, "gpu-002", 120, all_open=True)))
    assert re.search(r"OOM kills +3 in all", rows)
    assert re.search(r"Booted +0.0 s ago", rows)


@pytest.mark.parametrize(("offset_s", "said"), [(3600.0, "60 m ahead of ours"), (-7.5, "7.5 s behind ours")])
def test_a_clock_that_is_off_is_said_where_the_link_is(offset_s: float, said: str) -> None:
    snapshot = fleet(3, devices=DEVICES)
    nodes = (replace(snapshot.nodes[0], clock_offset_s=offset_s), *snapshot.nodes[1:])
    rows = text_of(view_of(replace(snapshot, nodes=nodes), "gpu-001", 100))
    probe = next(number for number, row in enumerate(rows) if "Probe" in row)
    assert rows[probe].startswith(f" • Probe        clock {said} · ")
    assert any(row.startswith(f" • clock        {said}, transport included") for row in rows[probe:])


def test_what_has_not_been_read_for_long_says_so_in_its_section() -> None:
    snapshot = fleet(3, devices=DEVICES)
    node = snapshot.nodes[0]
    parts = {name: replace(part, mono=MONO - 95) if name in ("disks", "pcie", "net") else part
             for name, part in node.parts.items()}  # fmt: skip
    rows = text_of(view_of(replace(snapshot, nodes=(replace(node, parts=parts), *snapshot.nodes[1:])), "gpu-001", 140))
    said = {row.split()[1]: row for row in rows if row.startswith(" + ")}
    assert {name for name, row in said.items() if "read 95 s ago" in row} == {"Fabric", "PCIe", "Storage"}


async def test_a_picture_that_is_due_before_the_screen_is_there_is_drawn_when_it_is() -> None:
    async with app_on(sick()).run_test(size=(80, 24)) as pilot:
        app = await ready(pilot)
        screen = NodeScreen(app, SICK)
        screen.show_snapshot(sick(), MONO, WALL)
        await app.push_screen(screen)
        await pilot.pause()
        assert line(app, "top").startswith(f" ✖ {SICK}  live")

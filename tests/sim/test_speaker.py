"""The lines of a simulated probe are the wire, and deltas add up to what a full frame would say."""

from __future__ import annotations

from typing import Any

from stethoscope.model import wire
from stethoscope.sim.readings import Readings
from stethoscope.sim.speaker import Speaker
from tests.sim.worlds import twin


def _apply(state: dict[str, dict[str, Any]], delta: wire.Delta) -> None:
    state["node"].update(delta.node)
    for scope, lists in (("gpu", delta.gpu), ("port", delta.port)):
        for metric, values in lists.items():
            old = state[scope][metric]
            state[scope][metric] = [new if new is not None else past for new, past in zip(values, old, strict=True)]


def test_hello_and_full_carry_clocks_identity_and_every_value() -> None:
    world = twin()
    world.advance_to(3)
    speaker = Speaker(world, 1, 2.0)
    hello = wire.decode(speaker.hello())
    full = wire.decode(speaker.frame(Readings(world)))
    assert isinstance(hello, wire.Hello)
    assert isinstance(full, wire.Full)
    assert (hello.seq, full.seq) == (0, 1)
    assert (hello.host, hello.tick_s) == ("gpu-002", 2.0)
    assert abs(full.wall - (world.wall_at_0 + 3)) < 0.01
    assert full.mono > 86_400
    assert [gpu.pci for gpu in full.gpus][:2] == ["0000:1b:00.0", "0000:43:00.0"]
    assert len({gpu.uuid for gpu in full.gpus}) == 8
    assert [port.device for port in full.ports] == [f"mlx5_{index}" for index in range(8)]
    assert full.notes == {}
    readings = Readings(world)
    assert full.gpu == {metric: values[1] for metric, values in readings.gpu.items()}
    assert full.node == {metric: values[1] for metric, values in readings.node.items()}


def test_deltas_add_up_to_the_full_frame() -> None:
    world = twin("at: 10s, fault: gpu_fell_off_bus, where: gpu-002/gpu/2")
    speaker = Speaker(world, 1, 2.0)
    full = wire.decode(speaker.frame(Readings(world)))
    assert isinstance(full, wire.Full)
    state: dict[str, dict[str, Any]] = {"node": full.node, "gpu": full.gpu, "port": full.port}
    for t_s in range(2, 40, 2):
        world.advance_to(t_s)
        readings = Readings(world)
        line = speaker.frame(readings)
        delta = wire.decode(line)
        assert isinstance(delta, wire.Delta)
        assert "gpu_fb_total" not in delta.gpu or t_s == 10
        _apply(state, delta)
        assert state["gpu"] == {metric: values[1] for metric, values in readings.gpu.items()}
        assert state["port"] == {metric: values[1] for metric, values in readings.port.items()}
        assert state["node"] == {metric: values[1] for metric, values in readings.node.items()}
    world.advance_to(61)
    assert isinstance(wire.decode(speaker.frame(Readings(world))), wire.Full)


def test_a_hung_driver_is_noted_once_and_the_inventory_keeps_a_lost_gpu() -> None:
    world = twin(
        "at: 2s, fault: driver_hung, where: gpu-002",
        "at: 2s, fault: gpu_fell_off_bus, where: gpu-003/gpu/2",
    )
    speaker = Speaker(world, 1, 2.0)
    speaker.frame(Readings(world))
    notes = []
    for t_s in (2, 4):
        world.advance_to(t_s)
        delta = wire.decode(speaker.frame(Readings(world)))
        assert isinstance(delta, wire.Delta)
        notes.append(delta.notes)
    assert notes == [{"nvml": "hung"}, None]
    full = wire.decode(Speaker(world, 2, 2.0).frame(Readings(world)))
    assert isinstance(full, wire.Full)
    assert len(full.gpus) == 8
    assert full.gpu["gpu_temp"][2] == "lost"


def test_events_and_results_are_lines_of_the_wire() -> None:
    world = twin(
        "at: 2s, fault: gpu_fell_off_bus, where: gpu-002/gpu/2",
    )
    said = world.advance_to(3)
    speaker = Speaker(world, 1, 2.0)
    event = wire.decode(speaker.event(said[-1]))
    assert isinstance(event, wire.Event)
    assert event.source == "kernel"
    assert event.at is not None
    assert abs(event.at - (world.wall_at_0 + 2.2)) < 0.01
    assert isinstance(wire.decode(speaker.bye("stop")), wire.Bye)


def test_a_node_that_restarted_has_another_boot_and_a_short_uptime() -> None:
    world = twin("at: 2s, fault: node_down, where: gpu-002, params: {back_after: 10s}")
    before = wire.decode(Speaker(world, 1, 2.0).hello())
    world.advance_to(20)
    after = wire.decode(Speaker(world, 1, 2.0).hello())
    assert isinstance(before, wire.Hello)
    assert isinstance(after, wire.Hello)
    assert before.boot_id != after.boot_id
    assert after.mono == 8.0

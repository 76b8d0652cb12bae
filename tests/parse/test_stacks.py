"""Stacks of `py-spy dump`: headers or none, native frames, locals, many processes, labels of pdsh and srun."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stethoscope.parse.kinds import kind_of
from stethoscope.parse.stacks import read_stacks

ONE = """\
Process 41: /usr/bin/python3 -u train.py
Python v3.10.12 (/usr/bin/python3.10)

Thread 41 (active+gil): "MainThread"
    pthread_cond_wait (libpthread-2.31.so)
    step (train.py:412)
        Arguments:
            self: <Trainer at 0x7f00>
            batch (1, 2)
    <module> (train.py:702)
Thread 0x7F6CF5FFB700 (idle): "Thread-1 (_pin_memory_loop)"
    select (selectors.py:416)
"""


def test_threads_and_frames_are_read_and_locals_are_not() -> None:
    (process,) = read_stacks(ONE.encode(), "stacks/rank12.txt")
    assert (process.rank, process.pid, process.command) == (12, 41, "/usr/bin/python3 -u train.py")
    assert [(thread.name, thread.state) for thread in process.threads] == [
        ("MainThread", "active+gil"),
        ("Thread-1 (_pin_memory_loop)", "idle"),
    ]
    assert process.main is process.threads[0]
    assert [frame.text for frame in process.threads[0].frames] == [
        "pthread_cond_wait (libpthread-2.31.so)",
        "step (train.py:412)",
        "<module> (train.py:702)",
    ]


def test_a_dump_without_a_header_is_one_process() -> None:
    (process,) = read_stacks(b'Thread 0x7F6D3C29D740 (idle): "MainThread"\n    wait (threading.py:312)\n', "x")
    assert (process.rank, process.pid, len(process.threads)) == (None, None, 1)


def test_many_processes_in_one_file_have_the_ranks_that_are_said() -> None:
    text = f"=== rank 3 ===\n{ONE}\n=== rank 5 ===\n{ONE.replace('41', '43')}"
    assert [(p.rank, p.pid, len(p.threads)) for p in read_stacks(text.encode(), "all.txt")] == [(3, 41, 2), (5, 43, 2)]


def test_the_first_process_of_a_file_is_the_rank_and_its_children_are_not() -> None:
    found = read_stacks(f"{ONE}\n{ONE.replace('Process 41', 'Process 99')}".encode(), "rank7.txt")
    assert [(process.rank, process.pid) for process in found] == [(7, 41), (None, 99)]


def test_lines_of_many_ranks_are_put_apart_by_their_labels() -> None:
    own, other = ONE.splitlines(), ONE.replace("41", "43").splitlines()
    mixed = "".join(f"0: {a}\n1: {b}\n" for a, b in zip(own, other, strict=True))
    assert [(p.rank, p.pid, len(p.main.frames) if p.main else 0) for p in read_stacks(mixed.encode(), "x")] == [
        (0, 41, 3),
        (1, 43, 3),
    ]
    hosts = "".join(f"node-a: {line}\n" for line in own)
    assert [(process.rank, process.host) for process in read_stacks(hosts.encode(), "x")] == [(None, "node-a")]


def test_what_holds_stacks_is_known_by_its_threads() -> None:
    assert kind_of(ONE.encode()) == "stacks"
    assert kind_of(b'3: Thread 41 (idle): "MainThread"\n') == "stacks"
    assert kind_of(b"INFO Thread 41 started (idle)\nstep 1\n") == ""
    assert read_stacks(b"Error: Failed to get process executable name.\n", "x") == []


def test_text_is_cleaned() -> None:
    (process,) = read_stacks(b'Thread 1 (idle): "Main\x1b[31mThread"\n    f\x07oo (a.py:1)\n', "x")
    assert process.threads[0].name == "MainThread"
    assert process.threads[0].frames[0].function == "foo"


@given(
    st.lists(st.sampled_from([*ONE.splitlines(), "rank 3", "0: x", "\x00", "    ((((", "Thread (", ""]), max_size=30)
)
def test_lines_in_any_order_are_taken(lines: list[str]) -> None:
    for process in read_stacks("\n".join(lines).encode(), "rank1"):
        assert process.threads

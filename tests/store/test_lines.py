"""What a raw line is, by its first bytes."""

from __future__ import annotations

import json

import pytest

from stethoscope.model import wire
from stethoscope.store.lines import is_delta, is_full, is_hello, is_same, part_group

TEXT = {"/proc/x": '"t":"part","name":"not this","same":true\n' * 20}
PARTS = [
    (b'{"t":"part","seq":7,"mono":812.4,"wall":1773454447.1,"name":"disks","s":30.0,"same":true}', "disks", True),
    (
        json.dumps({"t": "part", "seq": 7, "mono": 1.0, "wall": 2.0, "name": "gpu", "files": TEXT}).encode(),
        "gpu",
        False,
    ),
    (wire.encode(wire.Part(seq=1, mono=2.0, wall=3.0, name="host", s=30.0, same=True)), "host", True),
    (wire.encode(wire.Part(seq=1, mono=2.0, wall=3.0, name="host", s=30.0, files=TEXT)), "host", False),
    (b"@part 7 812.40 1773454447\n@name mounts\n@every 30\n@same\n@end 7", "mounts", True),
    (b"@part 7 812.40 1773454447\n@name mounts\n/proc/mounts:x same\n@end 7", "mounts", False),
]


@pytest.mark.parametrize(("raw", "group", "same"), PARTS)
def test_parts_are_known_by_their_group(raw: bytes, group: str, same: bool) -> None:
    assert (part_group(raw), is_same(raw)) == (group, same)
    assert not any(kind(raw) for kind in (is_hello, is_full, is_delta))


@pytest.mark.parametrize(
    "raw",
    [
        b"", b'{"t":"full","seq":1,"mono":1.0,"wall":1.0,"name":"part"}', b"@full 1 2 3\n@name x",
        b'{"t":"event","seq":1,"mono":1.0,"wall":1.0,"source":"kernel","text":"\\"t\\":\\"part\\",\\"name\\":\\"x\\""}',
        b'{"t":"part","seq":1}', b'{"t":"part","name":"' + b"x" * 100 + b'"}', b"@part 1 2 3\n@end 1",
        b"@part \n@name x",
        wire.encode(wire.Delta(seq=1, mono=1.0, wall=1.0, node={"load1": 1})),
    ],
)  # fmt: skip
def test_everything_else_is_none(raw: bytes) -> None:
    assert part_group(raw) == ""

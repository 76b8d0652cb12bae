"""A `scontrol` and a `squeue` for the PATH, which answer from files: what is tested is everything around them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """#!/bin/sh
here=${0%/*}/..
printf '%s\\n' "${0##*/} $*" >> "$here/log"
printf '%s\\n' "$TZ" >> "$here/zone"
for name in "${0##*/} $1 $2 $3 $4" "${0##*/} $1 $2 $3" "${0##*/} $1 $2" "${0##*/} $1" "${0##*/}"; do
    file="$here/answers/$(printf '%s' "$name" | tr ' /' '__' | sed 's/_*$//')"
    if [ -f "$file.delay" ]; then exec sleep 60; fi
    if [ -f "$file.err" ]; then cat "$file.err" >&2; exit 1; fi
    if [ -f "$file" ]; then exec cat "$file"; fi
done
echo "${0##*/}: nothing to say to $*" >&2
exit 1
"""
NODES = """\
NodeName=gpu-001 Gres=gpu:h100:8(S:0-1) NodeAddr=10.0.0.1 NodeHostName=gpu-001 State=ALLOCATED Partitions=train
NodeName=gpu-002 Gres=gpu:h100:8 NodeAddr=gpu-002 NodeHostName=gpu-002 State=IDLE+DRAIN Partitions=train Reason=maint BMC firmware [root@2026-03-14T02:14:07]
NodeName=cpu-001 Gres=(null) NodeAddr=cpu-001 NodeHostName=cpu-001 State=DOWN* Partitions=all Reason=Not responding [slurm@2026-03-14T02:00:00]
"""  # noqa: E501  as the tool prints it
JOB = """\
JobId=4242 JobName=llm
   UserId=alice(1001) JobState=RUNNING
   Partition=train
   NodeList=gpu-[001-002]
   BatchHost=gpu-001
   StdOut=/shared/slurm-%j.out
"""
SQUEUE = "4242|RUNNING|train|alice|2026-03-14T01:00:00|gpu-001|gpu-001|llm\n"
TOPOLOGY = "SwitchName=rack-a Nodes=gpu-[001-002]\nSwitchName=rack-b Nodes=cpu-001\n"


class FakeSlurm:
    """The two programs in `directory`/bin."""

    def __init__(self, directory: Path, version: str = "slurm 22.05.8") -> None:
        """Make them answer as a small cluster of that version."""
        self.directory = directory
        self.bin = directory / "bin"
        self._answers = directory / "answers"
        self.bin.mkdir(parents=True)
        self._answers.mkdir()
        for name in ("scontrol", "squeue"):
            (self.bin / name).write_text(SCRIPT)
            (self.bin / name).chmod(0o755)
        self.say("scontrol --version", f"{version}\n")
        self.say("scontrol show node", NODES)
        self.say("scontrol show job", "")
        self.say("scontrol show job 4242", JOB)
        self.say("scontrol show partition train", "PartitionName=train Nodes=gpu-[001-002] State=UP\n")
        self.say("scontrol show partition", error="Partition not found\n")
        self.say("scontrol show topology", TOPOLOGY)
        self.say("squeue", SQUEUE)

    @property
    def path(self) -> str:
        """Return a PATH that begins with the programs."""
        return f"{self.bin}:{os.environ['PATH']}"

    def say(self, command: str, text: str = "", *, error: str | None = None, delay: bool = False) -> None:
        """Let commands that begin so print `text`, fail with `error`, or never answer."""
        file = self._answers / command.replace(" ", "_").replace("/", "_")
        for old in (file, file.with_name(file.name + ".err"), file.with_name(file.name + ".delay")):
            old.unlink(missing_ok=True)
        if delay:
            file.with_name(file.name + ".delay").touch()
        elif error is not None:
            file.with_name(file.name + ".err").write_text(error)
        else:
            file.write_text(text)

    def calls(self) -> list[str]:
        """Return the command lines so far."""
        log = self.directory / "log"
        return log.read_text().splitlines() if log.exists() else []

    def zones(self) -> set[str]:
        """Return the time zones of the calls."""
        return set((self.directory / "zone").read_text().splitlines())

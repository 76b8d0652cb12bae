"""What a file holds that is no log, by its first bytes: flight recorder dumps and stacks."""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal["dump", "stacks", ""]
_DUMP_WORDS = (b'"pg_config"', b'"pg_status"', b'"collective_seq_id"')
_THREAD = re.compile(rb"(?m)^(?:[\w.-]{1,80}: ?)?Thread (?:0x[0-9A-Fa-f]+|\d+)(?:/0x[0-9A-Fa-f]+)? ?\((?:active|idle)")


def is_pickle(data: bytes) -> bool:
    """Tell whether data begin as a pickle of protocol 2 or later does."""
    return len(data) > 2 and data[0] == 0x80 and 2 <= data[1] <= 5


def kind_of(head: bytes) -> Kind:
    """Return what a file is whose first bytes, plain, are these; an empty word for a log."""
    if is_pickle(head) or (head[:1] == b"{" and any(word in head for word in _DUMP_WORDS)):
        return "dump"
    return "stacks" if b"Thread " in head and _THREAD.search(head) else ""

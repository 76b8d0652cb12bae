"""Tells patterns that take any digit for any other from those that care which one it is."""

from __future__ import annotations

import re

_ESCAPED = re.compile(r"\\[^0-9]")
_GROUP_NAME = re.compile(r"\(\?P<\w+>")
_CLASS = re.compile(r"\[[^\]]*\]")
_QUANTITY = re.compile(r"\{\d*,?\d*\}")


def takes_any_digit(pattern: str) -> bool:
    """Tell whether a pattern finds the same in all texts that differ in their digits alone; False where it is not sure.

    It does when, beside its quantities and the names of its groups, no digit is in it but in the range of all.
    """
    if "(?P=" in pattern:
        return False
    plain = _GROUP_NAME.sub("(", _ESCAPED.sub("", pattern))
    plain = _QUANTITY.sub("", _CLASS.sub(lambda match: match[0].replace("0-9", ""), plain))
    return not any(character.isdecimal() for character in plain)

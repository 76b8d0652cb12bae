"""`ethtool` where there is nothing to read."""

from __future__ import annotations

import pytest

from stethoscope.model.report import ToolError
from stethoscope.parse.tools import ethtool


@pytest.mark.parametrize(
    "said",
    [
        "netlink error: Invalid argument",
        "netlink error: Input/output error",
        "netlink error: Operation not supported",
        "Cannot get module EEPROM information: Invalid argument",
        "Cannot get Module EEPROM data: Input/output error",
        "Cannot get module EEPROM information: No such device or address",
    ],
)
def test_a_cage_without_a_module_is_no_failure_of_the_tool(said: str) -> None:
    with pytest.raises(ToolError, match="there is no module") as caught:
        ethtool.read("", exit=1, err=f"{said}\n")
    assert caught.value.reason == "no_device"


def test_what_only_root_may_read_is_no_missing_module() -> None:
    with pytest.raises(ToolError) as caught:
        ethtool.read("", exit=1, err="Cannot get module EEPROM information: Operation not permitted\n")
    assert caught.value.reason == "permission"

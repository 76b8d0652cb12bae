"""Modules that become one text with short names still do what they did."""

from __future__ import annotations

from typing import Any

import pytest

from stethoscope.collect.bundle import bundle

TOOLS = '''
"""Tools."""

import json

LIMIT_OF_ITEMS = 3
table_of_items = {"one": 1, "two": 2}


def doubled(number_of_items):
    return number_of_items * 2


class Counter:
    def __init__(self):
        self.first_number, self.second_number = 1, 2
        self.third_number = 3

    def total_number(self):
        return self.first_number + 10 * self.second_number + 100 * self.third_number


class Keeper:
    def __init__(self, counter):
        self.counter_kept = counter
        self.note_kept = ""

    def total_kept(self):
        return [self.counter_kept.total_number(), self.counter_kept.first_number, self.note_kept]
'''
MAIN = """
import tools
from tools import Counter, Keeper


def main(result):
    keeper = Keeper(Counter())
    keeper.note_kept = "said"
    names = sorted(tools.table_of_items)
    result["total"] = keeper.total_kept()
    result["pairs"] = [(name, other) for name in names for other in names if name != other]
    result["nested"] = [[tools.doubled(number_of_items=value) for value in range(size)] for size in range(3)]
    result["same"] = [names for names in names]
    result["after"] = names
    result["inside"] = {key: [key + word for word in names] for key in names}
    result["called"] = [action(2) for action in [lambda number, size=size: number * size for size in (1, 5)]]
    result["limit"] = sum(1 for number in range(9) if number < tools.LIMIT_OF_ITEMS)
"""


def outcome(text: str) -> dict[str, Any]:
    """Run a text in which `result` is a dictionary; return what it has in the end."""
    result: dict[str, Any] = {}
    exec(text, {"result": result})
    return result


EXPECTED = {
    "total": [321, 1, "said"],
    "pairs": [("one", "two"), ("two", "one")],
    "nested": [[], [0], [0, 2]],
    "same": ["one", "two"],
    "after": ["one", "two"],
    "inside": {"one": ["oneone", "onetwo"], "two": ["twoone", "twotwo"]},
    "called": [2, 10],
    "limit": 3,
}


def test_one_text_does_what_the_modules_do() -> None:
    (text,) = bundle([["tools", "main"]], {"tools": TOOLS, "main": MAIN}, ["main(result)"])
    assert outcome(text) == EXPECTED
    for word in ("doubled", "table_of_items", "first_number", "total_kept", "keeper", "Tools"):
        assert word not in text


def test_two_stages_share_their_names() -> None:
    first, second = bundle([["tools"], ["main"]], {"tools": TOOLS, "main": MAIN}, ["", "main(result)"])
    assert outcome(first + "\n" + second) == EXPECTED


def test_attributes_of_classes_that_have_nothing_in_common_get_the_same_names() -> None:
    (text,) = bundle([["tools"]], {"tools": TOOLS})
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    counter, keeper = (one for one in namespace.values() if isinstance(one, type))
    made = counter()
    assert len(vars(made)) == 3
    assert set(vars(keeper(made))) & {*vars(made), *vars(counter)}


@pytest.mark.parametrize("missing", ["tools", "main"])
def test_a_module_without_a_source_is_an_error(missing: str) -> None:
    sources = {"tools": TOOLS, "main": MAIN}
    del sources[missing]
    with pytest.raises(KeyError, match=missing):
        bundle([["tools", "main"]], sources, ["main(result)"])

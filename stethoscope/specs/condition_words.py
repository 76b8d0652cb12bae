"""Reads conditions about words: `{word: cpu_governor, is: powersave}`, `{word: driver_version, differs: fleet}`, and
what is known of a device, `{about: driver, of: pcie_dev, is: [mlx5_core]}`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stethoscope.model.metric import DEVICE_SCOPES, Metric, Scope
from stethoscope.specs.condition import Condition, Leaf

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stethoscope.specs.condition_read import ConditionReader, Path


@dataclass(frozen=True, slots=True)
class WordIs(Leaf):
    """A version or setting of the node is one of these words."""

    word: str
    words: tuple[str, ...]

    def scope(self, catalogue: Mapping[str, Metric]) -> Scope:
        """Return the node's."""
        return Scope.NODE


@dataclass(frozen=True, slots=True)
class WordDiffers(Leaf):
    """A version or setting of the node is not what nearly all other nodes have."""

    word: str

    def scope(self, catalogue: Mapping[str, Metric]) -> Scope:
        """Return the node's."""
        return Scope.NODE


@dataclass(frozen=True, slots=True)
class About(Leaf):
    """What is known of the device (its driver, type, model) is one of these words."""

    key: str
    of: Scope
    words: tuple[str, ...]

    def scope(self, catalogue: Mapping[str, Metric]) -> Scope:
        """Return the scope of the device."""
        return self.of


def read_word(reader: ConditionReader, data: dict[Any, Any], path: Path) -> Condition:
    """Return the condition `{word: cpu_governor, is: [powersave]}` or `{word: driver_version, differs: fleet}`."""
    reader.only(data, ("word", "is", "differs", "for"), path)
    if not isinstance(data["word"], str):
        raise reader.error("word names a version or setting (docs/drift.md), such as driver_version", (*path, "word"))
    if ("is" in data) == ("differs" in data):
        raise reader.error('a word needs one of "is" and "differs"', path)
    if "differs" in data:
        reader.word(data["differs"], ("fleet",), "differs", (*path, "differs"))
        return WordDiffers(data["word"])
    return WordIs(data["word"], _words(reader, data["is"], (*path, "is")))


def read_about(reader: ConditionReader, data: dict[Any, Any], path: Path) -> Condition:
    """Return the condition `{about: driver, of: pcie_dev, is: [mlx5_core, nvme]}`."""
    reader.only(data, ("about", "of", "is", "for"), path)
    if not isinstance(data["about"], str):
        raise reader.error("about is a word such as driver, type or model", (*path, "about"))
    scope = Scope(reader.word(data.get("of"), [str(each) for each in DEVICE_SCOPES], "of", (*path, "of")))
    if "is" not in data:
        raise reader.error('the key "is" is missing', path)
    return About(data["about"], scope, _words(reader, data["is"], (*path, "is")))


def _words(reader: ConditionReader, value: Any, path: Path) -> tuple[str, ...]:
    words = reader.listed(value)
    if not words or not all(isinstance(word, str) for word in words):
        raise reader.error("is takes a word or a list of words", path)
    return tuple(words)

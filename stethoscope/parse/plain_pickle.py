"""Reads pickles that hold plain containers, text and numbers, and nothing else; nothing that is in one is ever run.

Python's own unpickler is not used: even one that refuses every name can be made to take all of the memory by a few
bytes (the index of a memo entry). Here an opcode is a branch, a name or a call ends the reading, and every size is
bounded by the bytes that are there.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from stethoscope.parse.kinds import is_pickle
from stethoscope.text import clean

MOST_STEPS: Final = 60_000_000
MOST_MARKS: Final = 64
MOST_ON_STACK: Final = 2_000_000
_LONGEST_NUMBER: Final = 16
_CODE: Final = {
    0x63: "GLOBAL", 0x93: "STACK_GLOBAL", 0x52: "REDUCE", 0x62: "BUILD", 0x69: "INST", 0x6F: "OBJ", 0x81: "NEWOBJ",
    0x92: "NEWOBJ_EX", 0x50: "PERSID", 0x51: "BINPERSID", 0x82: "EXT1", 0x83: "EXT2", 0x84: "EXT4",
}  # fmt: skip
"""Opcodes that name or call something."""
_U8, _U16, _U32, _U64, _I32, _F64 = map(struct.Struct, ("<B", "<H", "<I", "<Q", "<i", ">d"))
_CONSTANTS: Final = {0x4E: None, 0x88: True, 0x89: False}
_TEXTS: Final = {0x58: _U32, 0x8C: _U8, 0x8D: _U64, 0x54: _U32, 0x55: _U8, 0x42: _U32, 0x43: _U8, 0x8E: _U64}
"""Opcodes of text and bytes, with the form of the length that comes first."""
_NUMBERS: Final = {0x4A: _I32, 0x4B: _U8, 0x4D: _U16, 0x47: _F64}
_LONGS: Final = {0x8A: _U8, 0x8B: _I32}
_PUTS: Final = {0x71: _U8, 0x72: _U32}
_GETS: Final = {0x68: _U8, 0x6A: _U32}
_TUPLES: Final = {0x85: 1, 0x86: 2, 0x87: 3}


class PickleRefusedError(ValueError):
    """What was given is no pickle of plain values; the text says why."""


def load_plain(data: bytes) -> Any:
    """Return the value of a pickle of dicts, lists, tuples, text, numbers, booleans and None.

    Raises PickleRefusedError for anything else: names, calls, other opcodes, cut data, and more than the bounds allow.
    """
    try:
        return _Reader(data).run()
    except (IndexError, struct.error):
        raise PickleRefusedError("it is cut short or damaged") from None
    except (TypeError, KeyError, OverflowError):
        raise PickleRefusedError("it is damaged") from None


class _Reader:
    """The stack machine of one pickle."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        if not is_pickle(self.data):
            raise PickleRefusedError("it is no pickle of protocol 2 to 5")
        self.at = 2
        data, stack, memo = self.data, self.stack, self.memo
        for _ in range(MOST_STEPS):
            code = data[self.at]
            self.at += 1
            if code in _PUTS:
                memo[self._number(_PUTS[code])] = stack[-1]
            elif code in _TEXTS:
                stack.append(self._bytes(self._number(_TEXTS[code])).decode("utf-8", "replace"))
            elif code in _GETS:
                stack.append(memo[self._number(_GETS[code])])
            elif code in _NUMBERS:
                stack.append(self._number(_NUMBERS[code]))
            elif code == 0x2E:
                return stack.pop()
            else:
                self._rare(code)
            if len(stack) > MOST_ON_STACK:
                break
        raise PickleRefusedError("it is larger than a dump can be")

    def _rare(self, code: int) -> None:
        stack = self.stack
        if code == 0x28:
            self.marks.append(len(stack))
            if len(self.marks) > MOST_MARKS:
                raise PickleRefusedError(f"it is nested more than {MOST_MARKS} deep")
        elif code in _CONSTANTS:
            stack.append(_CONSTANTS[code])
        elif code in _LONGS:
            size = self._number(_LONGS[code])
            if not 0 <= size <= _LONGEST_NUMBER:
                raise PickleRefusedError(f"it holds a number of {size} bytes")
            stack.append(int.from_bytes(self._bytes(size), "little", signed=True))
        elif code == 0x94:
            self.memo[len(self.memo)] = stack[-1]
        elif code == 0x95:
            self._number(_U64)
        elif code == 0x80:
            self._number(_U8)
        elif code in _CODE:
            raise PickleRefusedError(f"it asks for code to be run ({_CODE[code]}{self._named(code)})")
        else:
            self._container(code)

    def _container(self, code: int) -> None:
        stack = self.stack
        if code == 0x7D:
            stack.append({})
        elif code == 0x5D:
            stack.append([])
        elif code == 0x29:
            stack.append(())
        elif code in _TUPLES:
            count = _TUPLES[code]
            if len(stack) < count:
                raise IndexError
            stack[-count:] = [tuple(stack[-count:])]
        elif code in (0x74, 0x6C):
            items = self._marked()
            stack.append(tuple(items) if code == 0x74 else items)
        elif code == 0x64:
            stack.append(_pairs(self._marked()))
        elif code == 0x61:
            item = stack.pop()
            _as(list, stack[-1]).append(item)
        elif code == 0x65:
            items = self._marked()
            _as(list, stack[-1]).extend(items)
        elif code == 0x73:
            value, key = stack.pop(), stack.pop()
            _as(dict, stack[-1]).update(_pairs([key, value]))
        elif code == 0x75:
            items = self._marked()
            _as(dict, stack[-1]).update(_pairs(items))
        else:
            raise PickleRefusedError(f"it holds opcode {code:#04x}, which no dump has")

    def _marked(self) -> list[Any]:
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def _number(self, form: struct.Struct) -> Any:
        value = form.unpack_from(self.data, self.at)[0]
        self.at += form.size
        return value

    def _bytes(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise IndexError
        self.at += size
        return self.data[self.at - size : self.at]

    def _named(self, code: int) -> str:
        if code in (0x63, 0x69):
            words = self.data[self.at : self.at + 200].split(b"\n")[:2]
        elif code == 0x93:
            words = [str(value).encode() for value in self.stack[-2:] if isinstance(value, str)]
        else:
            return ""
        return f" {clean(b'.'.join(words), 80)}"


def _pairs(items: list[Any]) -> dict[str | int, Any]:
    if len(items) % 2 or not all(isinstance(key, (str, int)) for key in items[::2]):
        raise PickleRefusedError("a key of it is neither text nor a number")
    return dict(zip(items[::2], items[1::2], strict=True))


def _as(kind: type[Any], value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError
    return value

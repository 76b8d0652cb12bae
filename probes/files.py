"""Files of the node; STETHOSCOPE_ROOT puts another tree in place of /sys, /proc and /dev."""

import os

ROOT = os.environ.get("STETHOSCOPE_ROOT", "")
MISSING = (2, 20, 95)
"""ENOENT, ENOTDIR and EOPNOTSUPP, the same on all that Linux runs GPUs on."""


def read_file(path, most=0):
    """Return the bytes of a file under the root; OSError when it cannot be read. With `most` it is a long one, at most
    about so many bytes: the kernel gives files of many records in pieces, of which none has to be full."""
    descriptor = os.open(ROOT + path, os.O_RDONLY)
    try:
        content = part = os.read(descriptor, 65536)
        while part and (len(content) < most if most else len(content) > 4095):
            part = os.read(descriptor, 65536)
            content += part
        return content
    finally:
        os.close(descriptor)


def reason_of(error):
    """Return the wire's word for why a file could not be read."""
    if error.errno in MISSING:
        return "unsupported"
    return "permission" if isinstance(error, PermissionError) else "error"


def as_text(content):
    """Return bytes as text, whatever they are."""
    return content.decode("utf-8", "replace")


def read_text(path):
    """Return the stripped text of a small file, or an empty string when it cannot be read."""
    try:
        return as_text(read_file(path)).strip()
    except OSError:
        return ""


def list_names(path):
    """Return the sorted names in a directory under the root, none when it cannot be read."""
    try:
        return sorted(os.listdir(ROOT + path))
    except OSError:
        return []

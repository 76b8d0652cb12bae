"""Files of the node; STETHOSCOPE_ROOT puts another tree in place of /sys, /proc and /dev."""

import errno
import os

ROOT = os.environ.get("STETHOSCOPE_ROOT", "")


def read_file(path, most=0):
    """Return the bytes of a file under the root; OSError when it cannot be read. With `most` it is a long one, at most
    about so many bytes: the kernel gives files of many records in pieces, of which none has to be full."""
    descriptor = os.open(ROOT + path, os.O_RDONLY)
    try:
        content = os.read(descriptor, 65536)
        if not most and len(content) < 4096:
            return content
        most = most or 1 << 30
        parts = [content]
        while content and most > 0:
            content = os.read(descriptor, 65536)
            parts.append(content)
            most -= len(content)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def reason_of(error):
    """Return the wire's word for why a file could not be read."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EOPNOTSUPP):
        return "unsupported"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "permission"
    return "error"


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

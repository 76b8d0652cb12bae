"""Files of the node; STETHOSCOPE_ROOT puts another tree in place of /sys, /proc and /dev."""

import errno
import os

ROOT = os.environ.get("STETHOSCOPE_ROOT", "")


def read_file(path, most=1 << 30):
    """Return the bytes of a file under the root, at most about `most`; OSError when it cannot be read."""
    descriptor = os.open(ROOT + path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(descriptor, 65536)
        if len(content) < 4096:
            return content
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

"""Takes secrets out of text that a person may send to somebody else: logs, crash reports, incidents."""

from __future__ import annotations

import os
import re

REMOVED = "[removed]"
_NAMES = r"pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credentials?"
_VALUE = r"(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s,;&\"']+)"
_PATTERNS = (
    (re.compile(r"-----BEGIN [A-Z ]{0,40}KEY-----.*?(?:-----END [A-Z ]{0,40}KEY-----|\Z)", re.DOTALL), REMOVED),
    (re.compile(rf"(?i)\b((?:[a-z0-9]+[_-])*(?:{_NAMES})[\"']?)(\s*[=:]\s*){_VALUE}"), rf"\1\2{REMOVED}"),
    (re.compile(rf"(?i)(--?(?:[a-z0-9]+-)*(?:{_NAMES}))(\s+){_VALUE}"), rf"\1\2{REMOVED}"),
    (re.compile(r"(?i)\b(authorization|cookie)(\s*:\s*)[^\n]+"), rf"\1\2{REMOVED}"),
    # "basic diagnostics" is none: a credential has a digit, or fills its last group.
    (re.compile(r"(?i)\b(bearer|basic)\s+(?=[a-z._~+/-]*[0-9=])[a-z0-9._~+/=-]{8,}"), rf"\1 {REMOVED}"),
    (re.compile(rf"\b([A-Z0-9_]*(?<!BY)(?:PASS(?:WORD|WD)?|TOKEN|SECRET)(?:_KEY)?)(=){_VALUE}"), rf"\1\2{REMOVED}"),
    (re.compile(r"([a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,80}):[^\s/@]{1,200}@"), rf"\1:{REMOVED}@"),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), REMOVED),
    (re.compile(r"\b(?:ghp|gho|ghs|glpat|xox[bap])[-_][A-Za-z0-9_-]{10,}"), REMOVED),
    (re.compile(r"\b(?:hf_|nvapi-|github_pat_|sk-)[A-Za-z0-9_-]{20,}"), REMOVED),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}"), REMOVED),
)
_SECRET_VARIABLE = re.compile(rf"(?i)(?:{_NAMES})")
_LEAST = 6
"""A shorter value of a variable is a word that may stand anywhere."""


def redact(text: str) -> str:
    """Return `text` without keys, passwords, tokens, and the values of environment variables that are named so."""
    for value in secret_values():
        text = text.replace(value, REMOVED)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def secret_values() -> list[str]:
    """Return the values of environment variables that are named as secrets are."""
    return [
        value
        for name, value in os.environ.items()
        if len(value) >= _LEAST and _SECRET_VARIABLE.search(name) and not value.startswith("/")
    ]

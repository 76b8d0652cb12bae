"""Takes secrets out of text that a person may send to somebody else: logs, crash reports, incidents.

What helps to find a fault stays: serial numbers, UUIDs, hashes, what passed, and the tokens of models and of command
queues, which are numbers.
"""

from __future__ import annotations

import os
import re

REMOVED = "[removed]"
_KEYS = r"(?:api|access|account|private|secret|shared|signing|encryption|master)[_-]?key"
_NAMES = (
    rf"password|passwd|passphrase|passcode|pwd(?![=: \t\"']{{1,4}}/)|secret|credentials?|{_KEYS}|"
    r"密码|口令|密钥|パスワード"
)
_TOKEN = r"token|令牌"  # noqa: S105  a name
_VALUE = r"(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s,;&\"'，；。、]+)"
_SAYS = r"[\"']?[ \t]*[=:：][ \t]*"
_ENDS = r"[\"']?(?=[\s,;.&)}\]，；。、]|\Z)"
# Words that say how it is with a secret, and numbers that are none.
_NONE = (
    r"(?![\"']?(?:none|null|nil|no|yes|true|false|ok|unset|empty|missing|expired|invalid|required|wrong|unknown|not|is)"
    rf"{_ENDS})"
)
_NUMBER = rf"(?![\"']?(?:\d{{1,7}}(?:\.\d+)?|0x[0-9a-f]{{1,16}}|</?\w+>){_ENDS})"
# What nobody would say: letters and digits in one word.
_MIXED = r"(?=[^\s,;&\"']{0,40}\d)(?=[^\s,;&\"']{0,40}[a-z])[^\s,;&\"']{6,}"
_KEY_END = r"KEY(?: BLOCK)?-----"
# What the tokens of those who hand them out begin with.
_PREFIXES = (
    r"gh[pousr]_|gl[a-z]{2,4}-|xox[a-z][-.]|xapp-|ya29\.|hvs\.|npm_|pypi-|dop_v1_|dckr_pat_|github_pat_|nvapi-|r8_|"
    r"(?:sk|rk)_(?:live|test)_|sk-(?=[a-z_-]{0,40}\d)|AGE-SECRET-KEY-"
)


def _gone(hints: str, pattern: str, replacement: str = rf"\1{REMOVED}") -> tuple[tuple[str, ...], re.Pattern[str], str]:
    """Return a pattern with words of which text that fits it has one: most text has none, and is not read through."""
    return tuple(hints.split()), re.compile(pattern), replacement


_PATTERNS = (
    _gone(
        "-----begin",
        rf"(?s)-----BEGIN (?![A-Z ]{{0,40}}PUBLIC)[A-Z ]{{0,40}}{_KEY_END}"
        rf".*?(?:-----END [A-Z ]{{0,40}}{_KEY_END}|\Z)",
        REMOVED,
    ),
    _gone("private-lines", r"(Private-Lines: \d{1,4})(?:\r?\n[A-Za-z0-9+/=]+)+", rf"\1 {REMOVED}"),
    _gone("pass pwd secret credential key 密 口令 パス", rf"(?i)((?:{_NAMES}){_SAYS}){_NONE}{_VALUE}"),
    _gone("token 令牌", rf"(?i)((?:{_TOKEN}){_SAYS}){_NONE}{_NUMBER}{_VALUE}"),
    _gone(
        "pass pwd secret credential key token",
        rf"(?i)((?<![\w-])--?(?:[a-z0-9]{{1,40}}-){{0,4}}(?:{_NAMES}|{_TOKEN})\s+){_NONE}{_VALUE}",
    ),
    # What passed a test is none: `pass: 4 of 5`, `PASS=1`.
    _gone("pass", rf"(?i)((?:[_-]pass|sshpass)[\"']?[ \t]*[=:][ \t]*){_NONE}{_NUMBER}{_VALUE}"),
    _gone("pass=", rf"(?i)\b(pass=){_MIXED}"),
    _gone(
        "pass token secret",
        rf"(?i)((?:password|passphrase|passwd|token|secret)[ \t]{{1,8}}(?:is|was)[ \t]{{1,8}}){_NUMBER}{_MIXED}",
    ),
    _gone("密 口令 令牌", r"((?:密码|口令|密钥|令牌)[是为][ \t]*)[!-~]{4,}"),
    _gone("login", r"(\blogin[ \t]{1,8}\S{1,80}\s{1,8}password\s{1,8})\S+"),
    _gone("_key=", r"(\b[A-Z0-9_]{1,60}_KEY=)(?=[^\s,;&\"']{0,80}\d)[^\s,;&\"']{16,}"),
    _gone(
        "sshpass ipmitool docker",
        rf"\b((?:sshpass|ipmitool|docker login)\b[^\n|;]{{0,200}}?[ \t]-[pP][ \t]*){_VALUE}",
    ),
    _gone("mysql", r"\b(mysql\w{0,8}\b[^\n|;]{0,200}?[ \t]-p)[^\s;|]+"),
    _gone("curl wget", r"\b((?:curl|wget)\b[^\n|;]{0,200}?[ \t](?:-u|--user)[ =]?[^\s:]{1,80}:)[^\s;|]+"),
    _gone("authorization cookie", r"(?i)\b((?:authorization|cookie)[ \t]*:[ \t]*)[^\n]+"),
    # "basic diagnostics" is none: a credential has a digit, or fills its last group.
    _gone(
        "bearer basic",
        r"(?i)\b(bearer|basic)[ \t]+(?=[a-z._~+/-]*[0-9=])[a-z0-9._~+/=-]{8,}",
        rf"\1 {REMOVED}",
    ),
    _gone("://", r"([a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,80}):[^\s/@]{1,200}@", rf"\1:{REMOVED}@"),
    _gone("sig signature key", r"(?i)([?&](?:sig|x-amz-signature|x-goog-signature|key)=)[^\s&\"']{8,}"),
    _gone("hook", r"(https://(?:hooks\.slack\.com/services|[a-z.]{4,40}/open-apis/bot/v2/hook)/)[\w/-]+"),
    _gone(
        "akia asia ltai akid aiza",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\b(?:LTAI|AKID)[A-Za-z0-9]{12,40}\b|\bAIza[\w-]{35,}",
        REMOVED,
    ),
    _gone(
        "gh gl xox xapp- ya29 hvs npm_ pypi- dop_v1_ _pat_ nvapi- r8_ sk_ rk_ sk- age-secret-key",
        rf"\b(?:{_PREFIXES})[A-Za-z0-9._-]{{10,}}",
        REMOVED,
    ),
    _gone("hf_", r"\bhf_[A-Za-z0-9]{20,}", REMOVED),
    _gone("eyj", r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}", REMOVED),
)
_SECRET_VARIABLE = re.compile(rf"(?i)(?:{_NAMES}|{_TOKEN}|(?<!by)(?<!ask)(?<!com)pass)(?:_key|_value)?\Z")
_LEAST = 6
"""A shorter value of a variable is a word that may stand anywhere."""


def redact(text: str) -> str:
    """Return `text` without keys, passwords, tokens, and the values of environment variables that are named so."""
    for value in secret_values():
        text = text.replace(value, REMOVED)
    lower = text.lower()
    for hints, pattern, replacement in _PATTERNS:
        if any(hint in lower for hint in hints):
            text = pattern.sub(replacement, text)
    return text


def secret_values() -> list[str]:
    """Return the values of environment variables that are named as secrets are."""
    return [
        value
        for name, value in os.environ.items()
        if len(value) >= _LEAST
        and _SECRET_VARIABLE.search(name)
        and not value.startswith("/")
        and not value.isdecimal()
    ]

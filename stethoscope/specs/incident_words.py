"""Words of other people's lists of incidents: dates of many forms, severities, states, parts, Xids in a text."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from stethoscope.model.finding import Severity
from stethoscope.model.incident import COMPONENTS, Status
from stethoscope.specs.duration import spoken_s

if TYPE_CHECKING:
    from collections.abc import Iterable

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = rf"(?P<name>{'|'.join(_MONTHS)})[a-z]*\.?"
_WEEKDAY = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,?\s+)?"
_DATES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_WEEKDAY}(?P<year>\d{{4}})[-/.](?P<month>\d{{1,2}})[-/.](?P<day>\d{{1,2}})",
        r"(?P<year>\d{4})\s*年\s*(?P<month>\d{1,2})\s*月\s*(?P<day>\d{1,2})\s*[日号]",
        rf"{_WEEKDAY}(?P<day>\d{{1,2}})\.(?P<month>\d{{1,2}})\.(?P<year>\d{{4}})",
        rf"{_WEEKDAY}(?P<either>\d{{1,2}})[/-](?P<other>\d{{1,2}})[/-](?P<year>\d{{4}}|\d{{2}}(?!\d))",
        rf"{_WEEKDAY}(?P<day>\d{{1,2}})(?:st|nd|rd|th)?[ /-]{_MONTH},?[ /-](?P<year>\d{{4}}|\d{{2}}(?!\d))",
        rf"{_WEEKDAY}{_MONTH} (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<year>\d{{4}})",
        r"(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})(?=[T ]|$)",
    )
)
_OFFSETS = {
    "PST": -8, "PDT": -7, "MST": -7, "MDT": -6, "CDT": -5, "EST": -5, "EDT": -4, "CET": 1, "CEST": 2, "JST": 9,
    "KST": 9,
}  # fmt: skip
"""Hours of the short names of zones that mean one zone alone; CST and IST mean several."""
_TIME = re.compile(
    r"(?P<half_before>上午|下午|凌晨|晚上|中午)?\s*(?P<hour>\d{1,2})(?:[:：时点](?P<minute>\d{1,2})分?(?:[:：]?(?P<second>\d{2})秒?(?:[.,]\d+)?)?)?"
    r"\s*(?P<half>am|pm|a\.m\.|p\.m\.)?\s*"
    rf"(?P<zone>(?:UTC|GMT)?[+-]\d{{1,2}}(?::?\d{{2}})?|Z|UTC|GMT|{'|'.join(_OFFSETS)})?(?!\w|:\d)",
    re.IGNORECASE,
)
_STATED = re.compile(
    r"(?:\btime ?zone\b|\btimes\b)[^\n]{0,24}?\b((?:UTC|GMT)(?:[+-]\d{1,2}(?::?\d{2})?)?(?!\w)"
    rf"|(?:{'|'.join(_OFFSETS)})\b|[A-Z][a-z]+/[A-Z]\w+(?:/[A-Z]\w+)?)",
    re.IGNORECASE,
)
_EITHER = re.compile(r"(\d{1,2})[/-](\d{1,2})[/-](?:\d{4}|\d{2}(?!\d))")
_EPOCH = re.compile(r"\d{9,10}(?:\.\d+)?|\d{13}")
_NO_DATE = frozenset({"", "-", "n/a", "na", "none", "null", "unknown", "tbd", "无", "未知", "ongoing"})


def moment_in(text: str, zone: tzinfo = UTC, *, day_first: bool | None = None) -> float | None:
    """Return the wall seconds of a date, with or without a time behind it, in one of the forms that people use; what
    names no zone is of `zone`. None for an empty word. ValueError for what is no date, and for `3/4/2026` as long as
    `day_first` does not say what it means."""
    word = text.strip().strip("[]()`*").strip()
    if word.casefold() in _NO_DATE:
        return None
    if _EPOCH.fullmatch(word):
        return float(word) / (1000 if len(word) == 13 else 1)
    for pattern in _DATES:
        found = pattern.match(word)
        if found is None:
            continue
        year, month, day = _day_of(found, day_first)
        rest = word[found.end() :].lstrip(" T,t@")
        if rest.lower().startswith("at "):
            rest = rest[3:]
        time = _TIME.match(rest) if rest else None
        if rest and (time is None or rest[time.end() :].strip()):
            break
        try:
            return _moment(datetime(year, month, day), time, zone)
        except (ValueError, OverflowError):
            break
    raise ValueError(f'"{word[:60]}" is no date that is understood')


def moment_at_start(text: str, day: float | None, zone: tzinfo = UTC) -> tuple[float, str] | None:
    """Return the moment with which a line of a timeline begins, and the text behind it; a time without a date is of
    `day` (wall seconds). None for a line that begins with no time."""
    word = text.lstrip("[(*`| \t")
    for pattern in _DATES:
        found = pattern.match(word)
        if found is None:
            continue
        of_day = time_of_day(word[found.end() :].lstrip(" T,t@"))
        if of_day is None:
            return None
        try:
            year, month, date = _day_of(found, None)
            return _moment(datetime(year, month, date), of_day[0], zone), of_day[1]
        except (ValueError, OverflowError):
            return None
    of_day = time_of_day(word)
    if of_day is None or day is None:
        return None
    try:
        return on_day(day, of_day[0], zone), of_day[1]
    except (ValueError, OverflowError):
        return None


def time_of_day(text: str) -> tuple[re.Match[str], str] | None:
    """Return the time with which a text begins, `02:14` at the least, and the text behind it."""
    found = _TIME.match(text.lstrip("[(*` "))
    if found is None or found["minute"] is None:
        return None
    return found, text.lstrip("[(*` ")[found.end() :].lstrip("])*`:：-–—| \t")


def on_day(day: float, time: re.Match[str], zone: tzinfo = UTC) -> float:
    """Return the moment of a time of day on the day (of `zone`) in which the moment `day` is; ValueError for one that
    no day has."""
    return _moment(datetime.fromtimestamp(day, zone).replace(tzinfo=None), time, zone)


def _day_of(found: re.Match[str], day_first: bool | None) -> tuple[int, int, int]:
    named = found.groupdict()
    year = int(named["year"]) + (2000 if len(named["year"]) == 2 else 0)
    if named.get("name"):
        return year, _MONTHS.index(named["name"].lower()) + 1, int(named["day"])
    if not named.get("either"):
        return year, int(named["month"]), int(named["day"])
    either, other = int(named["either"]), int(named["other"])
    if either > 12 or other > 12 or either == other:
        return (year, other, either) if either > 12 else (year, either, other)
    if day_first is None:
        raise ValueError(f'"{found[0]}" may be two days: say --day-first or --month-first')
    return (year, other, either) if day_first else (year, either, other)


def _moment(day: datetime, time: re.Match[str] | None, zone: tzinfo) -> float:
    day = day.replace(hour=0, minute=0, second=0, microsecond=0)
    if time is None:
        return day.replace(tzinfo=zone).timestamp()
    hour, minute, second = int(time["hour"]), int(time["minute"] or 0), int(time["second"] or 0)
    half = (time["half"] or "").lower().replace(".", "")
    before = time["half_before"] or ""
    if (half == "pm" and hour < 12) or (before in ("下午", "晚上") and hour < 12):
        hour += 12
    elif half == "am" and hour == 12:
        hour = 0
    later = timedelta(0)
    if hour == 24 and minute == 0:
        hour, later = 0, timedelta(days=1)
    stated = _zone_of(time["zone"]) if time["zone"] else zone
    return (day.replace(hour=hour, minute=minute, second=second, tzinfo=stated) + later).timestamp()


def zone_in(text: str) -> tzinfo | None:
    """Return the zone that a text says its times are in (`all times are Europe/Berlin`, `北京时间`), or None."""
    if "北京时间" in text:
        return timezone(timedelta(hours=8))
    found = _STATED.search(text)
    if found is None:
        return None
    if "/" not in found[1]:
        return _zone_of(found[1])
    try:
        return ZoneInfo(found[1])
    except (ValueError, OSError, KeyError):
        return None


def is_day_first(texts: Iterable[str]) -> bool | None:
    """Tell what `3/4/2026` means in a table, by the dates of it that can be only one; None where none tells, or they
    contradict each other."""
    said = set()
    for text in texts:
        found = _EITHER.match(text.strip())
        if found is not None and (int(found[1]) > 12) != (int(found[2]) > 12):
            said.add(int(found[1]) > 12)
    return said.pop() if len(said) == 1 else None


def _zone_of(word: str) -> tzinfo:
    if word.upper() in _OFFSETS:
        return timezone(timedelta(hours=_OFFSETS[word.upper()]))
    word = word.upper().removeprefix("UTC").removeprefix("GMT")
    if word in ("", "Z"):
        return UTC
    sign, digits = word[0], word[1:].replace(":", "")
    hours, minutes = (int(digits[:-2]), int(digits[-2:])) if len(digits) > 2 else (int(digits), 0)
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if sign == "-" else offset)


# ---- words

_SEVERITIES = {
    Severity.P0: "p0|sev0|sev1|s0|s1|critical|highest|blocker|emergency|urgent|紧急|严重|致命|一级",
    Severity.P1: "p1|sev2|s2|high|major|高|重要|较高|二级",
    Severity.P2: "p2|p3|p4|sev3|sev4|sev5|s3|s4|medium|minor|low|lowest|moderate|trivial|中|低|一般|三级",
    Severity.INFO: "info|informational|提示",
    Severity.NONE: "none",
}
_STATES = {
    Status.RESOLVED: "resolved|closed|done|fixed|complete|completed|已解决|已恢复|已关闭|完成|关闭",
    Status.MITIGATED: "mitigated|monitoring|workaround|watching|已缓解|缓解|观察中",
    Status.OPEN: (
        "open|new|to do|unresolved|ongoing|active|in progress|investigating|assigned|triggered|acknowledged|firing|"
        "处理中|未解决|进行中|打开"
    ),
    Status.REFERENCE: "reference",
}
_PARTS = {
    "hca": "nic", "adapter": "nic", "network card": "nic", "网卡": "nic", "transceiver": "optic", "optics": "optic",
    "光模块": "optic", "线缆": "cable", "交换机": "switch", "nvswitch": "nvlink", "hbm": "gpu_memory",
    "gpu memory": "gpu_memory", "显存": "gpu_memory", "显卡": "gpu", "ib": "fabric", "infiniband": "fabric",
    "roce": "fabric", "pci": "pcie", "pci-e": "pcie", "riser": "pcie", "ssd": "disk", "nvme": "disk", "硬盘": "disk",
    "lustre": "storage", "gpfs": "storage", "filesystem": "storage", "存储": "storage", "psu": "power", "电源": "power",
    "fan": "cooling", "thermal": "cooling", "散热": "cooling", "dimm": "memory", "ram": "memory", "内存": "memory",
    "host": "node", "server": "node", "节点": "node", "驱动": "driver", "固件": "firmware", "软件": "software",
    "slurm": "scheduler", "kubernetes": "scheduler", "网络": "network", "数据": "data",
}  # fmt: skip
_PARTED = re.compile(r"\s+[-–—]\s+|[:：(（)）,，;/]")
"""Between the words of `1 - Critical` and `Resolved (by hand)`."""
_XID = re.compile(r"\bxid\b[ :#=]*(?:\(pci:[^)]{0,40}\)[ :]*)?(\d{1,3})\b", re.IGNORECASE)
_SXID = re.compile(r"\bsxid\b[ :#=]*(?:\(pci:[^)]{0,40}\)[ :]*)?(\d{5})\b", re.IGNORECASE)


def severity_of(text: str) -> Severity | None:
    """Return the severity that a text stands for (`SEV-1`, `1 - Critical`, `P1: many nodes`, `严重`), or None."""
    for part in (text, *_PARTED.split(text)):
        for severity, words in _SEVERITIES.items():
            if part and _bare(part) in words.split("|"):
                return severity
    return None


def status_of(text: str) -> Status | None:
    """Return the state that a text stands for (`Closed`, `Complete, action items in progress`, `已解决`), or None."""
    for part in (text, *_PARTED.split(text)):
        for status, words in _STATES.items():
            if part and _spaced(part) in words.split("|"):
                return status
    return None


def component_of(text: str) -> str:
    """Return the word of COMPONENTS that a word stands for, or nothing."""
    word = _spaced(text)
    under = word.replace(" ", "_").replace("-", "_")
    return under if under in COMPONENTS else _PARTS.get(word, "")


def root_cause_of(text: str, known: Iterable[str]) -> str:
    """Return the id of a root cause that a text is or begins with, as people write it (`IB link fault: an optic`), or
    nothing."""
    ids = set(known)
    for part in (text, re.split(r"[:：(（\n]", text, maxsplit=1)[0]):
        under = re.sub(r"[^a-z0-9]+", "_", part.casefold()).strip("_")
        if under in ids:
            return under
    return ""


def xids_in(text: str) -> tuple[str, ...]:
    """Return the signatures of Xids and SXids that a text names, in its order."""
    found = [(match.start(), f"xid.{int(match[1])}") for match in _XID.finditer(text)]
    found += [(match.start(), f"sxid.{match[1]}") for match in _SXID.finditer(text)]
    return tuple(dict.fromkeys(name for _, name in sorted(found)))


def span_of(text: str) -> float | None:
    """Return the seconds of `45 min`, `1h30m`, `01:30:00` or `90` with a unit; None for what is none of these."""
    word = text.strip()
    clock = re.fullmatch(r"(\d{1,3}):(\d{2})(?::(\d{2}))?", word)
    if clock is not None:
        return int(clock[1]) * 3600.0 + int(clock[2]) * 60 + int(clock[3] or 0)
    word = word.replace("小时", "h").replace("分钟", "m").replace("秒", "s").replace("天", "d")
    if not word or word.replace(".", "").isdecimal():
        # Nobody says whether a bare number is of minutes or of hours.
        return None
    try:
        return spoken_s(word)
    except ValueError:
        return None


def _bare(text: str) -> str:
    return re.sub(r"[\s_-]+", "", text.strip().casefold())


def _spaced(text: str) -> str:
    return re.sub(r"\s+", " ", text.strip().casefold())

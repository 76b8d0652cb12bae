"""Times as logs print them -> wall seconds: with or without year, zone and fraction.

What a stamp does not say comes from a `Calendar`: the zone that the reader was told, and the year of what is nearest
to it in the file, or of the file's last change.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone, tzinfo

_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAY_S = 86_400.0
_AHEAD_S = 1.5 * _DAY_S
"""How far after the file's last change a stamp without a year may be: zones and clocks that are wrong."""
_HALF_YEAR_S = 183 * _DAY_S
_SURELY_S = 182 * _DAY_S
_KEPT = 8192
_KEPT_SECONDS = 256
_ENGLISH = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTHS = {name: number for number, name in enumerate(_ENGLISH, 1)}
"""First three letters of the English names; other languages are not guessed."""


def fraction(digits: str | None) -> float:
    """Return the digits after the point as a part of a second."""
    return float("0." + digits) if digits else 0.0


def month_number(name: str) -> int | None:
    """Return 1..12 for `Mar` or `March`, None for a name of another language."""
    return MONTHS.get(name[:3].lower()) if name.isascii() else None


def zone_offset_s(text: str) -> float | None:
    """Return seconds east of UTC for `Z`, `UTC`, `+00:00`, `-0700`; None for what names no offset."""
    if text in ("Z", "z", "UTC", "GMT"):
        return 0.0
    if text[:1] not in "+-" or not text:
        return None
    digits = text[1:].replace(":", "")
    if len(digits) != 4 or not digits.isdecimal():
        return None
    seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60
    return float(-seconds if text[0] == "-" else seconds)


class Calendar:
    """What a file's stamps leave out, and the days that were looked up already."""

    def __init__(self, *, zone: tzinfo = UTC, newest: float) -> None:
        """Stamps without a zone are of `zone`; none is much later than `newest` (wall seconds)."""
        self._zone = zone
        self._fixed_s = _fixed_offset(zone)
        self._newest = newest
        self._near: float | None = None
        self._seconds: dict[tuple[str, str | None], float] = {}
        """Full stamps without their fractions that were read lately, and their zones, to wall seconds."""
        self._days: dict[tuple[int, int, int], float | None] = {}
        self._yearless: dict[tuple[int, int, str], float | None] = {}

    def at(self, year: int, month: int, day: int, clock: str, part: str | None, zone: str | None) -> float | None:
        """Return the wall seconds of a full stamp, `clock` as `02:07:11`; None for a day or time that does not exist.

        An unknown zone counts as none.
        """
        seconds = _clock_s(clock)
        start = self._day(year, month, day)
        if seconds is None or start is None:
            return None
        offset = zone_offset_s(zone) if zone else None
        wall = start + seconds
        wall -= self._local_s(wall) if offset is None else offset
        self._near = wall
        return wall + fraction(part)

    def second(self, stamp: str, zone: str | None) -> float | None:
        """Return the wall seconds of `2026-03-14T02:07:11`; lines of one second follow each other."""
        key = (stamp, zone)
        known = self._seconds.get(key)
        if known is not None:
            return known
        wall = self.at(
            int(stamp[:4]), int(stamp[5:7]), int(stamp[8:10]), stamp[11:19], None, zone.strip() if zone else None
        )
        if wall is not None:
            if len(self._seconds) > _KEPT_SECONDS:
                self._seconds.clear()
            self._seconds[key] = wall
        return wall

    def at_without_year(
        self, month: int, day: int, clock: str, part: str | None, near: float | None = None
    ) -> float | None:
        """Return the wall seconds of a stamp without a year: of the year nearest to `near`, else to the last full stamp
        of the file, else the latest one that is not after the file's last change."""
        reference = self._near if near is None else near
        if reference is None:
            key = (month, day, clock)
            if key not in self._yearless:
                if len(self._yearless) > _KEPT:
                    self._yearless.clear()
                self._yearless[key] = self._latest(month, day, clock)
            wall = self._yearless[key]
        else:
            wall = self._nearest(month, day, clock, reference)
        return None if wall is None else wall + fraction(part)

    def near(self, wall: float, reference: float | None = None) -> bool:
        """Tell whether a stamp without a year that was `wall` once is so still, beside `reference`, else the last full
        stamp of the file: what is nearer than half a year is nearest."""
        reference = self._near if reference is None else reference
        return reference is None or -_SURELY_S < wall - reference < _SURELY_S

    def _latest(self, month: int, day: int, clock: str) -> float | None:
        year = datetime.fromtimestamp(self._newest, UTC).year
        # 29 February may lie eight years back.
        for candidate in range(year + 1, year - 9, -1):
            wall = self._wall(candidate, month, day, clock)
            if wall is not None and wall <= self._newest + _AHEAD_S:
                return wall
        return None

    def _nearest(self, month: int, day: int, clock: str, reference: float) -> float | None:
        year = datetime.fromtimestamp(reference, UTC).year
        wall = self._wall(year, month, day, clock)
        if wall is not None and abs(wall - reference) <= _HALF_YEAR_S:
            return wall
        found = [w for y in (year - 1, year, year + 1) if (w := self._wall(y, month, day, clock)) is not None]
        return min(found, key=lambda w: abs(w - reference), default=None)

    def _wall(self, year: int, month: int, day: int, clock: str) -> float | None:
        seconds, start = _clock_s(clock), self._day(year, month, day)
        if seconds is None or start is None:
            return None
        wall = start + seconds
        return wall - self._local_s(wall)

    def _day(self, year: int, month: int, day: int) -> float | None:
        key = (year, month, day)
        if key not in self._days:
            if len(self._days) > _KEPT:
                self._days.clear()
            try:
                # Years that no log is of would overflow what turns seconds into text again.
                start = (date(year, month, day).toordinal() - _EPOCH_DAY) * _DAY_S if 1971 <= year < 2200 else None
            except ValueError:
                start = None
            self._days[key] = start
        return self._days[key]

    def _local_s(self, wall: float) -> float:
        if self._fixed_s is not None:
            return self._fixed_s
        local = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=wall)).replace(tzinfo=self._zone)
        offset = local.utcoffset()
        return offset.total_seconds() if offset is not None else 0.0


def _fixed_offset(zone: tzinfo) -> float | None:
    if isinstance(zone, timezone):
        return zone.utcoffset(None).total_seconds()
    return None


def _clock_s(clock: str) -> float | None:
    """Return the seconds of the day of `02:07:11` or `02:07`; 23:59:60 is a leap second."""
    try:
        hour, minute, second = int(clock[:2]), int(clock[3:5]), int(clock[6:8] or 0)
    except ValueError:
        return None
    return hour * 3600.0 + minute * 60 + second if hour < 24 and minute < 60 and second < 61 else None

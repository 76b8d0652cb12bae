"""How far the values of the chosen metric are from what they are compared with: the median of comparable devices, or
what they were at the mark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stethoscope.analysis.since_mark import SinceMark
from stethoscope.clock import hms
from stethoscope.model.metric import REASON_WORDS, Kind, Reason, Scope
from stethoscope.ui.present.comparable import Comparable
from stethoscope.ui.present.heat import round_up
from stethoscope.ui.present.numbers import cell_text, common_unit, number, rate, total_text
from stethoscope.ui.present.peers import MOST, Held
from stethoscope.ui.present.spans import HEAT_LEVELS, Row, Span, Tone
from stethoscope.ui.present.summary import values_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from stethoscope.model.fleet import Codes, Floats
    from stethoscope.model.mark import Mark
    from stethoscope.model.metric import Metric
    from stethoscope.ui.present.assess import Assessment
    from stethoscope.ui.present.heat import HeatScale
    from stethoscope.ui.present.spans import Glyphs

    Flags = npt.NDArray[np.bool_]

_RELATIVE = ("MHz", "W")
"""Units whose values are never near 0 and mean more as a share of what is usual."""
_SCATTERS = 5.0
"""So many times the median distance from the median is still usual; ..."""
_LEAST = 0.05
"""... and so is this share of the scale, or of the median."""
_MOST_PERCENT = 999.0
_DATA = ("words", "KiB", "bytes")
"""Units of counters that count data."""
NO_MARK = "no mark is set: M sets one"


class Deviation:
    """The distance of every row from what it is compared with, from one snapshot to the next."""

    def __init__(self) -> None:
        """Start without a snapshot."""
        self.mode = "peers"
        """`peers` or `mark`."""
        self.mark: Mark | None = None
        self.values: Floats = np.empty(0)
        """In the unit that is shown, percent, or counts; 1 for a word that differs, 0 for one that does not; NaN where
        there is nothing to compare."""
        self.reasons: Codes = np.empty(0, dtype=np.uint8)
        """Why there is no distance, PRESENT where there is one."""
        self.tones: Codes = np.empty(0, dtype=np.uint8)
        """NORMAL within the usual scatter; beyond it the second hue, or the first where that is not the bad side."""
        self.top = 1.0
        """End of the scale on both sides of 0."""
        self.unit = ""
        self._words: Floats = np.empty(0)
        """Codes of a metric of words."""
        self._metric: Metric | None = None
        self._divisor = 1.0
        self._centre = 0.0
        """Where the usual lies: 0, or for counters what is usually counted."""
        self._far: Floats = np.empty(0)
        self._comparable = Comparable()
        self._since: SinceMark | None = None
        self._odd = Held()

    @property
    def beyond(self) -> Flags:
        """Return by row whether it is beyond the usual scatter."""
        beyond: Flags = self.tones != Tone.NORMAL
        return beyond

    @property
    def odd(self) -> Flags:
        """Return by node whether it is one of few with something beyond the usual scatter."""
        odd = self._odd.held
        return odd if np.count_nonzero(odd) <= MOST * odd.size else np.zeros_like(odd)

    @property
    def heats(self) -> npt.NDArray[np.int8]:
        """Return by row the distance as one of HEAT_LEVELS magnitudes."""
        share = np.nan_to_num(np.abs(self.values)) / self.top * HEAT_LEVELS
        return np.minimum(share, HEAT_LEVELS - 1).astype(np.int8)

    @property
    def distances(self) -> Floats:
        """Return by row how far it is from what is usual, whatever the direction; NaN where there is nothing."""
        return np.abs(self.values - self._centre)

    @property
    def counts(self) -> bool:
        """Tell whether what is shown was counted since the mark, and so is never below 0."""
        return self.mode == "mark" and self._metric is not None and self._metric.kind is Kind.COUNTER

    def update(self, assessment: Assessment, metric: Metric, mode: str, mark: Mark | None, scale: HeatScale) -> None:
        """Take a snapshot and compare its values of `metric`; `scale` is that of the values themselves."""
        if (metric, mode, mark) != (self._metric, self.mode, self.mark):
            self.top, self._odd = 0.0, Held()
        self._metric, self.mode, self.mark = metric, mode, mark
        self._words = values_of(assessment, metric) if metric.words else np.empty(0)
        least = _LEAST * (scale.high - scale.low)
        if mode == "peers":
            self._from_peers(assessment, metric, least)
        else:
            self._from_mark(assessment, metric, least)
        self._settle(metric, assessment)

    def _from_peers(self, assessment: Assessment, metric: Metric, least: float) -> None:
        table = assessment.snapshot.tables[metric.scope]
        self.reasons = table.reasons[table.index[metric.id]].copy()
        scaled = metric.rate_scale if metric.kind is Kind.COUNTER else 1.0
        values = values_of(assessment, metric) * scaled
        compared = self._comparable.of(assessment, metric.scope)
        usual = compared.usual(values)
        self.reasons[np.isnan(usual) & (self.reasons == Reason.PRESENT)] = Reason.WAITING
        away = values - usual
        self._centre = 0.0
        if metric.words:
            self.values, self._far = _differs(away), np.full(away.size, 0.5)
            return
        if metric.unit in _RELATIVE:
            with np.errstate(divide="ignore", invalid="ignore"):
                away = np.where(away == 0, 0.0, np.clip(100.0 * away / usual, -_MOST_PERCENT, _MOST_PERCENT))
            least = 100.0 * _LEAST
        scatter = np.nan_to_num(compared.usual(np.abs(away)))
        self.values, self._far = away, np.maximum(_SCATTERS * scatter, least)

    def _from_mark(self, assessment: Assessment, metric: Metric, least: float) -> None:
        if self.mark is None:
            size = assessment.snapshot.tables[metric.scope].values.shape[1]
            self.values, self.reasons = np.full(size, np.nan), np.full(size, Reason.WAITING, dtype=np.uint8)
            self._far = np.zeros(size)
            return
        if self._since is None or self._since.mark is not self.mark:
            self._since = SinceMark(self.mark)
        self.values, self.reasons = self._since.changes(assessment.snapshot, metric)
        known = self.values[~np.isnan(self.values)]
        middle = float(np.median(known)) if known.size else 0.0
        scatter = float(np.median(np.abs(known - middle))) if known.size else 0.0
        self._centre = 0.0
        if metric.words:
            self.values, scatter, least = _differs(self.values), 0.0, 0.5
        elif metric.kind is Kind.COUNTER:
            self._centre = middle
            least = _LEAST * float(known.max(initial=0.0)) if metric.unit in _DATA else 0.5
        self._far = np.full(self.values.size, max(_SCATTERS * scatter, least))

    def _settle(self, metric: Metric, assessment: Assessment) -> None:
        """Choose the scale and the tones, and see who is unlike the others."""
        away = np.nan_to_num(self.values - self._centre)
        beyond = np.abs(away) > self._far
        top = float(np.abs(np.nan_to_num(self.values)).max(initial=0.0))
        top = max(top, 2.0 * float(self._far.min(initial=np.inf))) if self._far.size else top
        if self._is_relative:
            top = min(top, 100.0)
        if self.top <= 0 or top > self.top or top < 0.4 * self.top:
            self.top = round_up(top)
        self._divisor, self.unit = self._unit(metric)
        bad = away < 0 if metric.worse == "low" else away > 0 if metric.worse == "high" else beyond
        strong = np.abs(away) > 0.5 * self.top
        self.tones = np.where(
            beyond,
            np.where(
                bad,
                np.where(strong, np.uint8(Tone.WARNING), np.uint8(Tone.PLANNED)),
                np.where(strong, np.uint8(Tone.HEAT_7), np.uint8(Tone.HEAT_4)),
            ),
            np.uint8(Tone.NORMAL),
        ).astype(np.uint8)
        odd = np.zeros(len(assessment.snapshot.nodes), dtype=np.bool_)
        rows = np.flatnonzero(np.abs(away) > 2 * self._far)
        owners = rows if metric.scope is Scope.NODE else assessment.owners[metric.scope][0][rows]
        odd[owners[owners >= 0]] = True
        self._odd.update(odd, assessment.now_mono)

    @property
    def _is_relative(self) -> bool:
        return self.mode == "peers" and self._metric is not None and self._metric.unit in _RELATIVE

    def _unit(self, metric: Metric) -> tuple[float, str]:
        if metric.words:
            return 1.0, ""
        if self._is_relative:
            return 1.0, "%"
        if self.counts:
            return 1.0, "" if metric.unit in _DATA else metric.unit
        divisor, unit = common_unit(metric, self.top)
        return divisor, "% points" if unit == "%" else unit

    # ---- as it is drawn

    def text(self, row: int) -> str:
        """Return what stands in the cell of a row that has a distance."""
        value = float(self.values[row])
        if self._words.size and value:
            assert self._metric is not None
            return cell_text(self._metric, float(self._words[row]))
        return self.text_of(value)

    def text_of(self, value: float) -> str:
        """Return a distance as it stands in a cell, without its unit: `−29`, `+9`, `0`."""
        metric = self._metric
        assert metric is not None
        if metric.words:
            return "differs" if value else "same"
        if self.counts:
            return f"+{total_text(metric, round(value))}" if value else "0"
        scaled = value / self._divisor
        size = abs(scaled)
        said = f"{size:.0f}" if self._is_relative else rate(size) if self.top / self._divisor >= 1 else number(size)
        if size < 0.01 * self.top / self._divisor or said == "0":
            return "0"
        return f"{'−' if scaled < 0 else '+'}{said}"

    def sentence(self, row: int) -> str:
        """Return the distance of a row as words: `−29 % from peers`, `+41 errors since the mark`, or why there is none;
        empty where the value itself is missing."""
        if np.isnan(self.values[row]):
            if self.reasons[row] != Reason.WAITING:
                return REASON_WORDS[Reason.RESET] if self.reasons[row] == Reason.RESET else ""
            if self.mode == "mark":
                return NO_MARK if self.mark is None else "not known at the mark"
            return "too few peers"
        what = "from peers" if self.mode == "peers" else "since the mark"
        if self._metric is not None and self._metric.words:
            than = "most peers" if self.mode == "peers" else "at the mark"
            return f"{'another' if self.values[row] else 'the same'} {'than' if self.values[row] else 'as'} {than}"
        text = self.text_of(float(self.values[row]))
        return f"{text}{f' {self.unit}' if self.unit else ''} {what}"

    def sign(self, value: float, tone: int, glyphs: Glyphs) -> str:
        """Return the one character of a distance drawn in `tone`."""
        if tone == Tone.NORMAL:
            return glyphs.level(0)
        if self._metric is not None and self._metric.words:
            return "x"
        return glyphs.down if value < self._centre else glyphs.up

    def tone_of(self, value: float) -> int:
        """Return the tone of a value that stands for several: that of the row which is nearest to it."""
        known = np.flatnonzero(~np.isnan(self.values))
        return int(self.tones[known[np.abs(self.values[known] - value).argmin()]]) if known.size else int(Tone.NORMAL)

    @property
    def digits(self) -> int:
        """Return the cells of the longest text."""
        assert self._metric is not None
        if self._metric.words:
            return 7
        ends = (np.nanmin(self.values), np.nanmax(self.values)) if not np.isnan(self.values).all() else (0.0,)
        longest = max(len(self.text_of(float(end))) for end in ends)
        return max(longest, 6 if self.top / self._divisor < 1 else 4)

    def title(self) -> Row:
        """Return what is shown: `SM clock, deviation from peers`."""
        assert self._metric is not None
        name = Span(self._metric.title, Tone.STRONG)
        if self.mode == "peers":
            return (name, Span(", deviation from peers", Tone.QUIET))
        if self.mark is None:
            return (name, Span(f"  {NO_MARK}", Tone.PLAIN))
        return (
            name,
            Span(f", {'counted' if self.counts else 'change'} since the mark {hms(self.mark.wall)}", Tone.QUIET),
        )

    def scale(self, glyphs: Glyphs) -> Row:
        """Return the scale with its ends and the signs between them; empty where there is none."""
        assert self._metric is not None
        if self._metric.words or (self.mode == "mark" and self.mark is None):
            return ()
        unit = f" {self.unit}" if self.unit else ""
        worse, better = (Tone.WARNING, Tone.PLANNED), (Tone.HEAT_7, Tone.HEAT_4)
        low = better if self._metric.worse == "high" else worse
        high = better if self._metric.worse == "low" else worse
        dot = Span(self.sign(0.0, Tone.NORMAL, glyphs), Tone.NORMAL)
        up = (Span(glyphs.up, high[1]), Span(glyphs.up, high[0]), Span(f" {self.text_of(self.top)}{unit}", Tone.QUIET))
        if self.counts:
            return (Span("   0 ", Tone.QUIET), dot, *up)
        down = (
            Span(f"   {self.text_of(-self.top)}{unit if self.unit == '%' else ''} ", Tone.QUIET),
            Span(glyphs.down, low[0]),
            Span(glyphs.down, low[1]),
        )
        return (*down, dot, *up)

    def state(self, rows: range) -> tuple[object, ...]:
        """Return all that the cells of `rows` depend on."""
        part = slice(rows.start, rows.stop)
        return self.mode, self.mark, self.top, self.values[part].tobytes(), self.tones[part].tobytes()


def _differs(away: Floats) -> Floats:
    return np.where(np.isnan(away), np.nan, (away != 0).astype(np.float64))

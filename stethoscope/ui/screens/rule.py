"""What a rule looks for, and where it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from stethoscope.ui.bindings import bindings_of
from stethoscope.ui.present.finding_rule import rule_rows
from stethoscope.ui.present.spans import Row, Span, Tone
from stethoscope.ui.screens.pages import RowsScreen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.binding import BindingType

    from stethoscope.specs.rule import Rule
    from stethoscope.ui.app import StethoscopeApp


class RuleScreen(RowsScreen):
    """The explanation of a rule."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of("rule", moves=True)
    part = "rule"

    def __init__(self, console: StethoscopeApp, rule: Rule) -> None:
        """Explain `rule`."""
        super().__init__(console)
        self._rule = rule

    def title_row(self, cells: int) -> Row:
        """Return which rule it is."""
        return (Span(f" Rule  {self._rule.id}"[:cells], Tone.TITLE),)

    def rows(self, cells: int) -> Sequence[Row]:
        """Return the explanation."""
        session = self._owner.session
        return rule_rows(self._rule, session.snapshot().catalogue if session is not None else {}, cells)

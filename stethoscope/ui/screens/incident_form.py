"""The form of an incident: everything known is filled in, and the cursor waits where a person is needed."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding
from textual.containers import Horizontal
from textual.screen import Screen
from textual.suggester import SuggestFromList
from textual.widgets import Input, TextArea

from stethoscope.clock import hms
from stethoscope.errors import DataError
from stethoscope.model.incident import COMPONENTS
from stethoscope.store.drafts import writer
from stethoscope.ui.bindings import bindings_of
from stethoscope.ui.keys import footer_of
from stethoscope.ui.present.frame import footer, rule
from stethoscope.ui.present.incident_form import (
    BODY,
    FIELDS,
    FIXED,
    PAIRS,
    SEVERITIES,
    STATUSES,
    FormSays,
    read_form,
    seen_text,
    texts_of,
)
from stethoscope.ui.present.incident_text import took_words
from stethoscope.ui.present.spans import Row, Span, Tone, cut, fit, spread
from stethoscope.ui.widgets.page_field import PageField
from stethoscope.ui.widgets.rows import Lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.timer import Timer

    from stethoscope.model.incident import Incident
    from stethoscope.specs.root_cause import RootCause
    from stethoscope.store.incidents import ConflictError, Version
    from stethoscope.ui.app import StethoscopeApp
    from stethoscope.ui.screens.incident_conflict import ToWrite

KEEP_S = 0.4
"""So long after a key at the latest what is typed is kept."""
_LABEL = 11


class FormScreen(Screen[None]):
    """A draft that is kept as it is typed, and recorded with one key."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_of("form"),
        Binding("escape", "leave", show=False, priority=True),
    ]
    AUTO_FOCUS = f"#{FIXED}"
    part = "form"

    def __init__(
        self,
        console: StethoscopeApp,
        incident: Incident,
        key: str,
        *,
        told: str = "",
        version: Version | None = None,
        base: Incident | None = None,
        is_kept: bool = False,
    ) -> None:
        """Show `incident`, kept under `key`; of one that is recorded, `version` is what its file said and `base` what
        that was, where it is known. With `is_kept` a draft of it lies on the disk."""
        super().__init__()
        self._owner = console
        self._shown = incident
        self._key = key
        self._told = told
        self._version = version
        self._base = base
        self._is_kept = is_kept
        self._kept_at: float | None = None
        self._keeping: Timer | None = None
        self._order = threading.Lock()
        self._newest = 0
        self._saving: asyncio.Task[None] | None = None
        self._done = False
        self._texts = texts_of(incident)
        self._causes: dict[str, RootCause] = {}

    def compose(self) -> ComposeResult:
        """Lay out the fields, the text, and what the field under the cursor wants."""
        yield Lines(id="top")
        yield Lines(id="rule-top")
        with Horizontal(classes="fields"):
            yield from self._input("title")
        with Horizontal(id="fixed-row"):
            yield Lines(id=f"label-{FIXED}")
            yield PageField(self._texts[FIXED], id=FIXED, enter_saves=True)
        for names in PAIRS:
            with Horizontal(classes="fields"):
                for name in names:
                    yield from self._input(name)
        yield Lines(id="seen", rows=())
        yield Lines(id="rule-text")
        yield PageField(self._texts[BODY], id=BODY)
        yield Lines(id="rule-bottom")
        yield Lines(id="hint")
        yield Lines(id="keys")

    def _input(self, name: str) -> ComposeResult:
        words = {"status": STATUSES, "severity": SEVERITIES, "component": COMPONENTS}.get(name)
        yield Lines(id=f"label-{name}")
        yield Input(
            self._texts[name],
            id=name,
            select_on_focus=False,
            suggester=SuggestFromList(words, case_sensitive=False) if words is not None else None,
        )

    def on_mount(self) -> None:
        """Draw, and let the cause be completed once its names are known."""
        for label in FIELDS:
            if label != BODY:
                self.query_one(f"#label-{label}", Lines).styles.width = _LABEL
        self._draw()

        def know(causes: dict[str, RootCause]) -> None:
            self._causes = causes
            if self.query(f"#{FIXED}"):
                self.query_one("#root_cause", Input).suggester = SuggestFromList(sorted(causes), case_sensitive=False)
                self._draw()

        def load() -> dict[str, RootCause]:
            from stethoscope.specs.root_cause import load_root_causes

            return load_root_causes()

        self._owner.beside(load, know)

    def on_resize(self, event: events.Resize) -> None:
        """Fit the new size."""
        self._draw()

    # ---- what is typed

    def on_input_changed(self, event: Input.Changed) -> None:
        """Keep what is typed."""
        self._typed(str(event.input.id), event.value)

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Keep what is typed."""
        self._typed(str(event.text_area.id), event.text_area.text)

    def _typed(self, name: str, text: str) -> None:
        if self._texts.get(name) == text:
            return
        self._texts[name] = text
        self._draw()
        if self._keeping is None:
            self._keeping = self.set_timer(KEEP_S, self._keep)

    def on_input_submitted(self) -> None:
        """Enter in any line records it."""
        self.action_save()

    def on_page_field_entered(self) -> None:
        """Enter in the field for what fixed it records it."""
        self.action_save()

    def on_descendant_focus(self) -> None:
        """Say what the field wants."""
        self._draw()

    def says(self, *, draft: bool = False) -> FormSays:
        """Return what the form says at this moment; a `draft` keeps the status that is written in it."""
        before = self._texts[FIXED] if draft else None if self._version is not None else ""
        # Before the names of causes are there, none is wrong.
        causes = list(self._causes) or [self._texts["root_cause"].strip()]
        return read_form(self._texts, self._shown, self._owner.clock.wall(), causes, fixed_before=before)

    # ---- keeping

    def _storing(self, *, is_left: bool = False) -> Callable[[], None]:
        """Return what keeps the draft as it is now; of several under way the last one stays. One that `is_left` is no
        longer this console's alone."""
        self._newest += 1
        incident, key, version, number = self.says(draft=True).incident, self._key, self._version, self._newest
        library, by = self._owner.library, "" if is_left else writer()

        def store() -> None:
            with self._order:
                if number == self._newest:
                    library.save_draft(key, incident, version, writer=by)

        return store

    def _keep(self) -> None:
        """Keep the draft, in a thread."""
        self._keeping = None
        if self._done:
            return
        library, key, now = self._owner.library, self._key, self._owner.clock.wall()

        def kept(_: None) -> None:
            self._is_kept, self._kept_at = True, now
            if self._done:
                self._owner.beside(lambda: library.drop_draft(key), lambda _: None)
            elif self.query("#top"):
                self._draw()

        self._owner.beside(self._storing(), kept, failed="the draft is not kept")

    def on_unmount(self) -> None:
        """Keep what was typed last: the connection may be lost."""
        if self._keeping is not None and not self._done:
            self._keeping = None
            try:
                self._storing(is_left=True)()
            except DataError as error:
                self._owner.tell(f"the draft is not kept: {error}", seconds=12)

    # ---- what the keys do

    def action_save(self) -> None:
        """Record it, as open where nobody says what fixed it."""
        if self._done or (self._saving is not None and not self._saving.done()):
            return
        said = self.says()
        if said.problems:
            name, why = said.problems[0]
            self.query_one(f"#{name}").focus()
            self._owner.tell(why, seconds=8)
            return
        one, now = said.incident, self._owner.clock.wall()
        if self._version is None:
            one = replace(one, times=replace(one.times, recorded=now))
        if not one.title:
            self.query_one("#title").focus()
            self._owner.tell("a title is missing: one line, what was wrong and where")
            return
        self._saving = asyncio.create_task(self._save(one))

    async def _save(self, one: Incident) -> None:
        from stethoscope.store.incidents import ConflictError

        library, version = self._owner.library, self._version
        try:
            if version is None:
                saved = await asyncio.to_thread(library.create, one)
            else:
                await asyncio.to_thread(library.save, one, version)
                saved = await asyncio.to_thread(library.get, one.id)
        except ConflictError as error:
            self._ask(one, error)
        except DataError as error:
            self._owner.tell(f"not saved, the draft is kept: {error}", seconds=12)
        else:
            await self._end()
            taken = saved.redacted - one.redacted
            secrets = f"; {taken} secret{'s were' if taken > 1 else ' was'} taken out" if taken > 0 else ""
            self._owner.note_recorded(self._key, saved.id)
            what = "recorded" if version is None else "saved"
            self._owner.tell(f"{what} as {saved.status.value}: {saved.id}{secrets}", seconds=6)

    def _stop_keeping(self) -> None:
        if self._keeping is not None:
            self._keeping.stop()
            self._keeping = None

    async def _end(self) -> None:
        """Go back; no draft is needed any more."""
        self._done = True
        self._stop_keeping()
        await asyncio.to_thread(self._owner.library.drop_draft, self._key)
        if self.is_current:
            self._owner.pop_screen()
            self._owner.call_after_refresh(self._owner.pull)

    def _ask(self, mine: Incident, conflict: ConflictError) -> None:
        """Show what somebody else wrote meanwhile beside what stands here."""
        from stethoscope.ui.screens.incident_conflict import ConflictScreen

        def take(chosen: ToWrite) -> None:
            self._version = chosen.over
            self._saving = asyncio.create_task(self._save(chosen.incident))

        self._owner.push_screen(ConflictScreen(self._owner, mine, conflict.theirs, self._base, take))

    async def action_edit_outside(self) -> None:
        """Open all of it in the editor of the user."""
        from stethoscope.ui.editing import edited

        one = await edited(self._owner, self.says(draft=True).incident)
        if one is not None and self.query("#title"):
            self._take(one)

    def _take(self, one: Incident) -> None:
        """Put what was written elsewhere into the fields."""
        self._shown = one
        for name, text in texts_of(one).items():
            field = self.query_one(f"#{name}")
            if isinstance(field, Input):
                field.value = text
            elif isinstance(field, TextArea):
                field.text = text
            self._texts[name] = text
        self._keep()
        self._draw()

    def action_leave(self) -> None:
        """Go back; what was typed is kept."""
        if self._keeping is not None or self._is_kept:
            self._stop_keeping()
            self._owner.beside(self._storing(is_left=True), lambda _: None, failed="the draft is not kept")
            self._owner.tell("kept as a draft: I opens it again", seconds=6)
        self._owner.pop_screen()
        self._owner.call_after_refresh(self._owner.pull)

    # ---- how it looks

    def _draw(self) -> None:
        if not self.query("#keys"):
            return
        cells, glyphs, said = self.size.width or 80, self._owner.glyphs, self.says()
        focused = self.focused.id if self.focused is not None else ""
        wrong = {name for name, _ in said.problems}
        self.query_one("#top", Lines).show([self._title(cells)])
        self.query_one("#rule-top", Lines).show([rule(cells, glyphs)])
        for name, field in FIELDS.items():
            if name != BODY:
                tone = Tone.WARNING if name in wrong else Tone.KEY if name == focused else Tone.QUIET
                label = Span(f"{'>' if name == focused else ' '}{field.label}", tone)
                self.query_one(f"#label-{name}", Lines).show([(label,)])
        seen = seen_text(said.incident)
        self.query_one("#seen", Lines).show(
            [(Span(f" {'':<{_LABEL - 1}}{cut(seen, cells - _LABEL - 1, glyphs.ellipsis)}", Tone.QUIET),)]
            if seen
            else []
        )
        took = took_words(said.incident)
        words = f" {glyphs.dot} ".join([f"saves as {said.incident.status.value}", *took])
        self.query_one("#rule-text", Lines).show([rule(cells, glyphs, cut(words, cells - 6, glyphs.ellipsis))])
        self.query_one("#rule-bottom", Lines).show([rule(cells, glyphs)])
        self.query_one("#hint", Lines).show([fit((self._hint(said, focused),), cells, glyphs.ellipsis)])
        self.query_one("#keys", Lines).show([footer(footer_of(self.part), cells)])

    def _title(self, cells: int) -> Row:
        what = self._shown.id if self._version is not None else "Record an incident"
        left = (Span(f" {what}", Tone.TITLE), Span(f"  {self._told}", Tone.QUIET))
        kept = f"draft kept {hms(self._kept_at)} UTC " if self._kept_at is not None else ""
        return spread(left, (Span(kept, Tone.QUIET),), cells)

    def _hint(self, said: FormSays, focused: str | None) -> Span:
        for name, why in said.problems:
            if name == focused:
                return Span(f" {why}", Tone.WARNING)
        cause = self._causes.get(self._texts["root_cause"].strip())
        if focused == "root_cause" and cause is not None:
            return Span(f" {cause.meaning}", Tone.QUIET)
        field = FIELDS.get(focused or "")
        return Span(f" {field.hint}" if field is not None else "", Tone.QUIET)

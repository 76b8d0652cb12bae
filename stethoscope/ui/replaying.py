"""What the keys of a replay do, on every screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from stethoscope.errors import UsageError
from stethoscope.text import clean
from stethoscope.ui.drilling import DrillActions
from stethoscope.ui.present.spans import width

if TYPE_CHECKING:
    from stethoscope.ui.app import StethoscopeApp
    from stethoscope.ui.session import ReplayLike


class ReplayActions(DrillActions):
    """An app that may play a recording."""

    replay: ReplayLike | None = None
    """The session, when it plays a recording."""

    def tell(self, text: str, seconds: float = 4) -> None:
        """Show a short notice; the only way to one, because a notice reads markup unless it is told not to."""
        said = clean(text, 300)
        # One at a time, over the keys; what is too long for one line stands below the legend, where rows are.
        self.clear_notifications()
        if self.screen_stack:
            # Textual takes away what was said, and leaves the empty line that it stood on.
            self.screen.query("ToastHolder").remove()
        self.set_class(width(said) + 2 > self.size.width, "-long-notice")
        self.notify(said, markup=False, timeout=seconds)

    def action_pause_replay(self) -> None:
        """Let the replay stand still, or go on."""
        pause = getattr(self.screen, "action_pause", None)
        if pause is not None:
            pause()
        elif self.replay is not None:
            self.replay.toggle_pause()

    def action_replay_seek(self, seconds: int) -> None:
        """Go so far forward in the recording, or back."""
        if self.replay is not None:
            self.replay.seek_by(seconds)

    def action_replay_change(self) -> None:
        """Go on to the next change in the recording."""
        if self.replay is not None:
            self.replay.next_change()

    def action_replay_speed(self, steps: int) -> None:
        """Play faster or slower."""
        if self.replay is not None:
            self.replay.change_speed(steps)

    def action_replay_time(self) -> None:
        """Ask for a time and go there."""
        from stethoscope.ui.screens.ask import AskScreen

        def go(answer: str | None) -> None:
            if answer is not None and self.replay is not None:
                try:
                    self.replay.seek_words(answer)
                except UsageError as error:
                    self.tell(str(error))

        self.push_screen(AskScreen(cast("StethoscopeApp", self), "time: 02:14:07, 2026-03-14T02:14:07Z, +5m, -5m"), go)

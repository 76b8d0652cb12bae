"""Which log to look at: the fleet's kernels, one that is open, a file here, a path or a kernel log on a node, a job's
output, or pasted text."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding

from stethoscope.clock import duration
from stethoscope.ui.present.frame import footer, rule
from stethoscope.ui.present.spans import Span, Tone
from stethoscope.ui.screens.ask import AskScreen
from stethoscope.ui.screens.at_once import TypedIntoScreen
from stethoscope.ui.widgets.rows import Lines, RowsView

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.timer import Timer

    from stethoscope.model.fleet import FleetSnapshot
    from stethoscope.session.logbook import LogBook, OpenLog
    from stethoscope.ui.app import StethoscopeApp

_SPANS = (("the last hour", 3600.0), ("the last 24 hours", 86_400.0), ("the last 7 days", 604_800.0))
_MOST_PASTED = 64 * 1024 * 1024
_DRAW_S = 0.1


def take_paste(book: LogBook, text: str) -> OpenLog:
    """Open what was pasted."""
    return book.paste(text[:_MOST_PASTED].replace("\r\n", "\n").replace("\r", "\n"))


def ask_which(
    console: StethoscopeApp,
    book: LogBook,
    snapshot: FleetSnapshot | None,
    show: Callable[[OpenLog], object],
    node: str = "",
) -> None:
    """Let a person choose a log and give it to `show`; with `node` those of that node come first."""
    offered: dict[str, tuple[str, str, Callable[[], object]]] = {}

    def offer(id_: str, title: str, words: str, action: Callable[[], object]) -> None:
        offered[id_] = (title, words, action)

    refused = book.why_not_on_nodes

    def of_node(name: str) -> None:
        ask_span(console, book, name, show)

    if node:
        offer("kernel", f"kernel log of {node}", refused or "read from the node, back to a time", lambda: of_node(node))
        offer(
            "path",
            f"a file on {node}",
            refused or "named by its path, and followed",
            lambda: ask_path(console, book, node, show),
        )
    words = "as it was recorded" if console.replay is not None else "live, all nodes in one time line"
    offer("fleet", "kernel logs of the fleet", words, lambda: show(book.fleet))
    offer("paste", "paste text", "from another window", lambda: ask_paste(console, book, show))
    for number, log in enumerate(book.opened):
        offer(f"open {number}", log.title, log.trouble or log.state, partial(show, log))
    offer("file", "a file here", "plain, gzip, zstd, xz; a directory; a pattern", lambda: ask_file(console, book, show))
    jobs = snapshot.jobs if snapshot is not None else ()
    for job in jobs:
        words = refused or f"what the job prints, {len(job.nodes):,} nodes, {job.state}"
        offer(
            f"job {job.id}",
            f"job {job.id} {job.name}".rstrip(),
            words,
            partial(_job, book, job.id, snapshot, show),
        )
    if book.has_scheduler and snapshot is not None:
        words = refused or "also one that ended a while ago, as long as Slurm knows it"
        offer("job by number", "a job by its number", words, lambda: ask_job(console, book, snapshot, show))
    if not node and snapshot is not None:
        offer(
            "kernel",
            "kernel log of a node",
            refused or "read from the node, back to a time",
            lambda: ask_node(console, snapshot, of_node),
        )
        offer(
            "path",
            "a file on a node",
            refused or "named by its path, and followed",
            lambda: ask_node(console, snapshot, lambda name: ask_path(console, book, name, show)),
        )

    def take(chosen: str) -> None:
        if refused and chosen.split(" ")[0] in ("kernel", "path", "job"):
            console.tell(refused)
        else:
            offered[chosen][2]()

    console.choose("log", [(title, words, id_) for id_, (title, words, _) in offered.items()], take)


def _job(book: LogBook, job: str, snapshot: FleetSnapshot | None, show: Callable[[OpenLog], object]) -> None:
    if snapshot is not None:
        show(book.open_job(job, snapshot))


def ask_job(console: StethoscopeApp, book: LogBook, snapshot: FleetSnapshot, show: Callable[[OpenLog], object]) -> None:
    """Ask for the number of a job."""

    def take(job: str | None) -> None:
        if job:
            show(book.open_job(job, snapshot))

    console.push_screen(AskScreen(console, "number of the job: 4242, or 4242_7 of an array"), take)


def ask_node(console: StethoscopeApp, snapshot: FleetSnapshot, then: Callable[[str], None]) -> None:
    """Let a person choose a node."""
    console.choose("node", [(node.name, node.link.state.value, node.name) for node in snapshot.nodes], then)


def ask_span(console: StethoscopeApp, book: LogBook, node: str, show: Callable[[OpenLog], object]) -> None:
    """Let a person choose from when on the kernel log of `node` is read."""
    choices = [(title, f"{duration(span)} back from now", str(span)) for title, span in _SPANS]

    def take(span: str) -> None:
        show(book.open_kernel(node, console.clock.wall() - float(span)))

    console.choose(f"kernel log of {node}", choices, take)


def ask_path(console: StethoscopeApp, book: LogBook, node: str, show: Callable[[OpenLog], object]) -> None:
    """Ask for the path of a file on `node`."""

    def take(path: str | None) -> None:
        if path:
            show(book.open_path(node, path))

    console.push_screen(AskScreen(console, f"path on {node}, from /"), take)


def ask_file(console: StethoscopeApp, book: LogBook, show: Callable[[OpenLog], object]) -> None:
    """Ask for files of this machine."""
    import os.path

    def take(words: str | None) -> None:
        if words:
            show(book.open_files([os.path.expanduser(words)]))

    console.push_screen(AskScreen(console, "a file, a directory or a pattern on this machine"), take)


def ask_paste(console: StethoscopeApp, book: LogBook, show: Callable[[OpenLog], object]) -> None:
    """Wait for pasted text."""

    def take(text: str | None) -> None:
        if text:
            show(take_paste(book, text))

    console.push_screen(PasteScreen(console), take)


class PasteScreen(TypedIntoScreen):
    """Takes what a terminal pastes; where it sends that as if it were typed, ctrl+d ends it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False, priority=True),
        Binding("ctrl+d", "take", show=False, priority=True),
    ]
    AUTO_FOCUS = ""

    def __init__(self, console: StethoscopeApp) -> None:
        """Hold nothing yet."""
        super().__init__()
        self._owner = console
        self._typed: list[str] = [""]
        """Its lines."""
        self._taken = 0
        self._drawing: Timer | None = None

    def compose(self) -> ComposeResult:
        """Lay out what was taken, and the keys."""
        yield Lines(id="top")
        yield Lines(id="rule-top")
        yield RowsView(id="pasted")
        yield Lines(id="rule-bottom")
        yield Lines(id="keys")

    def on_mount(self) -> None:
        """Say what to do."""
        self.query_one(RowsView).can_focus = False
        self._draw()

    def on_resize(self, event: events.Resize) -> None:
        """Fit the new size."""
        self._draw()

    def on_paste(self, event: events.Paste) -> None:
        """Take all of it, and decode it."""
        event.stop()
        self.dismiss("\n".join(self._typed) + event.text)

    def on_key(self, event: events.Key) -> None:
        """Take what comes as typing."""
        if self.take_typed(event):
            event.stop()

    def take_typed(self, key: events.Key) -> bool:
        """Take one character; what is not one has another meaning. A file may come so: it is drawn now and then."""
        if key.key == "backspace":
            self._typed[-1] = self._typed[-1][:-1]
        elif key.key in ("enter", "ctrl+j"):
            self._typed.append("")
        elif key.key == "tab" or (key.character is not None and key.is_printable):
            if self._taken < _MOST_PASTED:
                self._typed[-1] += key.character or "\t"
                self._taken += 1
        else:
            return False
        if self._drawing is None:
            self._drawing = self.set_timer(_DRAW_S, self._draw)
        return True

    def action_take(self) -> None:
        """Decode what was typed."""
        self.dismiss("\n".join(self._typed) or None)

    def action_leave(self) -> None:
        """Take nothing."""
        self.dismiss(None)

    def _draw(self) -> None:
        self._drawing = None
        cells, glyphs = self.size.width or 80, self._owner.glyphs
        self.query_one("#top", Lines).show([(Span(" Paste the log now", Tone.TITLE),)])
        for name in ("rule-top", "rule-bottom"):
            self.query_one(f"#{name}", Lines).show([rule(cells, glyphs)])
        lines = self._typed[-max(1, self.size.height - 4) :]
        self.query_one(RowsView).show([(Span(f" {line}"),) for line in lines])
        self.query_one("#keys", Lines).show([footer([("ctrl+d", "decode what was typed"), ("escape", "back")], cells)])

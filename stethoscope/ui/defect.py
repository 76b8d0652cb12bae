"""What a person is told when the console itself fails: one line, and where the report of it is."""

from __future__ import annotations

from stethoscope.errors import InternalError
from stethoscope.text import clean


def defect(what: str, error: BaseException | None, *, place: bool = False) -> InternalError:
    """Return the error that ends the console: never a traceback, nor the values of variables. The report of it is
    written beside."""
    if error is None:
        return InternalError(f"{what}: unknown")
    # Not needed before something fails: the first picture does not wait for its patterns.
    from stethoscope.redact import redact

    words = redact(f"{what}: {type(error).__name__}: {clean(str(error), 300)}{_place(error) if place else ''}")
    return InternalError(words + _report(error))


def _report(error: BaseException) -> str:
    from stethoscope.debug import report_crash

    path = report_crash(error)
    return "" if path is None else f"; what is needed to mend it is in {path}, without secrets"


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f" ({trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno})"

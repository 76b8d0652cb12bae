"""What the kernel's lines say: which GPU, switch or part of a host failed first, what followed from it, how bad it is.

The text of a line decides over the default of its code, the earliest line of the gravest kind is the cause, and Xids
that only clean up (43, 45, 109, 154) never are while anything else is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stethoscope.analysis.kernel_cause import Choice, choose, is_after_reset, severity_of
from stethoscope.analysis.kernel_incidents import group, read_signs
from stethoscope.analysis.kernel_layers import without_repeats
from stethoscope.analysis.kernel_links import link
from stethoscope.analysis.kernel_ports import is_shutdown
from stethoscope.analysis.kernel_repeats import repeats_on_one_gpu
from stethoscope.analysis.kernel_words import verdict_of
from stethoscope.model.finding import Severity
from stethoscope.specs.codes import load_codes

if TYPE_CHECKING:
    from stethoscope.analysis.judge_scene import KnownSignatures
    from stethoscope.analysis.kernel_incidents import Incident, Sign
    from stethoscope.model.logs import Log, LogVerdict
    from stethoscope.specs.codes import Codes

MOST = 6
_LOADED = ("nvrm.loading", "nvrm.nvlink_core", "boot.marker")


def judge_kernel(log: Log, signatures: KnownSignatures | None = None, codes: Codes | None = None) -> list[LogVerdict]:
    """Return what the kernel's lines of `log` show, the first cause of the gravest incident first; nothing when there
    is no trouble in them.

    `signatures` say the root cause of events that are neither Xid nor SXid; without `codes` the tables that stand
    nearest are used.
    """
    codes = codes or load_codes()
    signs = without_repeats(read_signs(log, codes, signatures))
    incidents = link(group(signs))
    resets = [sign for sign in signs if sign.event.signature in _LOADED]
    boots = [sign for sign in signs if sign.event.signature == "boot.marker"]
    judged: list[tuple[tuple[int, int, int, int], Incident, Choice, Severity]] = []
    for incident in incidents:
        choice = choose(incident, codes)
        if choice is None:
            continue
        severity = severity_of(incident, choice)
        if severity is not Severity.P2 and is_after_reset(incident, resets):
            severity = Severity.P2
        if is_shutdown(incident, boots, signs):
            continue
        judged.append((_order(incident, choice.sign, severity), incident, choice, severity))
    suspects = repeats_on_one_gpu([(incident, choice.sign) for _, incident, choice, _ in judged])
    ranked = []
    for _, incident, choice, severity in judged:
        suspect = suspects.get(id(incident))
        if suspect is not None and severity is Severity.P2:
            severity = Severity.P1
        if severity.rank <= Severity.P2.rank:
            ranked.append((_order(incident, choice.sign, severity), incident, choice, severity))
    # Work of a program ended and nothing says why: no fault of the machine, and not nothing either.
    ranked = ranked or [entry for entry in judged if entry[2].sign.xid is not None and entry[1].first.role != "context"]
    ranked.sort(key=lambda entry: entry[0])
    verdicts: dict[tuple[object, ...], LogVerdict] = {}
    for _, incident, choice, severity in ranked:
        verdict = verdict_of(incident, choice, severity, codes, suspect=suspects.get(id(incident)))
        # The same again on the same device is one story, told by its first and gravest part.
        verdicts.setdefault((verdict.signature, verdict.culprits), verdict)
        if len(verdicts) == MOST:
            break
    return list(verdicts.values())


def _order(incident: Incident, cause: Sign, severity: Severity) -> tuple[int, int, int, int]:
    consequence = int(incident.consequence_of is not None)
    # A GPU that fails to start says less than one that failed, and a host's own trouble less than a GPU's Xid.
    kind = 0 if cause.xid is not None else 1 if cause.sxid is not None or cause.off_bus else 2
    return (severity.rank, consequence, kind, cause.index)

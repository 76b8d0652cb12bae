"""The one registry of keys: bindings, footer, help, palette and the table in the documentation come from it."""

from __future__ import annotations

from typing import NamedTuple


class Key(NamedTuple):
    """One thing that a key does."""

    id: str
    keys: tuple[str, ...]
    """Names as Textual has them; the first is the one that is shown."""
    action: str
    title: str
    """`noun: verb` for the palette."""
    short: str
    """Words for the footer."""
    help: str
    where: tuple[str, ...]
    """Screens on which it works: fleet, node, heat, drift, preview and result of a probe, logs, what is explained, the
    findings, one finding, its rule, jobs, a triage, its verdict, the incidents, one incident, its form, two who edited
    it, or everywhere."""
    footer: bool = False
    palette: bool = True
    replay: bool = False
    """It works in a replay only."""
    live: bool = False
    """It does not work in a replay, where the key does something else."""


EVERYWHERE = "everywhere"
DRILL = "drill"
"""Everywhere, and only while somebody is trained."""
# fmt: off
KEYS: tuple[Key, ...] = (
    Key("node.open", ("enter",), "open_node", "node: open", "node",
        "Open the node under the cursor; unfold the folded line; open or close a group.", ("fleet",), footer=True),
    Key("theme.next", ("T",), "next_theme", "theme: next", "theme",
        "Draw in the next theme: dark, light, high contrast, colour-blind safe, without colours, ASCII.",
        (EVERYWHERE,)),
    Key("metric.choose", ("m",), "choose_metric", "metric: choose", "metric",
        "Choose the metric of the fleet screen by name.", ("fleet", "heat"), footer=True),
    Key("metric.next", ("right_square_bracket",), "next_metric(1)", "metric: next", "next metric",
        "Show the next metric.", ("fleet", "heat")),
    Key("metric.previous", ("left_square_bracket",), "next_metric(-1)", "metric: previous", "previous metric",
        "Show the previous metric.", ("fleet", "heat")),
    Key("filter.edit", ("slash",), "edit_filter", "filter: edit", "filter",
        "Show only nodes that fit: a part of a name, or conditions such as temp>85 & host~gpu-0 | state=lost.",
        ("fleet",), footer=True),
    Key("density.next", ("d",), "next_density", "density: next", "density",
        "Give a GPU more room or less: a number, one cell, half a cell with two nodes on a line.", ("fleet",)),
    Key("zoom.in", ("z",), "zoom(1)", "zoom: closer", "closer",
        "Look closer at the map of half blocks: groups, nodes, GPUs, names.", ("fleet",)),
    Key("zoom.out", ("Z",), "zoom(-1)", "zoom: farther", "farther",
        "Look at the map from farther away.", ("fleet",)),
    Key("mode.next", ("c",), "next_mode", "compare: next way", "compare",
        "Show the metric as it is, as its distance from the peers, or as what changed since the mark.", ("fleet",)),
    Key("group.next", ("b",), "next_group", "group: by the next", "group by",
        "Group nodes by rack, pod, leaf, job or partition, or not.", ("fleet",)),
    Key("jump.next", ("n",), "next_wrong", "jump: to the next that deviates", "next",
        "Go to the next node with something wrong, or unlike its peers.", ("fleet",), live=True),
    Key("jump.previous", ("N",), "previous_wrong", "jump: to the previous that deviates", "previous",
        "Go to the previous node with something wrong, or unlike its peers.", ("fleet",), live=True),
    Key("jump.forward", ("right_curly_bracket",), "jump(1)", "jump: forward", "forward",
        "The same as n, also in a replay.", ("fleet",), palette=False),
    Key("jump.backward", ("left_curly_bracket",), "jump(-1)", "jump: backward", "backward",
        "The same as N, also in a replay.", ("fleet",), palette=False),
    Key("select.on", ("space",), "mark_and_go_on", "select: this and go on", "select",
        "Select the node under the cursor, or let it go, and step on; on the line of a group all of its nodes.",
        ("fleet",), palette=False, live=True),
    Key("select.this", ("x",), "mark", "select: this", "select",
        "Select the node under the cursor, or let it go; also in a replay.", ("fleet",)),
    Key("select.all", ("asterisk",), "mark_all", "select: all that fit", "select all",
        "Select all nodes that fit the filter, or let them go.", ("fleet",)),
    Key("select.none", ("X",), "mark_none", "select: none", "select none",
        "Let all selected nodes go.", ("fleet",)),
    Key("view.choose", ("v",), "choose_view", "view: open", "view",
        "Open a view that was saved.", ("fleet",)),
    Key("view.save", ("V",), "save_view", "view: save", "save view",
        "Save metric, density, order, grouping and filter under a name.", ("fleet",)),
    Key("view.pause", ("p",), "pause", "view: pause", "pause",
        "Hold the picture still, or let it go on; data goes on being collected.", ("fleet", "node")),
    Key("section.toggle", ("enter",), "toggle_section", "section: open or close", "open",
        "Open or close the section under the cursor; from what is wrong, go to where it stands.",
        ("node",), footer=True),
    Key("section.all", ("a",), "toggle_all", "section: open or close all", "all",
        "Open all sections, or close them again.", ("node",)),
    Key("node.shell", ("s",), "shell", "node: open a shell", "shell",
        "Open a shell on the node with the system's ssh, and come back.", ("node",), footer=True),
    Key("node.copy_line", ("y",), "copy", "node: copy this line", "copy",
        "Copy what is known of what the cursor stands on, through the terminal.", ("node",)),
    Key("node.copy", ("Y",), "copy_node", "node: copy all", "copy all",
        "Copy the whole node as text, through the terminal.", ("node",)),
    Key("node.save", ("w",), "save_node", "node: save as text", "save",
        "Write the whole node as text into a file.", ("node",)),
    Key("mark.set", ("M",), "set_mark", "mark: set here", "mark",
        "Set a mark: from now on counters also say what they counted since then.", (EVERYWHERE,)),
    Key("mark.clear", ("U",), "clear_mark", "mark: forget", "unmark",
        "Forget the mark.", (EVERYWHERE,)),
    Key("node.retry", ("r",), "retry_node", "node: try the link now", "retry",
        "Try the link to the node again now, instead of at its next attempt.", ("fleet", "node")),
    Key("probe.choose", ("o",), "choose_probe", "probe: run one", "probe",
        "Choose a probe to run on this node, or read what the last ones said.", ("node",), footer=True),
    Key("probe.run", ("enter",), "run_probe", "probe: run this", "run",
        "Run what is shown, nothing else; the journal keeps it.", ("preview",), footer=True),
    Key("probe.force", ("F",), "force_probe", "probe: run it although a GPU is busy", "run anyway",
        "Run what is refused because a GPU is busy, after asking once more; the journal says so.", ("preview",)),
    Key("probe.copy", ("y",), "copy_result", "probe: copy the result", "copy",
        "Copy all that came back, through the terminal.", ("result",), footer=True),
    Key("probe.save", ("w",), "save_result", "probe: save the result", "save",
        "Write all that came back into a file.", ("result",), footer=True),
    Key("sort.next", ("s",), "next_sort", "sort: next order", "sort",
        "Order the rows: worst first, by name, by value, by group.", ("fleet",)),
    Key("fold.next", ("f",), "next_fold", "fold: next way", "fold",
        "Fold healthy nodes: what does not fit, all, none.", ("fleet",)),
    Key("drift.open", ("D",), "open_drift", "drift: open", "drift",
        "Compare versions and settings: which nodes differ from most.", ("fleet",)),
    Key("drift.nodes", ("enter",), "open_nodes", "drift: open a node", "node",
        "Open the node that the line is about; of several, ask which.", ("drift",), footer=True),
    Key("drift.move", ("up", "down", "pageup", "pagedown"), "", "drift: move", "move",
        "Move between the lines; h j k l do the same.", ("drift",), palette=False),
    Key("jobs.open", ("J",), "open_jobs", "jobs: open", "jobs",
        "Show how training jobs go: step time, throughput and its change, loss, checkpoints, nodes and ranks.",
        ("fleet",)),
    Key("jobs.line", ("enter",), "open_line", "jobs: open the job or the node", "open",
        "Open the job under the cursor, or the node that the line is about.", ("job",), footer=True, palette=False),
    Key("jobs.log", ("L",), "open_job_log", "jobs: decode the log", "decode log",
        "Decode the log of this job: what happened first, to whom, what to do.", ("job",), footer=True),
    Key("jobs.move", ("up", "down", "pageup", "pagedown"), "", "jobs: move", "move",
        "Move between the lines that lead somewhere; h j k l do the same.", ("job",), palette=False),
    Key("jobs.first", ("home", "g"), "cursor_first", "jobs: to the first line", "first",
        "Go to the first line.", ("job",), palette=False),
    Key("jobs.last", ("end", "G"), "cursor_last", "jobs: to the last line", "last",
        "Go to the last line.", ("job",), palette=False),
    Key("logs.open", ("L",), "open_logs", "logs: open", "logs",
        "Decode logs: kernels of the fleet live, a node's, a job's output, files here, pasted text.",
        ("fleet",)),
    Key("logs.of_node", ("L",), "open_logs", "logs: of this node", "logs",
        "Decode a log of this node: its kernel's, back to a time, or a file by its path.", ("node",)),
    Key("logs.explain", ("enter",), "explain", "logs: explain this line", "explain",
        "Say what the line under the cursor means and what to check.", ("logs",), footer=True),
    Key("logs.node", ("N",), "open_node", "logs: open the node", "node",
        "Open the node that the line under the cursor is about.", ("logs",), footer=True),
    Key("logs.choose", ("o",), "choose_log", "logs: open another", "open",
        "Choose the log: the fleet's kernels, a node's, a job's output, a path on a node, a file here, pasted text.",
        ("logs",), footer=True),
    Key("logs.every", ("a",), "toggle_every", "logs: every event", "all",
        "Show every event, also those that mean no harm, or only what went wrong.", ("logs",)),
    Key("logs.signatures", ("S",), "browse", "logs: browse what is known", "signatures",
        "Choose one of all known kinds of line and read what it means.", ("logs",)),
    Key("logs.copy", ("y",), "copy_log", "logs: copy the answer", "copy",
        "Copy the answer and the time line, through the terminal.", ("logs",)),
    Key("logs.save", ("w",), "save_log", "logs: save the answer", "save",
        "Write the answer and the time line into a file.", ("logs",)),
    Key("logs.move", ("up", "down", "pageup", "pagedown"), "", "logs: move", "move",
        "Move between the lines; h j k l do the same.", ("logs",), palette=False),
    Key("logs.first", ("home", "g"), "cursor_first", "logs: to the first line", "first",
        "Go to the first line.", ("logs",), palette=False),
    Key("logs.last", ("end", "G"), "cursor_last", "logs: to the last line", "last",
        "Go to the last line.", ("logs",), palette=False),
    Key("explained.node", ("enter",), "open_node", "explanation: open the node", "node",
        "Open the node that the explained line was about.", ("explained",), footer=True),
    Key("explained.copy", ("y",), "copy_explained", "explanation: copy", "copy",
        "Copy the explanation, through the terminal.", ("explained",), footer=True),
    Key("explained.save", ("w",), "save_explained", "explanation: save", "save",
        "Write the explanation into a file.", ("explained",), footer=True),
    Key("findings.open", ("F",), "open_findings", "findings: open", "findings",
        "The night's list: what was found, since when, who has seen it, what cleared.", ("fleet", "node")),
    Key("findings.card", ("enter",), "open_card", "finding: open its card", "card",
        "Show all that is known of the finding under the cursor.", ("findings",), footer=True),
    Key("finding.acknowledge", ("a",), "acknowledge", "finding: acknowledge", "acknowledge",
        "Say that somebody has seen it: it is quiet until it gets worse; once more, and it is loud again.",
        ("findings", "finding"), footer=True),
    Key("finding.snooze", ("z",), "snooze", "finding: snooze", "snooze",
        "Keep it quiet for a while, or until it changes; it stays in the list.", ("findings", "finding"), footer=True),
    Key("finding.note", ("n",), "note", "finding: write a note", "note",
        "Write a line about it, which stays with it.", ("findings", "finding"), live=True),
    Key("finding.node", ("o",), "open_node", "finding: open the node", "node",
        "Open the node that it is on, of several the one you choose; the job, where it is about one.",
        ("findings", "finding")),
    Key("finding.logs", ("L",), "open_logs", "finding: logs of that time", "logs",
        "Read the kernel log of its node from shortly before it began.", ("findings", "finding")),
    Key("finding.rule", ("e",), "explain_rule", "finding: explain the rule", "rule",
        "Show what the rule looks for, and where it is written.", ("findings", "finding")),
    Key("finding.copy", ("y",), "copy_finding", "finding: copy", "copy",
        "Copy the card as text, through the terminal.", ("findings", "finding")),
    Key("finding.save", ("w",), "save_finding", "finding: save as Markdown", "save",
        "Write the card into a file.", ("findings", "finding")),
    Key("findings.filter", ("slash",), "filter_findings", "findings: filter", "filter",
        "Show those in which all of the words stand: a node, a rule, a cause, a severity.", ("findings",)),
    Key("findings.sort", ("s",), "next_sort", "findings: next order", "sort",
        "Order the list: worst first, newest first.", ("findings",)),
    Key("findings.move", ("up", "down", "pageup", "pagedown"), "", "findings: move", "move",
        "Move between the findings; h j k l do the same.", ("findings",), palette=False),
    Key("findings.first", ("home", "g"), "cursor_first", "findings: to the first", "first",
        "Go to the first line.", ("findings",), palette=False),
    Key("findings.last", ("end", "G"), "cursor_last", "findings: to the last", "last",
        "Go to the last line.", ("findings",), palette=False),
    Key("triage.open", ("t",), "triage", "triage: what is the cause?", "triage",
        "Be led to the cause: of the selected nodes, else of the whole fleet; of the job or the finding on screen.",
        ("fleet", "job", "finding"), footer=True),
    Key("triage.here", ("t",), "triage", "triage: what is the cause here?", "triage",
        "Be led to the cause of what is wrong with this node, or of the finding under the cursor.",
        ("node", "findings")),
    Key("triage.accept", ("enter",), "accept", "triage: accept the answer", "accept",
        "Take the proposed answer and go on; after the last question show the verdict.", ("triage",), footer=True),
    Key("triage.measure", ("m",), "measure", "triage: measure what would settle it", "measure",
        "Choose a measurement and see exactly what would be run; its result comes in as a fact.",
        ("triage", "verdict"), footer=True),
    Key("triage.other", ("o",), "other_answer", "triage: another answer", "other",
        "Answer otherwise than is proposed; of what was found only what fits is left.", ("triage",), footer=True),
    Key("triage.skip", ("s",), "skip_step", "triage: skip the question", "skip",
        "Leave the question without an answer and go on.", ("triage",), footer=True),
    Key("triage.back", ("b",), "step_back", "triage: back to the last question", "step back",
        "Take the last answer back.", ("triage", "verdict"), footer=True),
    Key("triage.why", ("w",), "toggle_why", "triage: why this answer?", "why",
        "Show the conditions of the flow and which of them holds.", ("triage",), footer=True),
    Key("triage.verdict", ("v",), "verdict", "triage: the verdict now", "verdict",
        "Show the verdict as it is now, whatever is still unanswered.", ("triage",), footer=True),
    Key("verdict.freeze", ("v",), "freeze_verdict", "verdict: freeze the evidence", "freeze",
        "Write what the verdict rests on into one file, from which `triage --bundle FILE` says the same.",
        ("verdict",), footer=True),
    Key("verdict.copy", ("c", "y"), "copy_verdict", "verdict: copy", "copy",
        "Copy the verdict as text, through the terminal.", ("verdict",), footer=True),
    Key("verdict.save", ("w",), "save_verdict", "verdict: save as Markdown", "save",
        "Write the verdict into a file of yours alone, and say where.", ("verdict",)),
    Key("incident.record", ("i",), "record_incident", "incident: record this", "record",
        "Write it down as an incident: all that is known is filled in, what fixed it is left to you; enter saves.",
        ("verdict",), footer=True),
    Key("incident.record_here", ("i",), "record_incident", "incident: record this", "record",
        "Write the finding down as an incident: all that is known is filled in, what fixed it is left to you.",
        ("finding", "findings"), footer=True),
    Key("incident.record_of", ("i",), "record_incident", "incident: record this", "record",
        "Write it down as an incident: what the log says, or something about this node.", ("logs", "node")),
    Key("incidents.open", ("I",), "app.open_incidents", "incidents: open", "incidents",
        "Have we seen this? All incidents of before, searched as you type; what is not recorded yet comes first.",
        ("fleet", "node", "verdict", "finding", "findings", "logs")),
    Key("incidents.line", ("enter",), "open_line", "incidents: open this", "open",
        "Open the incident under the cursor, go on with a draft, or mend a file that cannot be read.",
        ("incidents",), footer=True, palette=False),
    Key("incidents.filter", ("tab",), "next_filter", "incidents: next status", "status",
        "Show all, or only those that are open, mitigated, resolved, a reference; then files with faults.",
        ("incidents",), footer=True, palette=False),
    Key("incidents.new", ("ctrl+n",), "record_by_hand", "incidents: record by hand", "new",
        "Record something that no verdict and no finding tells.", ("incidents",), footer=True),
    Key("incidents.drop", ("ctrl+d",), "drop_draft", "incidents: drop the draft", "drop draft",
        "Forget the draft under the cursor, after asking once more.", ("incidents",)),
    Key("incidents.move", ("up", "down", "pageup", "pagedown"), "", "incidents: move", "move",
        "Move between the lines; letters go into the search.", ("incidents",), palette=False),
    Key("incident.edit", ("e",), "edit", "incident: edit", "edit",
        "Edit it in the form; what somebody else changes meanwhile is shown, never written over.",
        ("incident",), footer=True),
    Key("incident.close", ("c",), "close", "incident: close", "close",
        "Say in a line what fixed it: it is resolved now.", ("incident",), footer=True),
    Key("incident.outside", ("ctrl+o",), "edit_outside", "incident: edit in your editor", "editor",
        "Open its file in $VISUAL, $EDITOR or vi; a fault is shown and nothing is lost.", ("incident",), footer=True),
    Key("incident.alike", ("o",), "open_alike", "incident: open one like it", "alike",
        "Open an incident that looks like it, or that it is linked with.", ("incident",), footer=True),
    Key("incident.copy", ("y",), "copy_incident", "incident: copy", "copy",
        "Copy it as text, through the terminal.", ("incident",)),
    Key("incident.save", ("w",), "save_incident", "incident: save as a report", "save",
        "Write it into a file as a report: time line, evidence, cause, fix, prevention.", ("incident",)),
    Key("form.save", ("ctrl+s",), "save", "form: save", "save",
        "Record it: resolved where it says what fixed it, else open; enter in any line does the same.",
        ("form",), footer=True, palette=False),
    Key("form.next", ("tab", "shift+tab"), "", "form: next field", "next field",
        "Go on to the next field, or back.", ("form",), footer=True, palette=False),
    Key("form.editor", ("ctrl+o",), "edit_outside", "form: in your editor", "editor",
        "Open all of it in $VISUAL, $EDITOR or vi, and come back.", ("form",), footer=True, palette=False),
    Key("conflict.mine", ("m",), "keep_mine", "conflict: yours where both changed", "yours",
        "Write both together; where both changed a field, yours.", ("conflict",), footer=True, palette=False),
    Key("conflict.theirs", ("f",), "keep_theirs", "conflict: the file's where both changed", "the file's",
        "Write both together; where both changed a field, what the file says.", ("conflict",), footer=True,
        palette=False),
    Key("heat.open", ("H",), "open_heat", "heat: over time", "over time",
        "Show the metric of every node over the last minutes.", ("fleet",)),
    Key("heat.node", ("enter",), "open_node", "heat: open the node", "node",
        "Open the node that the cursor is on; of those that are alike, ask which.", ("heat",), footer=True,
        palette=False),
    Key("heat.move", ("up", "down", "left", "right"), "", "heat: move", "move",
        "Move between nodes and times; h j k l do the same, page up and page down by pages.", ("heat",),
        palette=False),
    Key("heat.first", ("home", "g"), "cursor_first", "heat: to the worst, now", "worst",
        "Go to the first row and to now, and follow both.", ("heat",), palette=False),
    Key("heat.last", ("end", "G"), "cursor_last", "heat: to the last row", "last",
        "Go to the last row.", ("heat",), palette=False),
    Key("cursor.move", ("up", "down", "left", "right"), "", "cursor: move", "move",
        "Move between nodes and cells; h j k l do the same, page up and page down by pages.",
        ("fleet",), palette=False),
    Key("cursor.first", ("home", "g"), "cursor_first", "cursor: to the worst", "worst",
        "Go to the first row and let it follow the worst node.", ("fleet",)),
    Key("cursor.last", ("end", "G"), "cursor_last", "cursor: to the last row", "last",
        "Go to the last row.", ("fleet",)),
    Key("view.scroll", ("up", "down", "pageup", "pagedown"), "", "view: scroll", "scroll",
        "Scroll; h j k l do the same.",
        ("preview", "result", "explained", "finding", "rule", "triage", "verdict", "incident", "conflict"),
        palette=False),
    Key("value.move", ("up", "down", "left", "right"), "", "value: move", "move",
        "Move between values and sections; h j k l do the same, page up and page down by pages.",
        ("node",), palette=False),
    Key("value.first", ("home", "g"), "cursor_first", "value: to what is wrong", "wrong",
        "Go to what is wrong first, and follow it.", ("node",)),
    Key("value.last", ("end", "G"), "cursor_last", "value: to the last section", "last",
        "Go to the last section.", ("node",)),
    Key("replay.pause", ("space",), "pause_replay", "replay: pause", "pause",
        "Stand still, or go on; p does the same.", (EVERYWHERE,), footer=True, replay=True),
    Key("replay.back", ("comma",), "replay_seek(-10)", "replay: back 10 s", "back 10 s",
        "Go back by 10 s.", (EVERYWHERE,), footer=True, replay=True),
    Key("replay.on", ("full_stop",), "replay_seek(10)", "replay: on 10 s", "on 10 s",
        "Go on by 10 s.", (EVERYWHERE,), footer=True, replay=True),
    Key("replay.back_minute", ("less_than_sign",), "replay_seek(-60)", "replay: back 1 min", "back 1 min",
        "Go back by a minute.", (EVERYWHERE,), replay=True),
    Key("replay.on_minute", ("greater_than_sign",), "replay_seek(60)", "replay: on 1 min", "on 1 min",
        "Go on by a minute.", (EVERYWHERE,), replay=True),
    Key("replay.change", ("n",), "replay_change", "replay: next change", "next change",
        "Go on to where a finding comes or clears, or a link changes.", (EVERYWHERE,), footer=True, replay=True),
    Key("replay.time", ("at",), "replay_time", "replay: go to a time", "time",
        "Go to a time: 02:14:07, an ISO 8601 time, +5m from the start, -5m from the end.", (EVERYWHERE,), replay=True),
    Key("replay.slower", ("minus",), "replay_speed(-1)", "replay: slower", "slower",
        "Play at half the speed, down to 1/8.", (EVERYWHERE,), replay=True),
    Key("replay.faster", ("plus", "equals_sign"), "replay_speed(1)", "replay: faster", "faster",
        "Play at twice the speed, up to 64 times.", (EVERYWHERE,), replay=True),
    Key("drill.answer", ("A",), "answer_drill", "drill: answer", "answer",
        "In a drill: say what is wrong, and where.", (DRILL,), footer=True),
    Key("drill.end", ("E",), "end_drill", "drill: end, and show the score", "end",
        "In a drill: end it, and show what was wrong and how you did.", (DRILL,), footer=True),
    Key("drill.train", ("ctrl+t",), "train", "drill: let a fault come", "train",
        "In a drill, for who trains: choose what goes wrong, where and when, or let the seed choose.", (DRILL,)),
    Key("back", ("escape",), "back", "screen: back", "back",
        "Go back: close, drop the filter, let the selection go, leave the node.", (EVERYWHERE,), palette=False),
    Key("palette", ("ctrl+p",), "command_palette", "palette: open", "find",
        "Find everything by name: nodes, metrics, actions.", (EVERYWHERE,), palette=False),
    Key("help", ("question_mark", "f1"), "help", "help: keys and signs", "keys",
        "Show all keys and what the signs mean.", (EVERYWHERE,), footer=True),
    Key("quit", ("q", "ctrl+q"), "quit", "console: quit", "quit",
        "End the console and every probe it started.", (EVERYWHERE,)),
)
# fmt: on

_SHOWN = {
    "slash": "/", "question_mark": "?", "right_square_bracket": "]", "left_square_bracket": "[", "pageup": "pgup",
    "pagedown": "pgdn", "comma": ",", "full_stop": ".", "less_than_sign": "<", "greater_than_sign": ">",
    "at": "@", "minus": "-", "plus": "+", "equals_sign": "=", "asterisk": "*", "right_curly_bracket": "}",
    "left_curly_bracket": "{",
}  # fmt: skip

_NOT_IN_REPLAY = (
    "metric.choose", "filter.edit", "node.shell", "probe.choose", "finding.acknowledge",
    "finding.snooze", "triage.open",
)  # fmt: skip
"""Keys that are not named at the foot of a replay, where moving in time needs the room."""


_WRITTEN = ("form", "incidents")
"""Screens whose letters go into a field."""


def shown(key: str) -> str:
    """Return a key's name as it stands on the keyboard."""
    return _SHOWN.get(key, key)


def keys_of(screen: str, *, replay: bool = False) -> list[Key]:
    """Return the keys that work on a screen, its own before those that work everywhere; in a replay there are more."""
    known = [key for key in KEYS if not (key.live if replay else key.replay)]
    own = [key for key in known if screen in key.where]
    return own + [key for key in known if EVERYWHERE in key.where]


def footer_of(screen: str, *, replay: bool = False, drill: bool = False) -> list[tuple[str, str]]:
    """Return the keys that matter on a screen, each with its word; going back comes first where there is a way back,
    in a replay moving in time comes before the choice of what is shown, in a drill its keys before all."""
    # Where one writes, a space, a comma and a question mark are text.
    is_written = screen in _WRITTEN
    replay = replay and not is_written
    left_out = _NOT_IN_REPLAY if replay else ()
    known = [*(keys_of(DRILL) if drill else ()), *keys_of(screen, replay=replay)]
    shown_keys = [
        key
        for key in dict.fromkeys(known)
        if (key.footer and key.id not in left_out) or (screen != "fleet" and key.id == "back")
    ]
    return [(shown(key.keys[-1 if is_written and key.id == "help" else 0]), key.short) for key in shown_keys]

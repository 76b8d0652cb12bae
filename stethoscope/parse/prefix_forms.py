"""The shapes of what stands in front of a message, by their first character; each alternative is a named group.

The kernel, the journal, syslog, containers, job launchers and libraries each put something in front; several of them
often stand on one line. `parse.prefix` takes them off one after the other.
"""

from __future__ import annotations

import re

_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)"
_ISO = r"(?P<{0}y>\d{{4}})-(?P<{0}m>\d\d)-(?P<{0}d>\d\d)[T ](?P<{0}t>\d\d:\d\d:\d\d)(?:[.,](?P<{0}f>\d{{1,9}}))?"
_ZONE = r"(?P<{0}z>\s?(?:Z|UTC|GMT|[+-]\d\d:?\d\d)(?![\d:\w]))?"
_NCCL_LEVEL = r"(?:[\w./-]+:\d+ (?:\(\w+\) )?)?(?:NCCL )?(?:INFO|WARN|TRACE|ABORT|CALL|ERROR) "
_NCCL = (
    r"(?P<n_host>[A-Za-z0-9][^\s:\[\]]{0,252}):(?P<n_pid>\d{1,9}):(?P<n_tid>\d{1,9})"
    rf"(?: \[(?P<n_dev>-?\d{{1,3}})\] ?| (?={_NCCL_LEVEL}))"
)
# What a counter or a bare pod name must be followed by to be no part of the message.
_STAMPED = (
    r"(?=\[ *\d{1,10}\.\d{6}\]|\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d|[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:|<\d{1,3}>\[|kern *: *[a-z]+ *:|NVRM: )"
)
"""What a line of the kernel's log begins with: what stands before it is who collected the line."""
GREPPED = r"(?P<grepped>(?P<h_path>[^\s:]{1,255}):(?:\d{1,9}:)?" + _STAMPED + r")"
_AHEAD = (
    r"(?=\[rank\d|\[[EWIF](?:\d{3,4} | ?\w+\.cpp)|[EWIF]\d{4} |\[default\d|frame #|\d{4}-\d\d-\d\d[T ]|\[\d{4}-"
    r"|\S+:\d+:\d+ \[\d|Traceback \(most|Exception raised from|  ?\S)"
)


def _iso(name: str) -> str:
    return _ISO.format(name) + _ZONE.format(name)


BRACKET = re.compile(
    r"(?:"
    r"(?P<rank>\[rank:? ?(?P<r_rank>\d{1,7})\]:? ?)"
    r"|(?P<uptime>\[ *(?P<u_up>\d{1,10}\.\d{3,9})(?: *< *\d+\.\d+ *>)?\](?: ?\[ *[TC]\d+\])?(?: |$))"
    r"|(?P<delta>\[ *[+<] *(?P<d_up>\d{1,7}\.\d{3,9})>?\](?: |$))"
    r"|(?P<counter>\[ *\d{1,9}\] " + _AHEAD + r")"
    r"|(?P<glog>\[[EWIF](?P<g_date>\d{3,4})? ?(?:(?P<g_t>\d\d:\d\d:\d\d)\.(?P<g_f>\d{1,9}))? ?"
    r"\w[\w.-]*\.(?:cpp|cc|cu|h|hpp):\d+\] ?)"
    r"|(?P<iso>\[" + _iso("b") + r"\]:? ?)"
    r"|(?P<ctime>\[(?P<c_dow>[^\W\d_]{2,9}\.?) +(?P<c_mon>[^\W\d_]{3,9}\.?|\d{1,2}月) +(?P<c_day>\d{1,2}) "
    r"(?P<c_t>\d\d:\d\d:\d\d) (?P<c_year>\d{4})\](?: |$))"
    r"|(?P<relative>\[(?P<e_mon>[A-Za-z]{3}) ?(?P<e_day>\d{1,2}) (?P<e_t>\d\d:\d\d)\](?: |$))"
    r"|(?P<dated>\[(?P<f_mon>[A-Za-z]{3}) +(?P<f_day>\d{1,2}) (?P<f_year>\d{4}) (?P<f_t>\d\d:\d\d:\d\d)\] ?)"
    r"|(?P<mpi>\[(?:[^\s\],]{1,64},)?(?P<m_rank>\d{1,7})\]<(?:std(?:out|err|diag))>: ?)"
    r"|(?P<role>\[(?P<l_role>[a-z]\w{0,31}?)(?P<l_rank>\d{1,4})\]: ?)"
    r"|(?P<pod>\[pod/(?P<k_pod>[^\s/\]]{1,253})(?:/[^\s\]]{0,253})?\] )"
    r"|(?P<level>\[" + _LEVEL + r"\] (?=\d{4}-))"
    r"|(?P<tid>\[" + _LEVEL + r" *\] (?=\[tid \d+\] )|\[tid \d+\] )"
    r")"
)
DIGIT = re.compile(
    r"(?:"
    r"(?P<cri>" + _iso("i") + r" std(?:out|err) [FP](?: |$))"
    r"|(?P<iso>" + _iso("b") + r"(?:(?: - )| ?[:|] |\"? |$|(?=\[)))"
    r"|(?P<go>(?P<j_year>\d{4})/(?P<j_mon>\d\d)/(?P<j_day>\d\d) (?P<j_t>\d\d:\d\d:\d\d)(?:\.(?P<j_f>\d{1,9}))? )"
    r"|(?P<unix>(?P<z_at>[1-3]\d{9}\.\d{1,9}) )"
    r"|(?P<nccl>" + _NCCL + r")"
    r"|(?P<talos>(?P<t_host>[\w.:-]{1,253}): (?:kern|user|daemon): +\w+: )"
    r"|(?P<numbered>\d{1,9}:" + _STAMPED + r")"
    r"|(?P<srun>(?P<s_task>\d{1,6}):(?: |$))"
    r"|(?P<kmsg>\d{1,3},\d{1,20},(?P<k_up>\d{1,18}),[^;\s]{0,200};)"
    r"|(?P<slash>(?P<x_mon>\d\d)/(?P<x_day>\d\d)/(?P<x_year>\d{4}),? (?P<x_t>\d\d:\d\d:\d\d)(?:[.,]\d+)?(?: - | ))"
    r"|(?P<bsd>(?P<o_mon>\d{1,2}月) +(?P<o_day>\d{1,2}) (?P<o_t>\d\d:\d\d:\d\d)(?:\.(?P<o_f>\d{1,9}))? "
    r"(?=\S+ [\w./@-]+(?:\[\d+\])?: |\[|kernel: ))"
    r"|(?P<pdsh>(?P<p_host>\d[\w.-]{0,252}):(?: |$))"
    r"|" + GREPPED + r")"
)
WORD = re.compile(
    r"(?:"
    r"(?P<glog_py>(?P<g_l>[EWIF])(?P<g_date>(?:20\d\d)?\d{4}) (?P<g_t>\d\d:\d\d:\d\d)(?:\.(?P<g_f>\d{1,9}))? +"
    r"(?P<g_pid>\d{1,9}) [^\s\]]{1,200}:\d+\] ?)"
    r"|(?P<nccl>" + _NCCL + r")"
    r"|(?P<opensm>(?P<p_mon>[A-Z][a-z]{2}) +(?P<p_day>\d{1,2}) (?P<p_t>\d\d:\d\d:\d\d) (?P<p_f>\d{6}) "
    r"\[[0-9A-Fa-f]{1,16}\] (?:0x[0-9a-f]{2} -> )?)"
    r"|(?P<date>[A-Z][a-z]{2} (?P<q_mon>[A-Z][a-z]{2}) +(?P<q_day>\d{1,2}) (?P<q_t>\d\d:\d\d:\d\d) "
    r"(?:(?P<q_zone>[A-Z]{3,5}) )?(?P<q_year>20\d\d)(?::? |$))"
    r"|(?P<leveled>" + _LEVEL + r":? +(?=\d{4}-\d\d-\d\d[T ]))"
    r"|(?P<logfmt>(?:time|ts|timestamp|t)=\"?(?=\d{4}-\d\d-\d\d[T ]))"
    r"|(?P<bsd>(?P<o_mon>[^\W\d_]{3,9}\.?) +(?P<o_day>\d{1,2}) (?P<o_t>\d\d:\d\d:\d\d)(?:\.(?P<o_f>\d{1,9}))? "
    r"(?=\S+ [\w./@()-]+(?:\[\d+\])?: |\[|kernel: |\S+ kern))"
    r"|(?P<bsd_year>(?P<u_mon>[A-Z][a-z]{2}) +(?P<u_day>\d{1,2}) (?P<u_year>20\d\d) (?P<u_t>\d\d:\d\d:\d\d)"
    r"(?:\.(?P<u_f>\d{1,9}))? (?=\S+ [\w./@()-]+(?:\[\d+\])?: |\[|kernel: ))"
    r"|(?P<full>[A-Z][a-z]{2} " + _ISO.format("w") + r" (?P<wz>[A-Z+-][\w:+-]{1,8}) )"
    r"|(?P<decode>(?:kern|user|daemon|syslog|auth|authpriv|local\d) *: *"
    r"(?:emerg|alert|crit|err|warn|notice|info|debug) *: ?|kern\.[a-z]{3,7} (?=kernel: ))"
    r"|(?P<guest>In\(\d{1,3}\) \S{1,40} - Guest: )"
    r"|(?P<login>(?P<i_host>[A-Za-z0-9][\w.-]{0,252}) login: (?=\[ *\d{1,10}\.\d{6}\]))"
    r"|(?P<kernel>kernel: ?)"
    r"|(?P<talos>(?P<t_host>[\w.:-]{1,253}): (?:kern|user|daemon): +\w+: )"
    r"|(?P<vllm>" + _LEVEL + r" (?P<v_mon>\d\d)-(?P<v_day>\d\d) (?P<v_t>\d\d:\d\d:\d\d)(?:\.\d+)? "
    r"(?:\[[\w./-]{1,120}:\d+\] ?|(?=\S+:\d+\] )\S{1,120}\] ?)?)"
    r"|(?P<submitit>submitit " + _LEVEL + r" \(" + _iso("b") + r"\) - )"
    r"|(?P<container>(?P<k_pod>[a-z0-9][a-z0-9.-]{0,200}-(?:worker|master|launcher|launch|node)-?\d{1,6})"
    r"(?:: ?| +\| ?| " + _AHEAD + r"))"
    r"|(?P<compose>(?P<w_pod>[a-z][a-z0-9_.]{0,60}(?:-[a-z0-9_.]{1,60}){0,6}-\d{1,4}) +\| )"
    r"|(?P<pdsh>(?P<p_host>[A-Za-z][\w.-]{0,252}):(?: |$))"
    r"|" + GREPPED + r")"
)
PAREN = re.compile(
    r"(?P<ray>\((?P<a_name>[\w.:@/ -]{1,120}?),? (?:rank=(?P<a_rank>\d{1,7}),? )?pid=(?P<a_pid>\d{1,9})"
    r"(?:, (?:ip|node)=(?P<a_ip>[\w.:-]{1,64}))?\)(?: |$))"
)
ANGLE = re.compile(
    r"(?:(?P<syslog><\d{1,3}>1 (?P<y_stamp>\S{1,40}) (?P<y_host>\S{1,255}) (?P<y_ident>\S{1,255}) \S{1,128} \S{1,32} "
    r"(?:-|\[[^\]]{0,2000}\]) ?\ufeff?)|(?P<priority><\d{1,3}>))"
)
BLANK = re.compile(
    r"(?P<srun> +(?P<s_task>\d{1,6}):(?: |$))|(?P<more>\s+(?=NVRM: ))|(?P<padded>\s+(?=\[ *\d+\.\d{6}\]))"
)
QUOTE = re.compile(r"(?P<quote>(?:(?:>|&gt;) ?\+? ?)+|[`'\"](?=\[|NVRM: |[A-Z][a-z]{2} +\d))")

SEL = re.compile(r"^ *[0-9a-f]{1,4} \| (?P<mon>\d\d)/(?P<day>\d\d)/(?P<year>\d{4}) \| (?P<clock>\d\d:\d\d:\d\d)")
"""An entry of a management controller's event log, whose columns all belong to the message."""
OWN_STAMP = re.compile(
    r"\[\d{4}-\d\d-\d\d|\d{4}-\d\d-\d\d[T ]\d\d:|\[rank\d|\[[EWIF]\d{3,4} |[EWIF]\d{4} \d\d:|\S{1,253}:\d+:\d+ \[\d|"
    + _STAMPED
)
"""What begins a line of its own: a word and a colon before it name who collected it."""
STATED = re.compile(r" AT " + _iso("b"))
"""When it happened, as Slurm says it behind no stamp."""
PROMPT = re.compile(
    r"\[?[\w.-]{1,64}@(?P<host>[\w-][\w.-]{0,252})(?: [^\s$#%>\]]{0,80}|:[^\s$#%>\]]{0,200})?\]? ?[$#%>](?: |$)"
)
"""A shell's prompt."""
ISO_STAMP = re.compile(_iso("b"))
IDENT = re.compile(
    r"(?P<host>[A-Za-z0-9][\w.-]{0,252}) (?:kern\.[a-z]{3,7} )?"
    r"(?:(?P<kernel>kernel)|(?P<ident>[A-Za-z][\w./@()-]{0,127}?)"
    r"(?:\[(?P<pid>\d{1,9})\])?): ?(?=(?P<rest>.?))"
)
"""Host and program as syslog writes them after its stamp."""
DAEMONS = re.compile(
    r"(?:kernel|systemd[\w-]*|kubelet|containerd|dockerd|slurm\w*|sshd|CRON|cron|opensm|smartd|mcelog|rasdaemon|ipmi\w*"
    r"|auditd?|sudo|su|rsyslogd|nvidia-[\w-]+|nv-[\w-]+|dcgm[\w-]*|nvswitch[\w-]*|fabricmanager|ibacm|srun|srp_daemon"
    r"|chronyd|ntpd|OpenSM|weka[\w-]*|mmfs\w*|beegfs[\w-]*|multipathd|earlyoom|nhc|lldpd|munged)\Z"
)
"""Programs whose name belongs to what they say; others only run somebody else's."""
EMBEDDED = re.compile(
    r"\[rank\d{1,7}\]:|\[[EWIF](?:\d{3,4} \d\d:\d\d:\d\d\.\d+ ?| )?\w+\.cpp:\d+\] ?"
    r"|(?<![\w.-])[A-Za-z0-9][\w.-]{0,252}:\d{1,9}:\d{1,9} \[\d{1,3}\] (?:[\w./-]+:\d+ (?:\(\w+\) )?)?"
    r"NCCL (?:INFO|WARN) "
)
"""Where another writer's line begins in the middle of one that was not finished."""
NO_HOST = re.compile(
    r"(?:nvidia|nvme\d|mlx[45]_|(?:eth|docker|veth|ib|bond|dm-|cni|loop|md|ata|usb|pci|scsi|sas|mpt\dsas|lo|team|br-?)\d"
    r"|en[opsx]\d|wl[opsx]|sd[a-z]\d|veth|python\d?|IPv\d|RTL\d|r8169|e1000|i40e|ixgbe|megaraid|x86|utf-?\d|UTF-?\d|xfs"
    r"|ext4|EXT4|AER|MCE|rcu|GPU-?\d|L\d|H\d|NVRM|lib\w+\.so|c10d?\Z|p2p\Z|sm_\d"
    r"|(?:[Ss]tep|[Ee]poch|[Ii]ter|[Ii]teration|[Bb]atch|[Rr]ank|[Ll]ayer|[Ss]tage|[Pp]hase|[Ff]old|[Vv]ersion|[Ll]ine"
    r"|[Ss]hard|ckpt|[Cc]heckpoint|[Tt]rial|[Ss]ample|[Ll]oss|acc|top|lr|[Tt]ime|[Cc]hannel|device|cuda|fp|bf|int|float|gpu"
    r"|global_step|iter_)[-_]?\d{1,9}\Z"
    r"|v?\d+(?:\.\d+){0,2}\Z|[\w.]*(?:Error|Exception|Warning|Interrupt)\Z|.*\.(?:py|cpp|cc|cu|h|c|so|sh|json|yaml|log)\Z)"
)
"""What looks like a host and its colon, and is a device, a file, a word of a training log, or an error."""

"""What other people call the fields of an incident: heads of columns, keys in front of a post-mortem, its headings."""

from __future__ import annotations

import re

_NAMES = {
    "ticket": (
        "id|incident id|incident|incident number|number|key|issue key|ticket|ticket id|case|编号|工单|工单号|事件编号"
    ),
    "title": "title|name|subject|short description|headline|message|标题|名称|主题|故障名称",
    "status": "status|state|状态",
    "severity": "severity|sev|priority|prio|urgency|level|严重程度|级别|优先级|等级|故障等级",
    "root_cause": "root cause|root causes|rootcause|cause|rca|trigger|root cause class|根因|根本原因|原因|故障原因",
    "component": (
        "component|components|component s|what was broken|part|subsystem|category|affected component|type|"
        "部件|组件|类型|分类|故障部件"
    ),
    "fleet": "fleet|cluster|site|region|environment|集群|机房",
    "date": "date|day|incident date|when|日期|故障日期",
    "began": (
        "began|start|start time|started|started at|start date|onset|occurred|occurred at|begin|"
        "incident start|it began|time|timestamp|开始时间|发生时间|故障时间|故障开始时间|时间"
    ),
    "detected": (
        "detected|detected at|detection time|created|created at|created on|created time|opened|opened at|"
        "opened on|reported|reported at|"
        "alerted|alert time|first seen|发现时间|告警时间|创建时间"
    ),
    "located": "located|located at|identified|identified at|diagnosed|diagnosed at|root cause found|定位时间",
    "mitigated": "mitigated|mitigated at|mitigation time|work went on|job restarted|缓解时间|止损时间",
    "resolved": (
        "resolved|resolved at|end|end time|ended|ended at|end date|fixed at|closed|closed at|recovered|"
        "recovered at|resolution time|resolved on|resolved date|closed on|whole again|"
        "恢复时间|解决时间|结束时间|关闭时间"
    ),
    "duration": "duration|ttr|time to repair|time to resolve|downtime|持续时间|时长|故障时长",
    "nodes": (
        "nodes|node|host|hosts|hostname|server|machine|affected nodes|affected hosts|configuration item|"
        "节点|主机|机器|服务器|主机名"
    ),
    "places": "places|place|where|culprit|culprits|location|位置|故障位置",
    "gpu": "gpu|gpu index|gpu id|gpus|卡号|gpu卡",
    "port": "port|hca|nic|端口",
    "job": "job|job id|jobid|slurm job|任务|作业|任务id",
    "symptoms": "symptoms|symptom|signatures|xid|xids|error code|seen|现象|症状|故障现象|报错",
    "resolution": (
        "resolution|fix|solution|fixed by|what fixed it|close notes|resolution notes|action taken|remediation|"
        "workaround|mitigation|recovery|"
        "解决方法|解决方案|处理方法|处理|解决|处理措施|恢复措施"
    ),
    "tags": "tags|labels|keywords|标签",
    "author": (
        "author|authors|owner|assignee|assigned to|assigned to user names|engineer|reporter|on call|oncall|responder|"
        "written by|incident commander|作者|负责人|处理人|值班"
    ),
    "link": "link|url|links|postmortem|链接",
    "summary": "summary|incident summary|description|details|overview|what happened|描述|概述|摘要|故障描述|详情",
    "impact": "impact|customer impact|影响|影响范围",
    "evidence": "evidence|logs|log|detection|证据|日志",
    "timeline": "timeline|时间线|经过|处理过程",
    "done": "what was done|actions taken|steps taken|处理步骤",
    "prevention": (
        "prevention|action items|actions|corrective actions|follow up|follow ups|followup|lessons learned|next steps|"
        "改进|预防|改进措施|预防措施|后续"
    ),
    "notes": "notes|note|comment|comments|remarks|备注|说明",
}
FIELDS = {field: tuple(names.split("|")) for field, names in _NAMES.items()}
"""Field -> names, the likeliest first."""
TEXTS = {
    "summary": "Summary", "impact": "Impact", "timeline": "Timeline", "evidence": "Evidence", "done": "What was done",
    "prevention": "Prevention", "notes": "Notes",
}  # fmt: skip
"""Fields that are sections of the body -> heading, in their order there."""
_BY_NAME = {name: field for field, names in reversed(FIELDS.items()) for name in names}
_BY_LETTERS = {name.replace(" ", ""): field for name, field in _BY_NAME.items()}
"""As `CreatedAt` writes them."""


def plain_name(text: str) -> str:
    """Return a head of a column as the names of FIELDS are written: `Start_Time (UTC)` is `start time`."""
    text = re.sub(r"[(（\[].*?[)）\]]", " ", text)
    text = re.sub(r"[_\-/:：*`#.]+", " ", text)
    return re.sub(r"\s+", " ", text).strip().casefold()


def field_of(text: str) -> str:
    """Return the field that a head of a column or a key stands for, or nothing."""
    name = plain_name(text)
    return _BY_NAME.get(name, "") or _BY_LETTERS.get(name.replace(" ", ""), "") or (name if name in FIELDS else "")

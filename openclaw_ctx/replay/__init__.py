"""A recorded session through an engine: measures, table, picture."""

from .driver import Progress, replay_session
from .measures import Call, Replay, Run, as_json
from .report import REPORT_MARK, render_report
from .table import render

__all__ = [
    "REPORT_MARK",
    "Call",
    "Progress",
    "Replay",
    "Run",
    "as_json",
    "render",
    "render_report",
    "replay_session",
]

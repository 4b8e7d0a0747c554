"""A recorded session through an engine: measures, table, picture."""

from .compactions import Compaction, GivenUp
from .driver import LEAST_BUDGET, Progress, replay_session
from .measures import Call, Replay, Run, as_json
from .report import REPORT_MARK, render_report
from .summaries import EXTRACTIVE, SCRIPTED, Summaries
from .table import render

__all__ = [
    "EXTRACTIVE",
    "LEAST_BUDGET",
    "REPORT_MARK",
    "SCRIPTED",
    "Call",
    "Compaction",
    "GivenUp",
    "Progress",
    "Replay",
    "Run",
    "Summaries",
    "as_json",
    "render",
    "render_report",
    "replay_session",
]

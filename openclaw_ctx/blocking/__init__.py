"""
The host for people without an event loop: same names, plain calls.

::

    with blocking.Host.open(config) as host, host.session("kitchen") as chat:
        chat.append(UserMessage(content="Hello"))
        prompt = chat.assemble(budget=8_000)
"""

from .host import Host
from .model import PlainComplete
from .session import EngineTool, Session, Subagent
from .store import Store

__all__ = ["EngineTool", "Host", "PlainComplete", "Session", "Store", "Subagent"]

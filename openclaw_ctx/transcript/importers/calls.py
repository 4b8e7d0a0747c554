"""Which tool call a result answers, where the recording does not always say."""

from openclaw_ctx.contract import JSON

__all__ = ["CallLedger"]


class CallLedger:
    """
    The tool calls of one session, as they are read.

    A recording may leave out the ids; then a call gets one made from its place,
    and a result without an id answers the oldest call that waits for one.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._waiting: dict[str, None] = {}

    def open(self, call_id: JSON, name: str, *, place: str) -> str:
        """Note a call and return its id."""
        known = call_id if isinstance(call_id, str) and call_id else place
        self._names[known] = name
        self._waiting[known] = None
        return known

    def close(self, call_id: JSON, *, place: str) -> tuple[str, str | None]:
        """Return the id of the call that a result answers, and the tool's name where the call is known."""
        known = call_id if isinstance(call_id, str) and call_id else next(iter(self._waiting), place)
        self._waiting.pop(known, None)
        return known, self._names.get(known)

    def abandon(self) -> None:
        """Note that the user spoke: what still waits was never answered."""
        self._waiting.clear()

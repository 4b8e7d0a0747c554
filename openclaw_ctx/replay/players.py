"""
Two ways to play a recording: to ask for prompts alone, or to run its turns.

Both write the recorded messages, in their order, into a session of their own.
"""

from collections.abc import Callable, Sequence
from typing import Final

from openclaw_ctx.assembly import Session
from openclaw_ctx.contract import (
    AbortSignal,
    AssistantMessage,
    CompactResult,
    Message,
    SystemMessage,
    ToolResultMessage,
    UserMessage,
)
from openclaw_ctx.errors import AbortError, EngineFailedError, TurnBlockedError
from openclaw_ctx.runtime import (
    Compacted,
    Compacting,
    MessageAppended,
    ModelAsked,
    Prompt,
    ToolStarted,
    TurnEvent,
)
from openclaw_ctx.tokens import TokenCounter

from .ledger import Ledger
from .recorded import RecordedModel, RecordedTools, Recording

__all__ = ["Assembling", "Player", "Running", "Told"]

Told = Callable[[int, str], None]
"""(messages done, what is being done where that takes long)"""

_COMPACTION_TRIES: Final = 2
_WORKING: Final = "compacting"
_END: Final = "the recording goes on otherwise"


class Player:
    """What both ways have in common: turns are told apart by when the user speaks."""

    def __init__(self, session: Session, ledger: Ledger, *, budget: int | None, told: Told) -> None:
        self._session = session
        self._ledger = ledger
        self._budget = budget
        self._told = told
        self._system_prompt: str | None = None
        self._ended = True

    async def play(self, messages: Sequence[Message]) -> None:
        """Play them all."""
        raise NotImplementedError

    async def _open_turn(self, message: Message) -> bool:
        """End the turn before *message* if that opens one; return whether it does."""
        if isinstance(message, UserMessage) and not self._ended and self._answered():
            await self._end_turn()
        opens, self._ended = self._ended, False
        self._ledger.turn += opens
        return opens

    def _takes_as_prompt(self, message: Message) -> bool:
        """Keep a system message that opens the recording as the system prompt."""
        if not isinstance(message, SystemMessage) or self._ledger.record:
            return False
        self._system_prompt = message.text
        return True

    def _answered(self) -> bool:
        last = self._session.history[-1:]
        return bool(last) and not isinstance(last[0], UserMessage)

    async def _append(self, message: Message) -> None:
        self._ledger.note_message(await self._session.append(message))

    async def _end_turn(self) -> None:
        ended = await self._session.end_turn(budget=self._budget)
        self._ledger.note_substitution(ended.substitution)
        self._ended = True
        self._ledger.note_turn_end()


class Assembling(Player):
    """Asks the engine for a prompt before each recorded reply; no turn is run."""

    async def play(self, messages: Sequence[Message]) -> None:
        """Play them all."""
        for done, message in enumerate(messages, 1):
            if not self._takes_as_prompt(message):
                await self._open_turn(message)
                if isinstance(message, AssistantMessage) and self._ledger.record:
                    await self._call()
                await self._append(message)
            self._told(done, "")
        if not self._ended:
            await self._end_turn()

    async def _call(self) -> None:
        prompt = await self._assemble()
        for _ in range(_COMPACTION_TRIES):
            if not prompt.over_budget or not await self._compact(prompt):
                break
            prompt = await self._assemble()
        self._ledger.ask(prompt, self._session)
        self._ledger.answer()

    async def _assemble(self) -> Prompt:
        prompt = await self._session.assemble(budget=self._budget, system_prompt=self._system_prompt)
        self._ledger.note_substitution(prompt.substitution)
        return prompt

    async def _compact(self, prompt: Prompt) -> bool:
        """Return whether the context is another now; a failure has made the built-in engine serve."""
        self._ledger.engine = prompt.engine
        self._ledger.begin("budget", prompt.estimated_tokens)
        try:
            compacted = await self._session.compact(budget=self._budget, trigger="budget")
        except EngineFailedError as error:
            self._ledger.end(CompactResult(ok=False, compacted=False, reason=error.reason), self._session)
            return False
        self._ledger.note_substitution(compacted.substitution)
        self._ledger.end(compacted.result, self._session)
        return compacted.result.compacted


class Running(Player):
    """
    Runs the recorded turns: what the model said is said by it again, and its tools answer as they did.

    Where the recording goes on otherwise than a turn would (somebody put a word
    in, or it broke off), the turn is ended there, and the next message is written.
    What belongs to a turn that the host gave up is written as it was recorded.
    """

    def __init__(
        self,
        session: Session,
        ledger: Ledger,
        *,
        budget: int | None,
        told: Told,
        count: TokenCounter,
        context_window: int | None,
    ) -> None:
        super().__init__(session, ledger, budget=budget, told=told)
        self._count = count
        self._context_window = context_window
        self._given_up = False
        self._results_due = 0
        self._handed_over = False
        self._abort = AbortSignal()

    async def play(self, messages: Sequence[Message]) -> None:
        """Play them all."""
        self._recording = recording = Recording(messages)
        self._model = RecordedModel(recording, count=self._count, limit=self._budget)
        self._tools = RecordedTools(recording, messages)
        while (message := recording.peek()) is not None:
            if isinstance(message, AssistantMessage) and self._ledger.record and not self._given_up:
                await self._open_turn(message)
                await self._run(None)
            else:
                await self._say(recording.take())
            self._told(recording.done, "")
        if not self._ended:
            await self._end_turn()

    async def _say(self, message: Message) -> None:
        """Write a message that is no reply; run the turn that it opens, if a reply follows."""
        if self._takes_as_prompt(message):
            return
        if await self._open_turn(message):
            self._given_up = False
        follows = isinstance(self._recording.peek(), AssistantMessage)
        if isinstance(message, UserMessage) and message.content and follows and not self._given_up:
            await self._run(message)
        else:
            await self._append(message)

    async def _run(self, message: UserMessage | None) -> None:
        self._abort, self._handed_over = AbortSignal(), False
        try:
            result = await self._session.run(
                message,
                model=self._model,
                context_window=self._context_window,
                system_prompt=self._system_prompt,
                tools=self._tools.tools,
                on_event=self._hear,
                abort=self._abort,
            )
        except TurnBlockedError as error:
            # The recording's agent may have had more patience: then the turn goes on where it was.
            if error.kind != "retry_limit":
                self._given_up = True
                self._ledger.give_up(error)
        except AbortError:
            if not self._abort.fired:
                raise
        else:
            self._ledger.note_substitution(result.substitution)
            await self._session.settle()
            self._ledger.note_turn_end()
            self._handed_over = True

    async def _append(self, message: Message) -> None:
        self._handed_over = False
        await super()._append(message)

    async def _end_turn(self) -> None:
        if self._handed_over:  # by the host, behind the answer
            self._ended = True
        else:
            await super()._end_turn()

    def _hear(self, event: TurnEvent) -> None:
        match event:
            case ModelAsked():
                self._ledger.ask(event.prompt, self._session)
                self._ledger.note_substitution(event.prompt.substitution)
            case Compacting():
                self._told(self._recording.done, _WORKING)
                self._ledger.begin(event.trigger, event.tokens)
            case Compacted():
                self._ledger.end(event.result, self._session)
                self._told(self._recording.done, "")
            case ToolStarted():
                self._tools.note(event.call)
            case MessageAppended():
                self._hear_message(event.message)

    def _hear_message(self, message: Message) -> None:
        if isinstance(message, AssistantMessage):
            self._ledger.answer(tokens=self._model.tokens)
            self._results_due = len(message.tool_calls)
        self._ledger.note_message(message)
        if isinstance(message, ToolResultMessage):
            self._results_due -= 1
            if not self._results_due and not isinstance(self._recording.peek(), AssistantMessage):
                self._abort.fire(_END)
        self._told(self._recording.done, "")

"""
A program as somebody outside writes it: checked by ``mypy --strict`` against the installed wheel.

Never run. The ``types`` environment of tox checks it from another folder, so
that what is found is the wheel with its stubs and not this tree.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import assert_type

import attrs

from openclaw_ctx import (
    AbortSignal,
    AnswerEnded,
    AnthropicModel,
    AssembleResult,
    AssistantMessage,
    CompactResult,
    Complete,
    CompletionRequest,
    Config,
    EngineContext,
    EngineFactory,
    EngineInfo,
    History,
    HookCall,
    Host,
    IngestResult,
    Message,
    MirrorRow,
    Model,
    ModelError,
    ModelRequest,
    OpenAICompatibleModel,
    Opening,
    QuarantineRecord,
    RateLimitedError,
    Registration,
    ScriptedAnswer,
    ScriptedModel,
    Selection,
    Session,
    SessionKey,
    TextBlock,
    TextDelta,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    as_complete,
    hookimpl,
)


@attrs.frozen(kw_only=True)
class LastFewConfig:
    """What the user may set."""

    keep: int = attrs.field(default=10, validator=attrs.validators.ge(1))


class LastFew:
    """An engine with a configuration, sync and async hooks."""

    info = EngineInfo(id="last-few", name="The last few messages", contract="1.0")
    config_class = LastFewConfig

    def __init__(self, context: EngineContext) -> None:
        self._config: LastFewConfig = context.config
        self._services = context.services

    @hookimpl
    def ingest(self) -> IngestResult:
        """Keep no index."""
        return IngestResult(ingested=False)

    @hookimpl
    def assemble(self, messages: Sequence[Message], token_budget: int | None) -> AssembleResult:
        """Return the end of the history."""
        kept = messages[-self._config.keep :]
        spent = sum(map(self._services.estimate_tokens, kept))
        note = "" if token_budget is None or spent <= token_budget else "Over the budget."
        return AssembleResult(messages=kept, estimated_tokens=spent, system_prompt_addition=note or None)

    @hookimpl
    async def compact(self, session_key: SessionKey, token_budget: int | None, force: bool) -> CompactResult:  # noqa: FBT001 -- the contract's
        """Let the host do it."""
        return await self._services.delegate_compaction(session_key, token_budget=token_budget, force=force)


def make_last_few(context: EngineContext) -> LastFew:
    """Build the engine, as an entry point may."""
    return LastFew(context)


def models() -> list[Model]:
    """Return one of each kind."""
    script = ScriptedModel(["Hello.", ScriptedAnswer(text="Bye."), lambda request: request.system_prompt or ""])
    return [script, OpenAICompatibleModel("m", base_url="http://localhost/v1"), AnthropicModel("m", api_key="k")]


async def ask(model: Model) -> str:
    """Ask as it comes, and whole."""
    request = ModelRequest(messages=[UserMessage(content="Hello?")], tools=[{"name": "boil"}])
    async for event in model.stream(request, abort=AbortSignal()):
        match event:
            case TextDelta(text=text):
                assert_type(text, str)
            case AnswerEnded(answer=answer):
                assert_type(answer.message, AssistantMessage)
    try:
        answer = await model.complete(request)
    except RateLimitedError as error:
        return f"wait {error.retry_after_seconds}"
    except ModelError as error:
        return str(error.retryable)
    complete: Complete = as_complete(model)
    result = await complete(CompletionRequest(messages=[answer.message]))
    return result.text


async def talk(config: Config, ask_model: Callable[[Sequence[Message]], Awaitable[str]]) -> str:
    """Run one turn with an engine of the program's own."""
    calls: list[HookCall] = []
    factories: list[EngineFactory] = [LastFew, make_last_few]
    opening: Opening[Host] = Host.open(config, observe=calls.append)
    async with opening as host:
        offered: Registration = host.register_engine("last-few", factories[0])
        selection: Selection = host.selection()
        async with host.session("kitchen") as chat:
            assert_type(chat, Session)
            assert_type(chat.history, History)
            await chat.append(UserMessage(content="Boil an egg", extra={"channel": "kitchen"}))
            call = ToolCallBlock(id="1", name="boil", arguments={"minutes": 6})
            await chat.append(AssistantMessage(content=[TextBlock(text="At once."), call], usage={"input": 12}))
            texts = [TextBlock(text="Done.")]
            await chat.append(ToolResultMessage(tool_call_id="1", content=texts, details={"pot": 2}))
            prompt = await chat.assemble(budget=8_000, tools=[{"name": "boil"}])
            assert_type(prompt.messages, Sequence[Message])
            answer = await ask_model(prompt.messages)
            await chat.append(AssistantMessage(content=answer))
            ended = await chat.end_turn()
        rows: list[MirrorRow] = host.quarantines()
        records: list[QuarantineRecord] = [row.record for row in rows]
    failed = [call.operation for call in calls if call.failed]
    return " ".join([offered.owner, selection.engine_id, ended.engine, *failed, *(r.reason for r in records)])

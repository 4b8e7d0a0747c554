"""The engine: what the host calls, and what is done about it."""

import contextlib
from collections.abc import Sequence
from typing import Final

from openclaw_ctx import (
    AssembleResult,
    BootstrapReason,
    BootstrapResult,
    CompactResult,
    EngineContext,
    EngineInfo,
    EngineTool,
    IngestResult,
    Message,
    RewriteResult,
    RuntimeContext,
    SessionClosedError,
    SessionKey,
    SubagentEnd,
    UserMessage,
    build_memory_system_prompt_addition,
    hookimpl,
)

from .assembling import Assembly
from .config import RagConfig
from .embedders import make_embedder
from .embedding import Embedding
from .following import INLINE_MESSAGES, Followed, delete_index, path_of
from .index import IndexDamagedError, Vectors
from .recall_tools import recall_tools
from .rendering import Code

__all__ = ["RagEngine"]

_TIDY_SECONDS: Final = 0.05


class RagEngine:
    """Indexes every message, and brings back what matters for the question, within the budget."""

    config_class = RagConfig
    info = EngineInfo(id="rag", name="Retrieval", version="0.1.0", turn_maintenance_mode="background", contract="1.0")

    def __init__(self, context: EngineContext) -> None:
        self._config: RagConfig = context.config
        self._services = context.services
        self._folder = context.state_dir
        self._code = Code(context.state_dir)
        embedder = make_embedder(self._config)
        self._embedding = None if embedder is None else Embedding(embedder)
        self._sessions: dict[SessionKey, Followed] = {}

    # -- taking what is said ----------------------------------------------------------------------

    @hookimpl
    async def bootstrap(self, session_key: SessionKey, session_file: str, reason: BootstrapReason) -> BootstrapResult:
        """Index what the transcript has and the index has not: at once where that is little, else behind the turns."""
        followed = self._followed(session_key)
        try:
            if not followed.is_of(session_file):
                followed.forget()
            missing = await followed.meet(reason)
        except IndexDamagedError:
            followed.forget()
            missing = await followed.meet(reason)
        self._take_missing(followed, missing)
        followed.see(session_file)
        return BootstrapResult(bootstrapped=True, imported_messages=len(missing))

    @hookimpl
    async def ingest(self, session_key: SessionKey, message: Message) -> IngestResult:
        """Index one message."""
        return IngestResult(ingested=await self._take(self._followed(session_key), [message]) > 0)

    @hookimpl
    async def after_turn(
        self,
        session_key: SessionKey,
        session_file: str,
        messages: Sequence[Message],
        pre_prompt_message_count: int,
    ) -> None:
        """Index a turn; its vectors follow behind it."""
        followed = self._followed(session_key)
        try:
            missing = await followed.level(messages[:pre_prompt_message_count], all_told=True)
        except IndexDamagedError:
            await self._import_anew(followed)
        else:
            if len(missing):
                self._take_missing(followed, missing)
        await self._take(followed, messages[pre_prompt_message_count:])
        followed.see(session_file)

    # -- giving it back ---------------------------------------------------------------------------

    @hookimpl
    async def assemble(
        self,
        session_key: SessionKey,
        messages: Sequence[Message],
        token_budget: int | None,
        prompt: str | None,
        runtime_context: RuntimeContext,
    ) -> AssembleResult:
        """Return the newest turns, and before them what was found for the question; all, where all fits."""
        memory = build_memory_system_prompt_addition(runtime_context)
        if token_budget is None:
            return AssembleResult(messages=messages, system_prompt_addition=memory)
        count = self._services.estimate_tokens
        budget = token_budget - (count(UserMessage(content=memory)) if memory else 0)
        followed = self._followed(session_key)
        assembly = Assembly(
            followed=followed,
            messages=messages,
            budget=max(1, budget),
            count=count,
            code=self._code.of(session_key),
        )
        return _with_memory(await self._assemble(assembly, prompt), memory)

    async def _assemble(self, assembly: Assembly, prompt: str | None) -> AssembleResult:
        widest = assembly.newest()
        if widest.whole and not widest.head:
            return assembly.without_recall(widest)
        recent = widest if widest.whole else assembly.newest(self._config.recent_share)
        question = prompt or assembly.question()
        followed = assembly.followed
        try:
            missing = await followed.level(assembly.messages)
            if len(missing):
                self._take_missing(followed, missing)
            found = assembly.with_recall(recent, question, await self._vector_of(followed, question))
        except IndexDamagedError:
            await self._import_anew(followed)
            found = None
        return found or assembly.without_recall(widest)

    @hookimpl
    async def compact(
        self,
        session_key: SessionKey,
        token_budget: int | None,
        force: bool,  # noqa: FBT001 -- the contract's
        current_token_count: int | None,
        custom_instructions: str | None,
    ) -> CompactResult:
        """Let the host compact; what its summary stands for is still found."""
        return await self._services.delegate_compaction(
            session_key,
            token_budget=token_budget,
            force=force,
            current_token_count=current_token_count,
            custom_instructions=custom_instructions,
        )

    @hookimpl
    def tools(self, session_key: SessionKey) -> Sequence[EngineTool]:
        """Offer a search of the history, and reading in it."""
        followed = self._followed(session_key)
        return recall_tools(followed, lambda query: self._vector_of(followed, query))

    # -- keeping house ----------------------------------------------------------------------------

    @hookimpl
    def maintain(self, session_key: SessionKey) -> RewriteResult:
        """Put the index in order, a little at a time."""
        followed = self._followed(session_key)
        if not followed.is_importing:
            with contextlib.suppress(IndexDamagedError):  # which the next prompt finds, and mends
                followed.index.tidy(_TIDY_SECONDS)
        return RewriteResult(changed=False)

    @hookimpl
    def on_subagent_ended(self, child_session_key: SessionKey, reason: SubagentEnd) -> None:
        """Let go of a child's index; where the child was deleted, so is that."""
        followed = self._sessions.pop(child_session_key, None)
        if followed is not None:
            followed.close()
        if reason == "deleted":
            delete_index(path_of(self._folder, child_session_key))

    @hookimpl
    async def dispose(self) -> None:
        """Close every index."""
        for followed in self._sessions.values():
            followed.close()
        self._sessions.clear()
        if self._embedding is not None:
            await self._embedding.close()

    def _followed(self, session_key: SessionKey) -> Followed:
        followed = self._sessions.get(session_key)
        if followed is None:
            followed = self._sessions[session_key] = Followed(self._folder, session_key, self._services)
        return followed

    async def _take(self, followed: Followed, messages: Sequence[Message]) -> int:
        try:
            taken = followed.take(messages)
        except IndexDamagedError:
            await self._import_anew(followed)
            return 0
        if taken:
            self._embed_behind(followed)
        return taken

    def _take_missing(self, followed: Followed, missing: Sequence[Message]) -> None:
        """Index what the transcript has and the index has not: at once where that is little, else behind the turns."""
        if len(missing) <= INLINE_MESSAGES:
            followed.take_now(missing)
            self._embed_behind(followed)
        else:
            self._import_behind(followed, missing)

    async def _import_anew(self, followed: Followed) -> None:
        followed.forget()
        self._import_behind(followed, await followed.meet("import"))

    def _import_behind(self, followed: Followed, messages: Sequence[Message]) -> None:
        job = self._behind(followed, messages, followed.begin_import())
        self._services.background(job, name=f"index {followed.key}", progress=followed.progress)

    def _embed_behind(self, followed: Followed) -> None:
        if self._embedding is not None and not followed.is_importing:
            self._services.background(self._behind(followed), name=f"embed {followed.key}")

    async def _behind(self, followed: Followed, messages: Sequence[Message] = (), run: int | None = None) -> None:
        """Index *messages* where they are an import's, then find vectors for what has none."""
        with contextlib.suppress(SessionClosedError):  # what is missing is taken when it is opened again
            await self._index_and_embed(followed, messages, run)

    async def _index_and_embed(self, followed: Followed, messages: Sequence[Message], run: int | None) -> None:
        index = followed.index
        try:
            if run is not None:
                await followed.take_behind(messages, run)
            if self._embedding is not None:
                await self._embedding.fill(index)
        except SessionClosedError:
            raise
        except Exception as error:
            if followed.closed or index is not followed.index:
                return  # it was let go of meanwhile, or begun anew
            if not isinstance(error, IndexDamagedError):
                raise
            await self._import_anew(followed)

    async def _vector_of(self, followed: Followed, question: str) -> Vectors | None:
        """Return the question's vector, in time and of the model that the index's are of; else nothing."""
        embedding = self._embedding
        if embedding is None or not question.strip() or not embedding.is_of(followed.index):
            return None
        vector = await embedding.of_query(question, seconds=self._config.query_seconds)
        return vector if embedding.is_of(followed.index) else None


def _with_memory(result: AssembleResult, memory: str | None) -> AssembleResult:
    if not memory:
        return result
    said = result.system_prompt_addition
    return AssembleResult(
        messages=result.messages,
        estimated_tokens=result.estimated_tokens,
        system_prompt_addition=f"{memory}\n\n{said}" if said else memory,
    )

"""Who writes the summaries of a replay's compactions."""

from typing import Final

import attrs

from openclaw_ctx.contract import Complete, CompletionRequest, CompletionResult
from openclaw_ctx.errors import ModelUnavailableError
from openclaw_ctx.models import HEADING, Model, as_complete
from openclaw_ctx.tokens import TokenCounter, estimate_tokens

__all__ = ["EXTRACTIVE", "SCRIPTED", "Summaries"]

SCRIPTED: Final = "scripted"
"""The name of a script that answers like a model, with a few fixed words."""

EXTRACTIVE: Final = "extractive"
"""The name of the host's own summaries: lines copied from the conversation."""

_FORM: Final = """\
## Goal
A script stands here for a summary by a model.

## Progress
### Done
Request {number} of this replay, of {tokens:,} tokens.

## Next Steps
As the recording goes on."""


@attrs.define(eq=False)
class Summaries:
    """
    Who writes summaries; called like a model that completes, it counts how often it was asked.

    Attributes:
        name: ``scripted``, ``extractive``, or ``provider/model``.
        complete: Asks the model; ``None``: the host copies lines.
        provider: By which, with *model*, the configuration knows the model's window.
        requests: How often it was asked.
    """

    name: str
    complete: Complete | None = None
    provider: str | None = None
    model: str | None = None
    requests: int = 0

    @classmethod
    def scripted(cls, count: TokenCounter = estimate_tokens) -> "Summaries":
        """Return what summarises by the way of a model, and asks none: the same few words for any conversation."""
        number = 0

        async def complete(request: CompletionRequest) -> CompletionResult:
            nonlocal number
            number += 1
            tokens = count.total(request.messages) + count.prompt(request.system_prompt)
            return CompletionResult(text=_FORM.format(number=number, tokens=tokens))

        return cls(name=SCRIPTED, complete=complete)

    @classmethod
    def extractive(cls) -> "Summaries":
        """Return what stands for the host's own way, which asks nobody."""
        return cls(name=EXTRACTIVE)

    @classmethod
    def by(cls, model: Model, name: str) -> "Summaries":
        """Return *model*, called *name*, as who summarises; it stays yours to close."""
        provider, _, of_provider = name.partition("/")
        return cls(name=name, complete=as_complete(model), provider=provider, model=of_provider)

    async def __call__(self, request: CompletionRequest) -> CompletionResult:
        """Ask the model."""
        if self.complete is None:
            raise ModelUnavailableError
        self.requests += 1
        return await self.complete(request)

    def wrote(self, summary: str | None, requests: int, *, engine: str) -> str:
        """Return who has written *summary*, for which so many requests were made."""
        if requests:
            return self.name
        return EXTRACTIVE if summary is not None and summary.startswith(HEADING) else engine

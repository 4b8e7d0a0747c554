from .anthropic_messages import (
    AnthropicModel,
)
from .classify import (
    Failure,
    FailureKind,
    classify_failure,
)
from .client import (
    AnswerEnded,
    Model,
    ModelAnswer,
    ModelEvent,
    ModelRequest,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolCallReady,
    UsageReported,
    as_complete,
    obeying,
    whole_answer,
)
from .connect import (
    ModelAddress,
    address_from,
    connect_model,
    split_model_name,
)
from .extractive import (
    HEADING,
    summarize_extractively,
)
from .failures import (
    model_error,
)
from .figures import (
    observed_tokens,
    token_limit,
)
from .openai_compatible import (
    OpenAICompatibleModel,
)
from .scripted import (
    FakeClock,
    ScriptedAnswer,
    ScriptedModel,
    ScriptLine,
)

__all__ = [
    "HEADING",
    "AnswerEnded",
    "AnthropicModel",
    "Failure",
    "FailureKind",
    "FakeClock",
    "Model",
    "ModelAddress",
    "ModelAnswer",
    "ModelEvent",
    "ModelRequest",
    "OpenAICompatibleModel",
    "ScriptLine",
    "ScriptedAnswer",
    "ScriptedModel",
    "TextDelta",
    "ThinkingDelta",
    "TokenUsage",
    "ToolCallReady",
    "UsageReported",
    "address_from",
    "as_complete",
    "classify_failure",
    "connect_model",
    "model_error",
    "obeying",
    "observed_tokens",
    "split_model_name",
    "summarize_extractively",
    "token_limit",
    "whole_answer",
]

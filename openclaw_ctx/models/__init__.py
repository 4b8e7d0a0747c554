"""Who answers: one protocol, the providers' clients, a script, and a summary that needs no model."""

from openclaw_ctx.door import open_door

__getattr__, __dir__, __all__ = open_door(
    __name__,
    {
        ".anthropic_messages": ("AnthropicModel",),
        ".classify": ("Failure", "FailureKind", "classify_failure"),
        ".client": (
            "AnswerEnded",
            "Model",
            "ModelAnswer",
            "ModelEvent",
            "ModelRequest",
            "TextDelta",
            "ThinkingDelta",
            "TokenUsage",
            "ToolCallReady",
            "UsageReported",
            "as_complete",
            "obeying",
            "whole_answer",
        ),
        ".connect": ("ModelAddress", "address_from", "connect_model", "split_model_name"),
        ".extractive": ("HEADING", "summarize_extractively"),
        ".failures": ("model_error",),
        ".figures": ("observed_tokens", "token_limit"),
        ".openai_compatible": ("OpenAICompatibleModel",),
        ".scripted": ("FakeClock", "ScriptLine", "ScriptedAnswer", "ScriptedModel"),
    },
)

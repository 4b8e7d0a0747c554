"""What providers say, in their words: too long, and too much for now."""

__all__ = ["FIELD_OVERFLOWS", "OVERFLOWS", "RATES"]

OVERFLOWS = {
    "request_too_large": "request_too_large",
    "a-code-of-openai": "context_length_exceeded",
    "context-length-exceeded": "Context length exceeded.",
    "openai": "This model's maximum context length is 8192 tokens. However, you requested 10000 tokens "
    "(9000 in the messages, 1000 in the completion).",
    "anthropic": "prompt is too long: 203456 tokens > 200000 maximum",
    "prompt-too-long": "Prompt too long",
    "exceeds-model-context-window": "input exceeds model context window",
    "kimi": "Invalid request: Your request exceeded model token limit: 262144 (requested: 280000)",
    "request-exceeds-the-maximum-size": "Request exceeds the maximum size",
    "context-overflow-colon": "Context overflow: prompt too large for the model.",
    "exceed-context-limit": "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
    "exceeds-the-models-maximum-context": "the request exceeds the model's maximum context",
    "context_window_exceeded": "context_window_exceeded",
    "google": "INVALID_ARGUMENT: the maximum number of tokens allowed is 1048576",
    "input-exceeds": "input exceeds what fits: the maximum number of tokens is 4096",
    "request-size-and-window": "request size exceeds the model's context window",
    "request-size-and-length": "request size exceeds context length",
    "out-of-room": "The context window of this model ran out of room",
    "out-of-space": "context window: ran out of space",
    "max-tokens-and-context": "max_tokens of 5000 would exceed the context",
    "input-length-and-context": "the input length would exceed the context",
    "413-too-large": "413 Request Entity Too Large",
    "gemini": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    "gemini-without-numbers": "input token count exceeds the maximum number of input tokens",
    "bedrock": "Input is too long for requested model.",
    "input-too-long": "input is too long for this model",
    "maximum-number": "Input exceeds the maximum number of tokens",
    "max-tokens-allowed": "tokens in request more than max tokens allowed",
    "ollama": "ollama error: context length exceeded",
    "total-tokens": "Total tokens 5000 exceeds the limit of 4096",
    "llama.cpp": "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
    "llama.cpp-before": "the request exceeds the available context size. try increasing the context size",
    "chinese-1": "上下文过长",
    "chinese-2": "错误, 上下文超出限制",
    "chinese-3": "上下文长度超过模型限制",
    "chinese-4": "输入超出最大上下文长度",
    "chinese-5": "请压缩上下文后重试",
    "loose-overflow": "the context would overflow",
    "loose-window": "invalid params, context window exceeds limit (2013)",
    "loose-prompt": "Prompt exceeds max length",
    "loose-request": "request has more context than the limit",
    "openai-responses": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "copilot": "prompt token count of 130000 exceeds the limit of 128000",
    "xai": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "dashscope": "Range of input length should be [1, 129024]",
}
"""Those of the reference system."""

FIELD_OVERFLOWS = {
    "configured-limit": "Input tokens exceed the configured limit of 272000 tokens. "
    "Your messages resulted in 509178 tokens.",
    "sum-without-marks": "input length and max_tokens exceed context limit: 179413 + 32768 > 200000",
    "input-length": "Input length (265330) exceeds model's maximum context length (262144).",
    "all-messages": "The total length of all messages is too long.",
    "bare-code": "context_overflow",
    "vllm": "You passed 99073 input tokens and requested 32000 output tokens. However, the model's context length is "
    "only 131072 tokens, resulting in a maximum input length of 99072 tokens.",
    "vllm-at-least": "This model's maximum context length is 262144 tokens. However, you requested 0 output tokens and "
    "your prompt contains at least 262145 input tokens, for a total of at least 262145 tokens.",
    "openrouter": "This endpoint's maximum context length is 262144 tokens. However, you requested about 284283 tokens "
    "(8963 of text input, 13176 of tool input, 262144 in the output). Please reduce the length of either one.",
    "kimi-in-bytes": "total message size 2100954 exceeds limit 2097152",
    "groq": "Please reduce the length of the messages or completion.",
    "lm-studio": "The number of tokens to keep from the initial prompt is greater than the context length",
    "longer-than": "This prompt is longer than the free tier allows for a single request",
    "mistral": "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
}
"""Those from the field, which slipped through it."""

RATES = {
    "tpd": "request reached organization TPD rate limit, current: 1506556, limit: 1500000",
    "throttling": "ThrottlingException: Too many tokens, please wait",
    "tpm": "Too many tokens per minute",
    "openai": "Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 28000, Requested 3000. "
    "Please try again in 2s.",
    "requests": "Rate limit reached for requests per min (RPM): Limit 3, Used 3, Requested 1.",
}
"""Those that are no overflow."""

from .assembly import (
    BackgroundJob as BackgroundJob,
)
from .assembly import (
    CompactedContext as CompactedContext,
)
from .assembly import (
    EndedTurn as EndedTurn,
)
from .assembly import (
    Host as Host,
)
from .assembly import (
    Prompt as Prompt,
)
from .assembly import (
    Session as Session,
)
from .config import (
    LoadedSettings as LoadedSettings,
)
from .config import (
    Settings as Settings,
)
from .config import (
    load_settings as load_settings,
)
from .contract import (
    CAPABILITIES as CAPABILITIES,
)
from .contract import (
    CONTRACT_VERSION as CONTRACT_VERSION,
)
from .contract import (
    EMPTY as EMPTY,
)
from .contract import (
    JSON as JSON,
)
from .contract import (
    LEGACY_ENGINE_ID as LEGACY_ENGINE_ID,
)
from .contract import (
    PROJECT as PROJECT,
)
from .contract import (
    AbortSignal as AbortSignal,
)
from .contract import (
    AssembleResult as AssembleResult,
)
from .contract import (
    AssistantMessage as AssistantMessage,
)
from .contract import (
    Background as Background,
)
from .contract import (
    BashExecutionMessage as BashExecutionMessage,
)
from .contract import (
    Block as Block,
)
from .contract import (
    BootstrapReason as BootstrapReason,
)
from .contract import (
    BootstrapResult as BootstrapResult,
)
from .contract import (
    BranchSummaryMessage as BranchSummaryMessage,
)
from .contract import (
    CommitTurnResult as CommitTurnResult,
)
from .contract import (
    Compaction as Compaction,
)
from .contract import (
    CompactionSummaryMessage as CompactionSummaryMessage,
)
from .contract import (
    CompactResult as CompactResult,
)
from .contract import (
    Complete as Complete,
)
from .contract import (
    CompletionRequest as CompletionRequest,
)
from .contract import (
    CompletionResult as CompletionResult,
)
from .contract import (
    ContextEngineSelection as ContextEngineSelection,
)
from .contract import (
    ContextProjection as ContextProjection,
)
from .contract import (
    CustomMessage as CustomMessage,
)
from .contract import (
    DelegateCompaction as DelegateCompaction,
)
from .contract import (
    Diagnostics as Diagnostics,
)
from .contract import (
    EngineContext as EngineContext,
)
from .contract import (
    EngineInfo as EngineInfo,
)
from .contract import (
    EngineSpec as EngineSpec,
)
from .contract import (
    EngineTool as EngineTool,
)
from .contract import (
    EntryId as EntryId,
)
from .contract import (
    EstimateTokens as EstimateTokens,
)
from .contract import (
    ExecutionHost as ExecutionHost,
)
from .contract import (
    FrozenDict as FrozenDict,
)
from .contract import (
    FrozenList as FrozenList,
)
from .contract import (
    HostDescriptor as HostDescriptor,
)
from .contract import (
    HostRequirements as HostRequirements,
)
from .contract import (
    ImageBlock as ImageBlock,
)
from .contract import (
    IngestBatchResult as IngestBatchResult,
)
from .contract import (
    IngestResult as IngestResult,
)
from .contract import (
    Limits as Limits,
)
from .contract import (
    Message as Message,
)
from .contract import (
    ModelSettings as ModelSettings,
)
from .contract import (
    Progress as Progress,
)
from .contract import (
    PromptAuthority as PromptAuthority,
)
from .contract import (
    PromptCache as PromptCache,
)
from .contract import (
    Replacement as Replacement,
)
from .contract import (
    RewriteResult as RewriteResult,
)
from .contract import (
    RewriteTranscriptEntries as RewriteTranscriptEntries,
)
from .contract import (
    RuntimeContext as RuntimeContext,
)
from .contract import (
    RuntimeMode as RuntimeMode,
)
from .contract import (
    RuntimeReason as RuntimeReason,
)
from .contract import (
    RuntimeSettings as RuntimeSettings,
)
from .contract import (
    RuntimeSettingsRuntime as RuntimeSettingsRuntime,
)
from .contract import (
    SelectionSource as SelectionSource,
)
from .contract import (
    Services as Services,
)
from .contract import (
    SessionId as SessionId,
)
from .contract import (
    SessionKey as SessionKey,
)
from .contract import (
    SubagentPreparation as SubagentPreparation,
)
from .contract import (
    SystemMessage as SystemMessage,
)
from .contract import (
    TextBlock as TextBlock,
)
from .contract import (
    ThinkingBlock as ThinkingBlock,
)
from .contract import (
    ToolCallBlock as ToolCallBlock,
)
from .contract import (
    ToolResultMessage as ToolResultMessage,
)
from .contract import (
    TranscriptReader as TranscriptReader,
)
from .contract import (
    TurnMaintenanceMode as TurnMaintenanceMode,
)
from .contract import (
    UnknownBlock as UnknownBlock,
)
from .contract import (
    UnknownMessage as UnknownMessage,
)
from .contract import (
    UserMessage as UserMessage,
)
from .contract import (
    block_from_wire as block_from_wire,
)
from .contract import (
    block_to_wire as block_to_wire,
)
from .contract import (
    build_runtime_settings as build_runtime_settings,
)
from .contract import (
    freeze as freeze,
)
from .contract import (
    hookimpl as hookimpl,
)
from .contract import (
    hookspec as hookspec,
)
from .contract import (
    message_from_wire as message_from_wire,
)
from .contract import (
    message_to_wire as message_to_wire,
)
from .contract import (
    normalize_reason as normalize_reason,
)
from .contract import (
    thaw as thaw,
)
from .errors import (
    AbortError as AbortError,
)
from .errors import (
    ConfigError as ConfigError,
)
from .errors import (
    EngineContractError as EngineContractError,
)
from .errors import (
    EngineError as EngineError,
)
from .errors import (
    EngineFailedError as EngineFailedError,
)
from .errors import (
    EngineIdReservedError as EngineIdReservedError,
)
from .errors import (
    EngineIdTakenError as EngineIdTakenError,
)
from .errors import (
    EngineLoadError as EngineLoadError,
)
from .errors import (
    EngineNotRegisteredError as EngineNotRegisteredError,
)
from .errors import (
    HostIncompatibleError as HostIncompatibleError,
)
from .errors import (
    InvalidOwnerError as InvalidOwnerError,
)
from .errors import (
    ModelError as ModelError,
)
from .errors import (
    ModelUnavailableError as ModelUnavailableError,
)
from .errors import (
    OpenClawCtxError as OpenClawCtxError,
)
from .errors import (
    RegistryError as RegistryError,
)
from .errors import (
    SessionBusyError as SessionBusyError,
)
from .errors import (
    SessionClosedError as SessionClosedError,
)
from .errors import (
    SubstitutionRefusedError as SubstitutionRefusedError,
)
from .errors import (
    TranscriptError as TranscriptError,
)
from .errors import (
    TranscriptFormatError as TranscriptFormatError,
)
from .errors import (
    UnknownFormatError as UnknownFormatError,
)
from .host import (
    HookCall as HookCall,
)
from .host import (
    Registry as Registry,
)
from .tokens import (
    TokenCounter as TokenCounter,
)
from .tokens import (
    estimate_tokens as estimate_tokens,
)
from .tokens import (
    exact_counter as exact_counter,
)
from .transcript import (
    History as History,
)
from .transcript import (
    Transcript as Transcript,
)

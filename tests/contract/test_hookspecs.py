"""The hookspec is the whole contract: every hook of the reference system, in snake case, and two of our own."""

import inspect
import types
import typing

import attrs
import pluggy
import pytest

from openclaw_ctx import AssembleResult, EngineSpec, hookimpl
from openclaw_ctx.contract import PROJECT, BootstrapReason
from openclaw_ctx.host import results

_SESSION = ("session_id", "session_key")
_RUNTIME = ("runtime_settings", "runtime_context")

# From the reference system, section 0.5; what is ours stands behind the "+".
_HOOKS = {
    "bootstrap": (*_SESSION, "session_file", *_RUNTIME, *("+", "reason", "previous_session_id")),
    "maintain": (*_SESSION, "session_file", *_RUNTIME, "abort_signal"),
    "ingest": (*_SESSION, "message", "is_heartbeat", *_RUNTIME),
    "ingest_batch": (*_SESSION, "messages", "is_heartbeat", *_RUNTIME),
    "assemble": (
        *_SESSION,
        *("messages", "token_budget", "available_tools", "citations_mode", "model", "prompt"),
        *_RUNTIME,
    ),
    "compact": (
        *_SESSION,
        *("session_file", "token_budget", "force", "force_reason", "current_token_count"),
        *("compaction_target", "custom_instructions"),
        *_RUNTIME,
        "abort_signal",
    ),
    "after_turn": (
        *_SESSION,
        *("session_file", "messages", "pre_prompt_message_count", "auto_compaction_summary"),
        *("is_heartbeat", "token_budget"),
        *_RUNTIME,
    ),
    "prepare_subagent_spawn": (
        *("parent_session_key", "child_session_key", "context_mode", "parent_session_id", "parent_session_file"),
        *("child_session_id", "child_session_file", "ttl_ms"),
        *_RUNTIME,
    ),
    "on_subagent_ended": ("child_session_key", "reason", *_RUNTIME),
    "commit_turn": (*_SESSION, "advancement_key", "messages", *_RUNTIME),
    "dispose": (),
    "tools": ("+", "session_key", *_RUNTIME),
}


def _spec() -> dict[str, object]:
    return {name: hook for name, hook in vars(EngineSpec).items() if not name.startswith("_")}


def test_the_contract_has_every_hook_and_no_other():
    """Hooks are added, never renamed: this list only grows."""
    assert set(_spec()) == set(_HOOKS)


@pytest.mark.parametrize("hook", sorted(_HOOKS))
def test_a_hook_has_all_its_parameters(hook):
    """Parameters are passed by name, so none may be missing or misspelt."""
    parameters = inspect.signature(_spec()[hook]).parameters

    assert set(parameters) - {"self"} == set(_HOOKS[hook]) - {"+"}
    assert all(parameter.default is inspect.Parameter.empty for parameter in parameters.values())


@pytest.mark.parametrize("hook", sorted(_HOOKS))
def test_a_hook_takes_the_first_answer_and_says_what_it_is_for(hook):
    """Each is ``firstresult``, since one engine answers; each has a docstring."""
    function = _spec()[hook]

    assert getattr(function, f"{PROJECT}_spec")["firstresult"] is True
    assert inspect.getdoc(function)


def test_an_engine_may_name_only_what_it_wants():
    """The accepted parameters of an implementation are those in its signature; pluggy passes no other."""

    class Engine:
        @hookimpl
        def assemble(self, messages, token_budget):
            return AssembleResult(messages=messages[-1:], estimated_tokens=token_budget)

    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(EngineSpec)
    manager.register(Engine())
    given = dict.fromkeys(name for name in _HOOKS["assemble"] if name != "+")

    answer = manager.hook.assemble(**given | {"messages": (1, 2), "token_budget": 9})

    assert answer == AssembleResult(messages=(2,), estimated_tokens=9)


def test_every_result_is_a_frozen_value():
    """What a hook answers is a value: keyword-only, frozen, documented."""
    from openclaw_ctx.contract import results  # noqa: PLC0415 -- the module itself is under test

    for name in results.__all__:
        cls = getattr(results, name)
        if not inspect.isclass(cls):
            continue
        assert inspect.getdoc(cls), name
        assert all(field.kw_only for field in attrs.fields(cls)), name
        assert cls.__setattr__ is not object.__setattr__, name


def test_bootstrap_says_why():
    """Decision 7: a new session, one that goes on, one that missed something, and a reset are told apart."""
    assert set(BootstrapReason.__args__) == {"new", "resume", "import", "catch_up", "continuation", "reset"}


@pytest.mark.parametrize("hook", results._ANSWERS)
def test_only_a_hook_that_may_answer_none_says_so(hook):
    """The annotation is what the host's check holds an answer to."""
    answer = typing.get_type_hints(getattr(EngineSpec, hook))["return"]

    assert (types.NoneType in typing.get_args(answer)) == results._ANSWERS[hook][1]

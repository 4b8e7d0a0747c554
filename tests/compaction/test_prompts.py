"""What the summariser is told."""

import pytest

from openclaw_ctx.compaction import CompactionPolicy
from openclaw_ctx.compaction.prompts import (
    PREFIX_FORMAT,
    STRICT_IDENTIFIERS,
    Asking,
    focus_text,
    identifier_text,
    operator_text,
)


def headings(text: str) -> list[str]:
    """Return the headings of a format."""
    return [line.lstrip("# ") for line in text.splitlines() if line.startswith("#")]


def test_the_headings_are_the_reference_s():
    """Of a history, and of the beginning of a turn."""
    assert headings(Asking(max_chars=1).instructions(has_previous=False)) == [
        *("Goal", "Constraints & Preferences", "Progress", "Done", "In Progress", "Blocked"),
        *("Key Decisions", "Next Steps", "Critical Context"),
    ]
    assert headings(PREFIX_FORMAT) == ["Original Request", "Early Progress", "Context for Suffix"]


def test_an_earlier_summary_is_distilled_again():
    """Only then is the summariser told how, ahead of the headings."""
    first, update = (Asking(max_chars=1).instructions(has_previous=has) for has in (False, True))

    assert "move to Done" not in first
    assert update.index("move to Done") < update.index("## Goal")


@pytest.mark.parametrize(
    "policy,own,told",
    [
        ("strict", "mine", STRICT_IDENTIFIERS),
        ("off", "mine", ""),
        ("custom", " mine ", "mine"),
        ("custom", "  ", STRICT_IDENTIFIERS),
        ("custom", None, STRICT_IDENTIFIERS),
    ],
)
def test_identifiers_are_kept_by_policy(policy, own, told):
    """Strictly by default, and where the operator's text is blank."""
    assert identifier_text(CompactionPolicy(identifier_policy=policy, identifier_instructions=own)) == told


def test_the_focus_is_data_of_at_most_800_code_points():
    """Under the reference system's label, in a frame that it cannot leave."""
    told = focus_text("  ports </focus> " + "😀" * 900)

    assert told.startswith("Additional focus (")
    assert told.count("</focus>") == 1
    assert 700 < told.count("😀") < 800
    assert focus_text(" ") == focus_text(None) == ""


def test_the_operator_is_heard():
    """What the configuration says, as it is."""
    assert operator_text(CompactionPolicy(custom_instructions="Be brief.")).endswith("Be brief.")
    assert operator_text(CompactionPolicy(custom_instructions=" ")) == ""


def test_the_length_is_told():
    """Blank rules are no paragraphs."""
    text = Asking(max_chars=1234).with_rules("", "Rule.").instructions(has_previous=False)

    assert text.endswith("Rule.\n\nUse at most 1234 characters.")

"""What the configuration may say, and what is said of a wrong one."""

import re
from pathlib import Path

import attrs
import pytest

from openclaw_ctx_rag import RagConfig
from tests.plugins.rag.talks import host_with_rag, tell

README = Path(__file__).parents[3] / "plugins" / "openclaw-ctx-rag" / "README.md"


@pytest.mark.parametrize(
    "wrong,key",
    [
        ({"recentShare": 2}, "recentShare"),
        ({"recentShare": -0.1}, "recentShare"),
        ({"recent_share": "half"}, "recent_share"),
        ({"embedder": "magic"}, "embedder"),
        ({"querySeconds": 0}, "querySeconds"),
        ({"recentshare": 0.2}, "recentshare"),
        ({"embedder": "endpoint"}, "endpoint_url"),
    ],
)
async def test_a_wrong_value_names_its_key_and_legacy_answers(tmp_path, wrong, key):
    """The conversation goes on; why it is not this engine is said with every prompt."""
    async with host_with_rag(tmp_path, rag=wrong) as host, host.session("talk") as session:
        await tell(session, [("Hello?", "Hello.")])

        made = await session.assemble(budget=1_000)

        assert made.engine == "legacy"
        assert key in made.substitution


def test_every_setting_is_in_the_readme_with_its_default():
    """A setting that is not told of is not there."""
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", README.read_text(encoding="utf-8"), re.MULTILINE))

    def camel(name):
        head, *tail = name.split("_")
        return head + "".join(word.capitalize() for word in tail)

    told = {"None": "null"}
    expected = {
        camel(field.name): told.get(
            str(field.default), f'"{field.default}"' if isinstance(field.default, str) else str(field.default)
        )
        for field in attrs.fields(RagConfig)
    }

    assert rows == expected


def test_a_key_is_not_shown():
    """Neither in a log nor in a traceback."""
    assert "sesame" not in repr(RagConfig(endpoint_api_key="sesame"))

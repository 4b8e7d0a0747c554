"""The model that the configuration names for summaries: connected, asked as far as it can take, and closed."""

import itertools

import pytest

from openclaw_ctx import Host, Registry, ScriptedModel
from openclaw_ctx.assembly import reaching
from openclaw_ctx.errors import ConfigError
from openclaw_ctx.models import ModelAddress
from tests.assembly.plain import fill


class Client(ScriptedModel):
    """Stands for a provider's client."""

    def __init__(self, address):
        super().__init__(itertools.repeat("## Goal\nBread."))
        self.address = address
        self.provider, self.model = address.provider, address.model
        self.closed = False

    async def close(self):
        """Note it."""
        self.closed = True


@pytest.fixture(name="clients")
def _clients(monkeypatch):
    """Return the clients that were made."""
    made = []

    def connect(address: ModelAddress):
        made.append(Client(address))
        return made[-1]

    monkeypatch.setattr(reaching, "connect_model", connect)
    return made


def _config(model="acme/small", **said):
    acme = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k-123", "models": [{"id": "small", **said}]}
    compaction = {"model": model, "keepRecentTokens": 500}
    return {"models": {"providers": {"acme": acme}}, "agents": {"defaults": {"compaction": compaction}}}


async def _compacted(folder, config, **options):
    options.setdefault("model", ScriptedModel(itertools.repeat("## Goal\nBread, by the model of the turn.")))
    async with (
        Host.open(config, state_dir=folder, registry=Registry(), **options) as host,
        host.session("talk") as session,
    ):
        await fill(session, turns=60)
        result = (await session.compact()).result
    assert result.compacted, result.reason
    return result.result.summary


async def test_the_model_of_the_configuration_writes_summaries(tmp_path, clients):
    """It is reached as its provider's section says, and closed with the host."""
    summary = await _compacted(tmp_path, _config())

    (client,) = clients
    assert "by the model of the turn" not in summary
    assert len(client.requests) > 0
    assert (client.address.base_url, client.address.api_key) == ("http://127.0.0.1:9/v1", "k-123")
    assert client.closed


@pytest.mark.parametrize("model", ["extractive", None])
async def test_nobody_is_connected_where_none_is_named(tmp_path, clients, model):
    """The model of the turn summarises, or nobody."""
    summary = await _compacted(tmp_path, _config(model))

    assert clients == []
    assert ("by the model of the turn" in summary) == (model is None)


async def test_a_summariser_that_is_handed_over_goes_first(tmp_path, clients):
    """The program's own word counts more than the file's."""
    handed = ScriptedModel(itertools.repeat("## Goal\nRye."))

    summary = await _compacted(tmp_path, _config(), summary_model=handed)

    assert "Rye." in summary
    assert clients == []


async def test_it_is_asked_for_what_it_can_take_and_answer(tmp_path, clients):
    """A smaller window takes more requests, and no answer is longer than its model's longest."""
    await _compacted(tmp_path / "large", _config())
    await _compacted(tmp_path / "small", _config(contextWindow=16_000, maxTokens=77))

    large, small = clients
    assert len(small.requests) > len(large.requests)
    assert {request.max_tokens for request in small.requests} == {77}


@pytest.mark.parametrize(
    "model,named",
    [
        pytest.param("nobody/small", "'nobody/small' cannot be asked; models.providers.nobody.baseUrl", id="unknown"),
        pytest.param("openai/small", "OPENAI_API_KEY", id="no-key"),
    ],
)
async def test_who_cannot_be_asked_is_an_error_of_the_configuration(tmp_path, monkeypatch, model, named):
    """Said when the host is opened, by the key that names it."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(ConfigError) as caught:
        await Host.open(_config(model), state_dir=tmp_path, registry=Registry())

    (problem,) = caught.value.problems
    assert problem.startswith("$.agents.defaults.compaction.model: ")
    assert named in problem


async def test_a_package_that_is_missing_is_one_too(tmp_path, monkeypatch):
    """With the words that tell how to get it."""

    def missing(address):
        message = "This model needs the extra 'openai'."
        raise ImportError(message)

    monkeypatch.setattr(reaching, "connect_model", missing)

    with pytest.raises(ConfigError, match=r"compaction\.model: 'acme/small' cannot be asked; This model needs"):
        await Host.open(_config(), state_dir=tmp_path, registry=Registry())


async def test_a_provider_whose_key_is_not_read_is_not_asked(tmp_path, clients):
    """Not with the key of another place either."""
    config = _config()
    config["models"]["providers"]["acme"]["apiKey"] = {"source": "file", "provider": "vault", "id": "/acme"}

    with pytest.raises(ConfigError, match=r"compaction\.model: 'acme/small' cannot be asked; .*source 'file'"):
        await Host.open(config, state_dir=tmp_path, registry=Registry())

    assert clients == []

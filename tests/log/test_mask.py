"""Secrets out of text and data."""

import json
import urllib.parse

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_ctx.log import clean_text, mask_data, mask_secrets

# No vowels: no piece of a drawn secret is a word of the text around it.
CONSONANTS = "BCDFGHJKLMNPQRSTVWXZbcdfghjklmnpqrstvwxz0123456789"
SECRETS = st.text(CONSONANTS, min_size=20, max_size=40)
UPPER_SECRETS = st.text("BCDFGHJKLMNPQRSTVWXZ23456789", min_size=16, max_size=30)
PIECE = 6
# Any text at all, and what ends a string or looks like it.
ANY_SECRETS = st.one_of(st.text(min_size=1), st.text("\\\"', }]x", min_size=1))

SPELLINGS = [
    pytest.param('"authorization": "Bearer {}"', id="header-in-json"),
    pytest.param("'Authorization': 'Basic {}=='", id="header-in-a-repr"),
    pytest.param("[(b'x-api-key', b'{}'), (b'host', b'x')]", id="header-in-a-list-of-pairs"),
    pytest.param('[["x-api-key","{}"],["host","x"]]', id="header-in-pairs-of-json"),
    pytest.param('{{"name": "Authorization", "value": "Bearer {}"}}', id="header-as-name-and-value"),
    pytest.param("Authorization: Bearer {}", id="bearer-header"),
    pytest.param("authorization: {}", id="header-without-a-scheme"),
    pytest.param("Authorization: Homegrown {}", id="header-with-an-unknown-scheme"),
    pytest.param('Authorization: Digest username="ann", realm="r", response="{}", qop=auth', id="digest-header"),
    pytest.param("Authorization: AWS4-HMAC-SHA256 Credential=x/y, SignedHeaders=a;b, Signature={}", id="signed-header"),
    pytest.param("Proxy-Authorization: Basic {}", id="proxy-header"),
    pytest.param("curl -H 'Authorization: Bearer {}' https://host", id="header-in-a-command"),
    pytest.param("got Bearer {} instead", id="bearer-alone"),
    pytest.param("Cookie: theme=dark; sid={}", id="cookie"),
    pytest.param(
        "Set-Cookie: a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT; Path=/, sid={}; HttpOnly", id="cookies-folded"
    ),
    pytest.param('"set-cookie": "sid={}; Path=/"', id="cookie-in-json"),
    pytest.param("<RequestsCookieJar[<Cookie sid={} for host/>]>", id="cookie-in-a-jar"),
    pytest.param("app_secret={}", id="pair"),
    pytest.param("app_secret = {}", id="pair-with-spaces"),
    pytest.param("APP_SECRET='{}' python -m app", id="environment"),
    pytest.param("STRIPE_KEY={} python -m app", id="environment-key-of-a-vendor"),
    pytest.param("DB_PASSWORD_PROD={}", id="environment-with-a-qualifier"),
    pytest.param("apiKey: {}, model: x", id="yaml"),
    pytest.param('{{"model":"x","apiKey":"{}","n":1}}', id="compact-json"),
    pytest.param('body was \'{{\\"access_token\\": \\"{}\\", \\"n\\": 1}}\'', id="json-in-json"),
    pytest.param("&quot;api_key&quot;:&quot;{}&quot;,", id="json-in-html"),
    pytest.param("{{'client_secret': '{}', 'n': 1}}", id="python-repr"),
    pytest.param("Settings(host='x', password='{}')", id="python-keyword"),
    pytest.param("Settings(password=Secret(value='a b', raw='{}'))", id="python-call"),
    pytest.param('    password: str = "{}"', id="python-source"),
    pytest.param('password = """{}"""', id="triple-quotes"),
    pytest.param("headers['x-api-key'] = '{}'", id="python-item"),
    pytest.param("x-api-key: {}\nhost: x", id="header-of-a-key"),
    pytest.param("password=(x){}, n=1", id="bracket-inside-a-value"),
    pytest.param("{{'credentials': {{'user': 'ann', 'pin': ['{}']}}}}", id="data-under-a-secret-name"),
    pytest.param("https://host/v1?x=1&api_key={}&n=1", id="url-query"),
    pytest.param("https://host/v1?key={}&alt=sse", id="url-query-named-key"),
    pytest.param("redirect=https%3A%2F%2Fhost%3Ftoken%3D{}%26n%3D1", id="url-in-a-url"),
    pytest.param("https://ann:{}@host/path", id="url-password"),
    pytest.param("postgres://ann:p@{}@host:5432/db", id="url-password-with-an-at-sign"),
    pytest.param("redis://:{}@host:6379/0", id="url-password-without-a-user"),
    pytest.param("https://{}:x-oauth-basic@host/repo", id="url-token-as-user"),
    pytest.param("https://{}@host/repo", id="url-token-alone"),
    pytest.param("Server=x;Uid=ann;Pwd={};", id="connection-string"),
    pytest.param("run --api-key {} --verbose", id="flag"),
    pytest.param("run --token={} --verbose", id="flag-with-equals"),
    pytest.param("Command '['run', '--token', '{}', '-v']' failed", id="flag-in-a-list"),
    pytest.param("<add><password>{}</password></add>", id="xml"),
    pytest.param("Incorrect API key provided: {}. Find yours at https://host.", id="sentence"),
    pytest.param("private key: {}", id="two-words"),
    pytest.param("\x1b[31mpassword\x1b[0m=\x1b[1m{}\x1b[0m", id="coloured"),
    pytest.param("'a: b\\nx-api-key: {}\\nc: d'", id="header-behind-a-written-out-line-break"),
    pytest.param("got sk-{} there", id="openai"),
    pytest.param("got sk-ant-api03-{} there", id="anthropic"),
    pytest.param("'line\\nsk-proj-{}'", id="openai-behind-a-written-out-line-break"),
    pytest.param("(ghp_{})", id="github"),
    pytest.param("gho_{}", id="github-oauth"),
    pytest.param("github_pat_{}", id="github-fine-grained"),
    pytest.param("xoxb-1-{}", id="slack-bot"),
    pytest.param("xoxp-1-{}", id="slack-user"),
    pytest.param("https://hooks.slack.com/services/T0/B0/{}", id="slack-webhook"),
    pytest.param("AIza{}", id="google"),
    pytest.param("glpat-{}", id="gitlab"),
    pytest.param("hf_{}", id="hugging-face"),
    pytest.param("npm_{}", id="npm"),
    pytest.param("eyJhbGciOiJIUzI1NiJ9.e30.{}", id="jwt"),
    pytest.param(
        "x\n-----BEGIN RSA PRIVATE KEY-----\nMII\n{}\n-----END RSA PRIVATE KEY-----\ny", id="private-key-block"
    ),
    pytest.param("-----BEGIN OPENSSH PRIVATE KEY-----\nMII\n{}", id="private-key-block-cut-short"),
]

SURVIVORS = [
    pytest.param("token count 512", id="a-count"),
    pytest.param("max_tokens=8000, prompt_tokens: 12, tokens: 12", id="counts-of-tokens"),
    pytest.param('{"maxTokens": 8000, "tokenBudget": 5, "session_tokens": 9}', id="counts-in-json"),
    pytest.param('{"eos_token": "</s>", "next_token": 4}', id="tokens-that-are-text"),
    pytest.param("SyntaxError: unexpected token: punc", id="a-token-of-a-parser"),
    pytest.param("session_key='agent:main', SESSION_KEY=agent", id="a-session-key-is-a-name"),
    pytest.param("KeyError: 'api_key'", id="a-missing-key"),
    pytest.param("token=None, password='', secret: null", id="nothing-to-hide"),
    pytest.param("Bearer authentication is required", id="a-scheme"),
    pytest.param('WWW-Authenticate: Bearer realm="x"', id="a-challenge"),
    pytest.param("basic usage: see docs", id="the-word-basic"),
    pytest.param("http://localhost:8080/@ann https://host/@ann", id="an-at-sign-in-a-path"),
    pytest.param("ssh://git@host/repo git@host:repo", id="a-user-that-is-no-secret"),
    pytest.param("bad signature: assemble(messages)", id="a-signature-of-a-function"),
    pytest.param("compass: north, bypass: yes, author: ann", id="words-that-end-alike"),
    pytest.param("task-oriented-scheduling-2024", id="sk-inside-a-word"),
]

HOSTILE = [
    *("token= ", "token:(", "token='", '\\"', "\\", "://a:", "https://a", "-----BEGIN PRIVATE KEY-----", "eyJ", "sk-"),
    *(
        'Authorization: x a="',
        "Cookie: a=b, ",
        "<token>",
        "--token ",
        "('token','",
        "token: str = ",
        "a.b-c_",
        "Bearer ",
    ),
]


def _pieces(secret: str) -> set[str]:
    return {secret[at : at + PIECE] for at in range(len(secret) - PIECE + 1)}


@pytest.mark.parametrize("spelling", SPELLINGS)
@settings(deadline=None, max_examples=20)
@given(secret=SECRETS)
def test_a_secret_survives_in_no_spelling(spelling, secret):
    """B62, B65: whatever notation a secret comes in, no piece of it is left."""
    text = f"before {spelling.format(secret)}\nafter"

    masked = mask_secrets(text)

    assert not [piece for piece in _pieces(secret) if piece in masked]
    assert "[masked]" in masked
    assert masked.startswith("before ")


@settings(deadline=None)
@given(secret=UPPER_SECRETS)
def test_an_access_key_of_amazon_is_known_by_its_shape(secret):
    """B65: AKIA and what follows is masked without any name before it."""
    assert mask_secrets(f"denied for AKIA{secret}.") == "denied for [masked]."


@pytest.mark.parametrize("spelling", SPELLINGS)
@settings(deadline=None, max_examples=20)
@given(secret=SECRETS, limit=st.integers(0, 120), lead=st.integers(0, 40))
def test_no_limit_bares_a_piece_of_a_secret(spelling, secret, limit, lead):
    """B65: text is masked before it is shortened, so the cut falls where it may."""
    text = "." * lead + " " + spelling.format(secret) + " and a long tail" * 5

    shown = clean_text(text, limit=limit)

    assert len(shown) <= limit
    assert not [piece for piece in _pieces(secret) if piece in shown]


@pytest.mark.parametrize("spelling", SPELLINGS)
@settings(deadline=None, max_examples=10)
@given(secret=SECRETS)
def test_cleaning_twice_leaks_nothing(spelling, secret):
    """What a record holds clean stays clean, and whole, when it is printed through the gate again."""
    once = clean_text(f"before {spelling.format(secret)}\nafter", limit=None)

    twice = clean_text(once, limit=None)

    assert not [piece for piece in _pieces(secret) if piece in twice]
    assert twice == once


@settings(deadline=None)
@given(secret=ANY_SECRETS)
def test_a_secret_of_any_characters_is_masked_whole_in_json(secret):
    """Quotes, backslashes and line breaks in a secret do not end it early, and its neighbours stay."""
    frame = {"user": "ann", "api_key": secret, "n": [1, {"x": "y"}]}
    expected = json.dumps({**frame, "api_key": "[masked]"})

    assert mask_secrets(json.dumps(frame)) == expected
    assert mask_secrets(json.dumps(json.dumps(frame))) == json.dumps(expected)


@settings(deadline=None)
@given(secret=ANY_SECRETS)
def test_a_secret_of_any_characters_is_masked_whole_in_a_repr(secret):
    """The same in Python's own notation, whichever quotes it chose."""
    masked = mask_secrets(repr({"user": "ann", "api_key": secret, "n": 1}))

    assert masked in (
        "{'user': 'ann', 'api_key': '[masked]', 'n': 1}",
        "{'user': 'ann', 'api_key': \"[masked]\", 'n': 1}",
    )


@settings(deadline=None)
@given(secret=st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_a_secret_of_any_characters_is_masked_whole_in_a_query(secret):
    """The same in a URL, where the parameters after it stay."""
    query = urllib.parse.urlencode({"user": "ann", "access_token": f"{secret}~", "n": 1}, quote_via=urllib.parse.quote)

    assert mask_secrets(f"GET /v1?{query}") == "GET /v1?user=ann&access_token=[masked]&n=1"


@pytest.mark.parametrize("text", SURVIVORS)
def test_what_is_no_secret_survives(text):
    """A masked log is still one that can be read."""
    assert mask_secrets(text) == text


def test_a_sentence_gets_its_punctuation_back_but_no_more():
    """What ends a sentence is hardly part of a secret; six characters of it might be."""
    assert mask_secrets("(see password: hunter2).") == "(see password: [masked])."
    assert mask_secrets("password=!!!!!!!!!!") == "password=[masked]!!!!!"


def test_a_masked_text_says_what_was_there():
    """Names and neighbours stay; only the values go."""
    text = 'POST https://ann:pw12345@host/v1?api_key=abc123&n=1 {"model": "x", "apiKey": "abc", "n": {"a": "b"}} 401'

    assert mask_secrets(text) == (
        'POST https://[masked]@host/v1?api_key=[masked]&n=1 {"model": "x", "apiKey": "[masked]", "n": {"a": "b"}} 401'
    )


@pytest.mark.parametrize(
    "name",
    [
        "app_secret",
        "api_key",
        "apiKey",
        "APIKey",
        "x-api-key",
        "token",
        "access_token",
        "accessToken",
        "password",
        "passwd",
        "client_secret",
        "private_key",
        "credentials",
        "Authorization",
        "set-cookie",
        "db.password",
        "API_KEY_2",
        "userPass",
        "auth_tokens",
    ],
)
@pytest.mark.parametrize(
    "value", [7, True, 2.5, "short", ["a"], {"a": {"b": 1}}], ids=lambda value: type(value).__name__
)
def test_data_under_a_secret_name_is_masked_whatever_its_type(name, value):
    """B65: JSON output does not bypass the filter."""
    assert mask_data({"engines": [{"id": "x", name: value}]}) == {"engines": [{"id": "x", name: "[masked]"}]}


def test_the_absence_of_a_secret_is_shown():
    """Doctor can say that a key is not set."""
    assert mask_data({"apiKey": None, "token": ""}) == {"apiKey": None, "token": ""}


def test_data_keeps_its_shape_and_its_other_values():
    """Numbers, lists and nothing come back equal, and the original is not touched."""
    data = {"maxTokens": 5, "list": (1, "x", None), "url": "https://a:b12@host", "argv": ["run", "--token", "abc"]}

    masked = mask_data(data)

    assert masked == {
        "maxTokens": 5,
        "list": [1, "x", None],
        "url": "https://[masked]@host",
        "argv": ["run", "--token", "[masked]"],
    }
    assert data["argv"] == ["run", "--token", "abc"]


def test_headers_as_pairs_or_named_values_are_masked_in_data():
    """The two ways in which HTTP libraries write headers as data."""
    data = [["Authorization", "Basic abc"], {"name": "Cookie", "value": "sid=abc"}, {"name": "Accept", "value": "*/*"}]

    assert mask_data(data) == [
        ["Authorization", "[masked]"],
        {"name": "Cookie", "value": "[masked]"},
        {"name": "Accept", "value": "*/*"},
    ]


def test_data_that_contains_itself_is_cut_off():
    """A cycle, even one that branches, ends."""
    data: dict[str, object] = {"a": 1}
    data["again"] = [data, data]

    assert mask_data(data) == {"a": 1, "again": ["[...]", "[...]"]}


@pytest.mark.parametrize("piece", [*HOSTILE, pytest.param("".join(HOSTILE), id="all-of-them")])
def test_hostile_text_of_any_size_is_read_in_one_go(piece):
    """Work grows with the text, not with its square, which would not end here: 250 KB, and 1 MB of the mixture."""
    size = 1_000_000 if len(piece) > 100 else 250_000
    text = "@" + piece * (size // len(piece))

    masked = mask_secrets(text)

    assert masked.startswith("@")


def test_backslashes_without_end_are_read_in_one_go():
    """The end of a quoted value is searched for once, also where nothing but backslashes follows."""
    assert mask_secrets('token="' + "\\" * 1_000_000) == "token=[masked]"

"""Whether the name of a value says that the value is a secret."""

import functools
import re

__all__ = ["names_secret"]

# How such a name ends once its words are joined: clientSecret, CLIENT_SECRET and client-secret are one name.
_ENDINGS = (
    *("password", "passwd", "passwort", "passphrase", "mnemonic", "pwd", "secret", "credential", "token", "cookie"),
    *("authorization", "authorisation", "apikey", "accesskey", "accountkey", "authkey", "clientkey", "deploykey"),
    *("encryptionkey", "licensekey", "masterkey", "privatekey", "secretkey", "servicekey", "signingkey", "sshkey"),
    *("subscriptionkey", "amzsignature", "accesssignature"),
)
# These are secrets as whole words only: "bypass" and "oauth" are not.
_WHOLE_WORDS = frozenset({"auth", "bearer", "jwt", "otp", "pass", "totp"})
# What may stand behind the telling word: API_KEY_2, token_value, DB_PASSWORD_PROD.
_QUALIFIERS = frozenset(
    {"b64", "base64", "current", "default", "dev", "hash", "live", "new", "old", "primary", "prod", "production"}
    | {"raw", "secondary", "staging", "str", "string", "test", "value"}
)
# In this field a token is mostly a piece of text: these are counted or compared, not kept secret.
_TEXT_TOKEN = re.compile(
    r"(?:^| )(?:bos|cls|end|eos|first|last|mask|max|min|next|pad|per|sep|special|start|stop|unexpected|unk) token$"
)
_PLURAL_TOKEN = re.compile(r"(?:^| )(?:access|api|auth|bearer|refresh) tokens$")
# STRIPE_KEY=... in an environment; a session key, in this package, is a name.
_ENVIRONMENT_KEY = re.compile(
    r"(?!(?:.*_)?(?:CACHE|FOREIGN|PARTITION|PRIMARY|PUBLIC|SESSION|SORT)_KEY$)[A-Z0-9_]+_KEY$"
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_TELLING_LENGTH = 80


@functools.lru_cache(maxsize=1024)
def _tail_names_secret(name: str) -> bool:
    words = [word.lower() for word in _WORD.findall(name)]
    while words and (words[-1].isdigit() or words[-1] in _QUALIFIERS):
        words.pop()
    if not words:
        return False
    spaced = " ".join(words)
    if words[-1] in _WHOLE_WORDS or _PLURAL_TOKEN.search(spaced) or _ENVIRONMENT_KEY.fullmatch(name):
        return True
    joined = spaced.replace(" ", "")
    if joined.endswith("tokens") or _TEXT_TOKEN.search(spaced):
        return False
    return joined.endswith(_ENDINGS) or joined.removesuffix("s").endswith(_ENDINGS)


def names_secret(name: str) -> bool:
    """
    Tell whether a value under *name* must not be shown.

    Only the end of a long name counts, so the answer costs the same for any
    length. ``token`` is a secret; ``max_tokens``, ``token_count`` and
    ``eos_token`` are not.
    """
    return _tail_names_secret(name[-_TELLING_LENGTH:])

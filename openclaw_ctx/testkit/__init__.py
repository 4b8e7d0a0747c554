"""
What authors test with: the promises that their part must keep, as tests to inherit.

Needs pytest, which is imported when something is asked for and not before.
"""

from openclaw_ctx.door import open_door

__getattr__, __dir__, __all__ = open_door(__name__, {".store_contract": ("StoreContract",)})

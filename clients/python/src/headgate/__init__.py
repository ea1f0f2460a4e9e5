"""Asks Headgate, the distributed rate limiter, whether a request may pass.

    headgate = Headgate("http://headgate:8080")
    decision = headgate.check({"domain": "shop", "entries": {"user": "42"}})

Headgate is for threads, AsyncHeadgate for asyncio; the two have the same methods.
Middlewares are in headgate.fastapi, headgate.django, headgate.asgi and headgate.wsgi.
LimitedClient is for who calls an API that has limits. Standard library only.
"""

from headgate._call import Failure, HeadgateError, Reason
from headgate._sync import Headgate
from headgate._asyncio import AsyncHeadgate
from headgate._wire import MAX_CHECKS, Body, Check, Commit, Decision, Descriptor, Hold, KeyCheck, Reserve, RuleCheck, Settled, Soft
from headgate.limited import Level, LimitedClient, WaitError, levels, retry_after

__all__ = [
    "MAX_CHECKS", "AsyncHeadgate", "Body", "Check", "Commit", "Decision", "Descriptor", "Failure", "Headgate",
    "HeadgateError", "Hold", "KeyCheck", "Level", "LimitedClient", "Reason", "Reserve", "RuleCheck", "Settled", "Soft",
    "WaitError", "levels", "retry_after",
]

"""What mypy is to accept, and, where it is told to ignore an error, to refuse. It is not run."""

from fastapi import FastAPI
from starlette.requests import Request

from headgate import AsyncHeadgate, Check, Headgate, KeyCheck, LimitedClient, RuleCheck
from headgate.asgi import HeadgateMiddleware as ASGIMiddleware
from headgate.fastapi import HeadgateMiddleware
from headgate.wsgi import HeadgateMiddleware as WSGIMiddleware

headgate = Headgate("http://headgate:8080", token="t", timeout=0.05, failure="closed", retries=1)
left: int | None = headgate.check({"domain": "shop", "entries": {"user": "42"}}).remaining
rule: RuleCheck = {"domain": "shop", "descriptors": [{"descriptor": "user:42", "hits": 2}], "hold": True}
key: KeyCheck = {"key": "user:42", "limit": 3, "window_ms": 1000, "algorithm": "gcra"}
names: list[str | None] = [each.name for each in headgate.check_all([rule, key])]
outcome: str = headgate.commit({"reservation": "r", "hits": [3]}).outcome

headgate.check({"entries": {"user": "42"}})  # type: ignore[arg-type]
headgate.check({"domain": "shop", "entries": {"user": 42}})  # type: ignore[dict-item]
headgate.check({"domain": "shop", "entry": {}})  # type: ignore[arg-type]
Headgate("http://headgate:8080", failure="local")  # type: ignore[arg-type]


async def ask(other: AsyncHeadgate) -> bool:
    async with other:
        return (await other.check(rule)).allowed


def by_user(request: Request) -> Check | None:
    who = request.headers.get("x-user")
    return {"domain": "shop", "entries": [("user", who)]} if who else None


app = FastAPI()
app.add_middleware(HeadgateMiddleware, headgate=AsyncHeadgate("http://headgate:8080"), check=by_user)
ASGIMiddleware(app, headgate=AsyncHeadgate("http://headgate:8080"), check=lambda scope: None)
WSGIMiddleware(lambda environ, start: [], headgate=headgate, check=lambda environ: rule)
LimitedClient(observe=lambda kind, seconds: print(kind, seconds)).open("http://example.test/")

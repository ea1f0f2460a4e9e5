"""What travels in POST /v1/check and its kin, as pure functions.

docs/check-api.md has the members of each object.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

MAX_CHECKS = 1000
"""Bounds the checks of one batch, as the server does."""

Entries: TypeAlias = Mapping[str, str] | Sequence[tuple[str, str]]
"""Key and value of the entries of a descriptor, in order. Keys are never empty."""

Op: TypeAlias = Literal["hit", "charge", "refund", "reset", "renew", "release"]

Hits: TypeAlias = int
"""What a request costs, 1 unless said. 0 is a peek, a number below 0 a refund."""


class Descriptor(TypedDict, total=False):
    """What a request is limited on: entries, or descriptor, which is the same in text
    form, `user:42,endpoint:POST /orders`."""

    entries: Entries
    descriptor: str
    hits: Hits
    op: Op


class _Asked(TypedDict, total=False):
    id: str
    """Names the check, 1 to 256 bytes: a repeat is charged nothing and gets the first answer. Never let clients choose it."""
    hold: str | Literal[True]
    """Who takes a slot of limits on concurrency, 1 to 256 bytes; True has an id drawn."""
    in_flight_ms: int
    """For renew and release alone: milliseconds in flight since the last call."""
    client_ip: str
    """Whom the caller asks for, for events. Nothing is decided by it."""
    user_agent: str
    """The same."""
    hits: Hits
    op: Op


class RuleCheck(_Asked):
    """A check by the server's rules: descriptors, or one of them as entries, with its hits
    and op beside."""

    domain: str
    """By which rules to decide. Never empty."""
    descriptors: NotRequired[Sequence[Descriptor]]
    entries: NotRequired[Entries]
    attributes: NotRequired[Mapping[str, str]]
    """Facts for rules that take their cost from the request, such as content_length; up to 32."""


class KeyCheck(_Asked):
    """A check by a limit that the caller names, which takes the right to."""

    key: str
    """Who is limited, best with the kind of it in front: user:42. Never empty."""
    limit: int
    """Hits per window, from 0, which denies all, to 2**50."""
    window_ms: int
    """The length of the window in milliseconds, up to 366 days."""
    algorithm: NotRequired[Literal[
        "sliding_window", "fixed_window", "sub_windows", "sliding_log",
        "token_bucket", "leaky_bucket", "leaky_queue", "gcra", "concurrency"]]
    """Default sliding_window."""
    burst: NotRequired[int]
    """Of token_bucket and gcra; default limit."""


Check: TypeAlias = RuleCheck | KeyCheck


class Reserve(RuleCheck):
    """A cost that is known only afterwards, see docs/reserve.md."""

    ttl_ms: NotRequired[int]
    """How long it may be settled, in milliseconds from 1,000 to 3,600,000; default 300,000."""


class Commit(TypedDict):
    """What was used of a reservation."""

    reservation: str
    hits: NotRequired[int | Sequence[int]]
    """One number, or one for each descriptor. Left out, what was reserved."""
    attributes: NotRequired[Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Hold:
    """A slot that is held."""

    id: str
    renew_within_ms: int
    """Until when to renew or release it."""


@dataclass(frozen=True, slots=True)
class Soft:
    """A soft limit that the request is above."""

    action: str
    rule: str
    percent: int = 0
    limit: int = 0
    remaining: int = 0
    name: str | None = None
    delay_ms: int | None = None
    header: str | None = None
    value: str | None = None
    challenge: str | None = None


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a denial, as the server's --body or the rule wants it."""

    media_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided. None stands for what is not known."""

    allowed: bool
    """Whether the request may pass."""
    matched: bool = False
    """False when no rule and no limit of the caller applied, or the server did not answer."""
    limit: int | None = None
    """The quota of a window, or the burst of a bucket."""
    remaining: int | None = None
    """Hits that would pass now."""
    reset_ms: int | None = None
    """Milliseconds until the limit is as if unused."""
    window_ends_ms: int | None = None
    """Milliseconds until its window ends."""
    retry_after_s: int | None = None
    """Seconds until this request would pass, 0 when it may now. None where it never will, at this cost."""
    delay_ms: int = 0
    """How long an allowed request is to be held back, in milliseconds."""
    rule: str = ""
    """The id of the rule whose limit speaks; "" for none."""
    role: str | None = None
    """Not of a main limit: concurrency, secondary, sustained, ban."""
    tier: str | None = None
    source: str | None = None
    hold: Hold | None = None
    """The slot that is held."""
    soft: tuple[Soft, ...] = ()
    """The soft limits that the request is above."""
    degraded: str = ""
    """Why the store did not decide: store_timeout, store_unavailable, store_breaker, store_misconfigured and others. "" when it did."""
    reservation: str | None = None
    """Of reserve: what settles it."""
    expires_at: str | None = None
    """Of reserve: until when, as RFC 3339 has it."""
    name: str | None = None
    """In a batch: the name of the limit."""
    window_s: int | None = None
    """In a batch: its window in seconds."""
    status: int = 200
    """By which to answer the client: 200, 429, or 503 where it is denied because nothing could be decided."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Header fields for the client, in lower case: RateLimit and its kin, Retry-After. Empty in a batch."""
    body: Body | None = None
    """Of a denial. Not in a batch."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of a reservation."""

    settled: bool
    outcome: str
    """settled, settled_before, unknown: there was nothing to settle, or undecided: then try again, which is safe."""
    limit: int | None = None
    remaining: int | None = None
    reset_ms: int | None = None
    window_ends_ms: int | None = None
    rule: str = ""
    degraded: str = ""


# Header fields of an answer that clients get too.
_PASSED = (
    "ratelimit", "ratelimit-policy", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset",
    "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "x-ratelimit-warning", "retry-after",
)


def passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    """The fields of headers, which are in lower case, that clients get too."""
    return {name: headers[name] for name in _PASSED if name in headers}


def _encode_entries(entries: Entries) -> list[dict[str, str]]:
    pairs = entries.items() if isinstance(entries, Mapping) else entries
    return [{"key": key, "value": value} for key, value in pairs]


def encode(call: Mapping[str, Any], drawn: str | None = None) -> dict[str, Any]:
    """Writes a check, a reservation or what settles one. drawn is the id of one that has
    none of its own."""
    out = dict(call)
    if drawn is not None:
        out.setdefault("id", drawn)
    if "entries" in out:
        alone = {name: out.pop(name) for name in ("entries", "hits", "op") if name in out}
        out["descriptors"] = [alone]
    if "descriptors" in out:
        out["descriptors"] = [
            {**each, "entries": _encode_entries(each["entries"])} if "entries" in each else dict(each)
            for each in out["descriptors"]]
    return out


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def decode_decision(value: Any) -> Decision | None:
    """Reads a decision out of an answer of JSON; None if it is none, such as the page of a proxy."""
    if not isinstance(value, dict) or not isinstance(value.get("allowed"), bool):
        return None
    allowed = value["allowed"]
    status = _count(value.get("status"))
    soft = value.get("soft")
    return Decision(
        allowed=allowed,
        matched=value.get("matched") is True,
        limit=_count(value.get("limit")),
        remaining=_count(value.get("remaining")),
        reset_ms=_count(value.get("reset_ms")),
        window_ends_ms=_count(value.get("window_ends_ms")),
        retry_after_s=_count(value.get("retry_after_s")),
        delay_ms=_count(value.get("delay_ms")) or 0,
        rule=_text(value.get("rule")) or "",
        role=_text(value.get("role")),
        tier=_text(value.get("tier")),
        source=_text(value.get("source")),
        hold=_decode_hold(value.get("hold")),
        soft=tuple(_decode_soft(each) for each in soft if isinstance(each, dict)) if isinstance(soft, list) else (),
        degraded=_text(value.get("degraded")) or "",
        reservation=_text(value.get("reservation")),
        expires_at=_text(value.get("expires_at")),
        name=_text(value.get("name")),
        window_s=_count(value.get("window_s")),
        status=status if status is not None else 200 if allowed else 429,
    )


def _decode_hold(value: Any) -> Hold | None:
    if not isinstance(value, dict) or not isinstance(value.get("id"), str):
        return None
    return Hold(id=value["id"], renew_within_ms=_count(value.get("renew_within_ms")) or 0)


def _decode_soft(value: dict[str, Any]) -> Soft:
    return Soft(
        action=_text(value.get("action")) or "",
        rule=_text(value.get("rule")) or "",
        percent=_count(value.get("percent")) or 0,
        limit=_count(value.get("limit")) or 0,
        remaining=_count(value.get("remaining")) or 0,
        name=_text(value.get("name")),
        delay_ms=_count(value.get("delay_ms")),
        header=_text(value.get("header")),
        value=_text(value.get("value")),
        challenge=_text(value.get("challenge")),
    )


def decode_batch(value: Any, checks: int) -> list[Decision] | None:
    """Reads the results of a batch of so many checks; None if they are not that."""
    results = value.get("results") if isinstance(value, dict) else None
    if not isinstance(results, list) or len(results) != checks:
        return None
    decisions = [decision for each in results if (decision := decode_decision(each)) is not None]
    return decisions if len(decisions) == checks else None


def decode_settled(value: Any) -> Settled | None:
    """Reads what became of a reservation; None if it is not that."""
    if not isinstance(value, dict) or not isinstance(value.get("settled"), bool):
        return None
    outcome = value.get("outcome")
    if outcome not in ("settled", "settled_before", "unknown", "undecided"):
        return None
    return Settled(
        settled=value["settled"],
        outcome=outcome,
        limit=_count(value.get("limit")),
        remaining=_count(value.get("remaining")),
        reset_ms=_count(value.get("reset_ms")),
        window_ends_ms=_count(value.get("window_ends_ms")),
        rule=_text(value.get("rule")) or "",
        degraded=_text(value.get("degraded")) or "",
    )

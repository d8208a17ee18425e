"""Answers of the service as values."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Dict, List, Optional, cast

from ._errors import ServiceError
from ._http import Answer
from ._retry import retry_after
from ._types import (
    EventWarning,
    MatchReadiness,
    Problem,
    Receipt,
    Stats,
    StatsCampaign,
    StatsIdentifier,
    StatsKey,
    StatsRejection,
    StatsRequests,
    Submission,
    SubmissionEvent,
    ValidEvent,
    Verdict,
)

_FOREIGN = "the answer is no {}; something between here and the service gave it"


def _parse(body: bytes) -> Dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return cast(Dict[str, Any], value) if isinstance(value, dict) else {}


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _problems(entries: Optional[List[Dict[str, Any]]]) -> List[Problem]:
    return [
        Problem(e.get("index", 0), e["error_code"], e.get("field", ""), e["message"], e.get("hint", ""))
        for e in entries or []
    ]


def _warnings(entries: Optional[List[Dict[str, Any]]]) -> List[EventWarning]:
    return [EventWarning(e.get("index", 0), e["code"], e.get("field", ""), e["message"]) for e in entries or []]


def check(answer: Answer, now: float) -> Answer:
    """Raises ServiceError for any status but 200."""
    if answer.status == 200:
        return answer
    after = retry_after(answer.header.get("Retry-After"), now)
    request_id = answer.header.get("X-Request-Id", "")
    value = _parse(answer.body)
    if value.get("status") != "error":
        message = f"the answer is not the service's own ({answer.reason})"
        raise ServiceError(answer.status, message, request_id=request_id, retry_after=after)
    try:
        problems = _problems(value.get("errors"))
    except (AttributeError, KeyError, TypeError):
        problems = []
    raise ServiceError(
        answer.status,
        value.get("message", ""),
        code=value.get("error_code", ""),
        request_id=value.get("request_id", request_id),
        problems=problems,
        truncated=value.get("errors_truncated", False),
        retry_after=after,
    )


def receipt(answer: Answer, events: int, key: str) -> Receipt:
    """The receipt of a request with so many events."""
    try:
        return _receipt(answer, _parse(answer.body), events, key)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ServiceError(answer.status, _FOREIGN.format("receipt")) from None


def _receipt(answer: Answer, value: Dict[str, Any], events: int, key: str) -> Receipt:
    return Receipt(
        submission_id=value["submission_id"],
        received_at=_time(value["received_at"]),
        status=value["status"],
        accepted=value.get("accepted", events),
        rejected=value.get("rejected", 0),
        problems=_problems(value.get("errors")),
        truncated=value.get("errors_truncated", False),
        warnings=_warnings(value.get("warnings")),
        replayed=answer.header.get("Idempotency-Replayed") == "true",
        key=key,
    )


def submission(answer: Answer) -> Submission:
    """The submission that was looked up."""
    try:
        return _submission(_parse(answer.body))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ServiceError(answer.status, _FOREIGN.format("submission")) from None


def _submission(value: Dict[str, Any]) -> Submission:
    events: Optional[List[Dict[str, Any]]] = value.get("events")
    return Submission(
        submission_id=value["submission_id"],
        data_set_id=value["data_set_id"],
        received_at=_time(value["received_at"]),
        status=value["status"],
        accepted=value["accepted"],
        rejected=value["rejected"],
        late=value["late"],
        restricted=value["restricted"],
        suppressed=value["suppressed"],
        events=None if events is None else [
            SubmissionEvent(e["index"], e["event_id"], e["event_type"], e["late"], e["privacy"], e["optimization_eligible"])
            for e in events
        ],
    )


def verdict(answer: Answer) -> Verdict:
    """What would become of the events."""
    try:
        return _verdict(_parse(answer.body))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ServiceError(answer.status, _FOREIGN.format("verdict")) from None


def _verdict(value: Dict[str, Any]) -> Verdict:
    return Verdict(
        valid=value["valid"],
        accepted=value["accepted"],
        rejected=value["rejected"],
        problems=_problems(value.get("errors")),
        truncated=value.get("errors_truncated", False),
        warnings=_warnings(value.get("warnings")),
        events=[ValidEvent(e["index"], e["event"], e["privacy"], e["privacy_reasons"], e["gpp"]) for e in value["events"]],
    )


def stats(answer: Answer) -> Stats:
    """The numbers of the dataset."""
    try:
        return _stats(_parse(answer.body))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ServiceError(answer.status, _FOREIGN.format("set of numbers")) from None


def _stats(value: Dict[str, Any]) -> Stats:
    fresh, key, ready = value["freshness"], value["key"], value["match_readiness"]
    requests = value["requests"]
    terms = ready["terms"]
    return Stats(
        data_set_id=value["data_set_id"],
        window=value["window"],
        start=_time(value["from"]),
        end=_time(value["to"]),
        complete=value["complete"],
        received=value["received"],
        accepted=value["accepted"],
        rejected=value["rejected"],
        late=value["late"],
        requests=StatsRequests(requests["accepted"], requests["rejected"], dict(requests["by_code"])),
        outcomes=dict(value["outcomes"]),
        event_types={e["event_type"]: e["accepted"] for e in value["event_types"]},
        rejections=[
            StatsRejection(
                r["error_code"], r["field"], r["events"], r["problems"], _time(r["first_seen"]), _time(r["last_seen"]), r["hint"],
                r.get("example", ""),
            )
            for r in value["rejections"]
        ],
        identifiers=[StatsIdentifier(i["field"], i["events"], i["share"]) for i in value["identifiers"]],
        match_readiness=MatchReadiness(
            ready["points"], ready["formula"], terms["with_email_or_ifa"], terms["with_ip_only"], terms["accepted"]
        ),
        counted_at=_time(fresh["counted_at"]),
        delay_seconds=fresh["delay_seconds"],
        last_accepted_hour=_optional_time(fresh.get("last_accepted_hour")),
        campaigns=None if "campaigns" not in value else [
            StatsCampaign(c["cp_id"], c["cp_name"], dict(c["events"]), dict(c["value"]), dict(c["refunds"])) for c in value["campaigns"]
        ],
        note=value.get("note", ""),
        key=StatsKey(key["key_id"], _time(key["created_at"]), key["age_seconds"], _optional_time(key.get("ends_at"))),
    )


def _optional_time(text: Optional[str]) -> Optional[datetime]:
    return None if text is None else _time(text)

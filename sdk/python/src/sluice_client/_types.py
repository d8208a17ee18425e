"""The shapes of events and answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Dict, List, Literal, Optional, TypedDict, Union

if TYPE_CHECKING:
    from ._errors import BatchError


# The event types. "custom" needs a custom_event_name.
EventType = Literal[
    "purchase", "page_view", "ad_impression", "add_to_wishlist", "add_to_cart", "viewed_cart", "viewed_item",
    "begin_checkout", "add_payment_info", "remove_from_cart", "refund", "generate_lead", "qualify_lead",
    "close_convert_lead", "disqualify_lead", "close_unconvert_lead", "sign_up", "search", "unlock_achievement",
    "install", "customize_product", "contact", "donate", "find_location", "schedule", "start_trial", "subscribe",
    "custom", "add_shipping_info", "share", "select_content", "select_item", "select_promotion", "view_item_list",
    "view_promotion", "view_search_results", "spend_virtual_currency", "earn_virtual_currency", "working_lead",
    "login", "join_group", "level_up", "post_score", "tutorial_begin", "tutorial_complete",
]


class Identifiers(TypedDict, total=False):
    """The hashed ways to recognise a person or a device. At least one of the first three is needed."""

    email_sha256: str  # by hash_email
    ifa: str  # advertising id of a device
    ip: str  # by hash_ipv4
    partner_id: str  # an opaque id of your own; not enough alone


class Privacy(TypedDict, total=False):
    """The consent signals of the person."""

    gpp_string: str
    gpp_sid: List[int]  # needed by gpp_string
    us_privacy_string: str


class _Needed(TypedDict):
    timestamp: Union[int, datetime]  # Unix seconds, or a datetime with a time zone
    event_type: EventType
    identifiers: Identifiers


class Event(_Needed, total=False):
    """One conversion event, in the words of the API."""

    data_set_id: str  # missing: that of the Client
    id: Union[str, int]  # your own id of what happened, the same in every report of it
    custom_event_name: str  # needed by "custom"
    source: str  # where it happened: website, app, offline, crm …
    cp_id: str
    cp_name: str
    referer: str
    page_url: str
    value: float  # needs currency_code
    currency_code: str  # ISO 4217
    privacy: Privacy
    custom_data: Dict[str, Any]  # free: up to 100 members, three levels
    mmt_only: bool
    schema_version: str


@dataclass(frozen=True)
class Problem:
    """Why the service rejected an event. It never holds a value of the event."""

    index: int  # of the event in the list that you passed
    code: str
    field: str  # JSON Pointer inside the event
    message: str
    hint: str  # how to correct it


@dataclass(frozen=True)
class EventWarning:
    """A remark on an accepted event."""

    index: int
    code: str
    field: str
    message: str


@dataclass(frozen=True)
class Receipt:
    """The service holds the accepted events on stable storage."""

    submission_id: str
    received_at: datetime
    status: str
    accepted: int
    rejected: int
    problems: List[Problem]  # at most 100
    truncated: bool  # there were more than 100
    warnings: List[EventWarning]
    replayed: bool  # the service knew the Idempotency-Key: this is the receipt of an earlier try
    key: str  # the Idempotency-Key
    first: int = 0  # index of the request's first event in the list given to send_batch


@dataclass(frozen=True)
class ValidEvent:
    """What would become of a valid event."""

    index: int
    event: Dict[str, Any]  # as it would be stored, in the words of the API
    privacy: str
    privacy_reasons: List[str]
    gpp: Optional[Dict[str, Any]]  # decoded sections; None without a GPP string


@dataclass(frozen=True)
class Verdict:
    """What would become of events."""

    valid: bool  # no event would be rejected
    accepted: int
    rejected: int
    problems: List[Problem]
    truncated: bool
    warnings: List[EventWarning]
    events: List[ValidEvent]


@dataclass(frozen=True)
class StatsRequests:
    """Requests with events."""

    accepted: int  # answered with a receipt
    rejected: int  # rejected whole
    by_code: Dict[str, int]  # the rejected ones, by the error code of their answer


@dataclass(frozen=True)
class SubmissionEvent:
    """One accepted event of a submission."""

    index: int
    event_id: str
    event_type: str
    late: bool
    privacy: str
    optimization_eligible: bool


@dataclass(frozen=True)
class Submission:
    """What the service knows of a submission."""

    submission_id: str
    data_set_id: str
    received_at: datetime
    status: str  # RECEIVED, then PROCESSED
    accepted: int
    rejected: int
    late: int
    restricted: int
    suppressed: int
    events: Optional[List[SubmissionEvent]] = None  # only if you asked for events


@dataclass(frozen=True)
class StatsRejection:
    """One reason for rejections: an error code at a field."""

    error_code: str
    field: str
    events: int  # whose first problem it was: they add up to Stats.rejected
    problems: int  # how often it was found at all
    first_seen: datetime
    last_seen: datetime
    hint: str
    example: str = ""  # a member with a valid value


@dataclass(frozen=True)
class StatsIdentifier:
    """How many accepted events carry an identifier."""

    field: str
    events: int
    share: float  # of the accepted events


@dataclass(frozen=True)
class MatchReadiness:
    """How well accepted events can be matched to persons."""

    points: float  # 0 to 100
    formula: str
    with_email_or_ifa: int
    with_ip_only: int
    accepted: int


@dataclass(frozen=True)
class StatsKey:
    """The key of the client: its id, never itself."""

    key_id: str
    created_at: datetime
    age_seconds: int
    ends_at: Optional[datetime] = None  # None while it has no end


@dataclass(frozen=True)
class StatsCampaign:
    """What was reported of one campaign. "(none)" are suppressed events without one, "(other)" those beyond the first thousand."""

    cp_id: str
    cp_name: str  # last seen
    events: Dict[str, int]  # by type
    value: Dict[str, float]  # by currency, without refunds
    refunds: Dict[str, float]  # by currency, never negative


@dataclass(frozen=True)
class Stats:
    """The numbers of a dataset in a window. Times are in UTC."""

    data_set_id: str
    window: str
    start: datetime
    end: datetime  # of the hour or day that is running now
    complete: bool  # False while a server that has just started still reads its tables: the numbers are too small then
    received: int
    accepted: int
    rejected: int
    late: int
    requests: StatsRequests
    outcomes: Dict[str, int]  # accepted events by privacy outcome
    event_types: Dict[str, int]  # accepted events by type, the most frequent first
    rejections: List[StatsRejection]  # reasons, of the most events first
    identifiers: List[StatsIdentifier]
    match_readiness: MatchReadiness
    counted_at: datetime  # when the tables were last read
    delay_seconds: int  # how long the oldest event that is not counted yet has waited
    last_accepted_hour: Optional[datetime]  # None without an accepted event
    key: StatsKey
    campaigns: Optional[List[StatsCampaign]] = None  # with by="campaign": as reported, of the most events first
    note: str = ""  # with by="campaign": which views count each conversion once


@dataclass(frozen=True)
class Unsent:
    """A run of events that the service did not confirm."""

    start: int
    stop: int  # exclusive
    error: Exception


@dataclass(frozen=True)
class QueueFailure:
    """A batch that was not wholly accepted."""

    events: List[bytes]  # the JSON of every event of the batch
    error: BatchError  # which of them were rejected or not confirmed, by index in events


@dataclass
class QueueReport:
    """Counts what became of the events that a Queue took."""

    taken: int = 0
    accepted: int = 0
    rejected: int = 0
    unsent: int = 0  # events that the service did not confirm
    waiting: int = 0  # events that are not settled yet
    warnings: int = 0
    problems: List[Problem] = field(default_factory=lambda: list[Problem]())  # the first 100; index is that within its batch
    last_error: Optional[Exception] = None

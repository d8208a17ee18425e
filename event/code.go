package event

// Code is a machine-readable word of the API: an error code or a warning code. Its spelling never changes.
type Code string

// Error is one reason why an event, or a whole request, was rejected. It never holds a value from the event.
type Error struct {
	Index   int    `json:"index"` // position in the batch; 0 for a single event
	Code    Code   `json:"error_code"`
	Field   string `json:"field"`   // JSON Pointer inside the event, "" for the whole of it
	Message string `json:"message"` // what is wrong
	Hint    string `json:"hint"`    // how to correct it

	// Seen says what the event has instead. It names members that the sender made up, so it is for the answer alone and
	// is never kept.
	Seen string `json:"-"`
}

// Error is the message, so that an Error can be returned as one.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Warning is something a sender should know about an event that was accepted all the same.
type Warning struct {
	Index   int    `json:"index"`
	Code    Code   `json:"code"`
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Error codes in the order of the rules: where an event breaks several, they are listed in this order.
const (
	MalformedJSON            Code = "MALFORMED_JSON"
	DuplicateField           Code = "DUPLICATE_FIELD"
	InvalidType              Code = "INVALID_TYPE"
	MissingField             Code = "MISSING_FIELD"
	InvalidEventType         Code = "INVALID_EVENT_TYPE"
	InvalidTimestamp         Code = "INVALID_TIMESTAMP"
	TimestampTooOld          Code = "TIMESTAMP_TOO_OLD"
	TimestampInFuture        Code = "TIMESTAMP_IN_FUTURE"
	MissingIdentifier        Code = "MISSING_IDENTIFIER"
	PlaintextPII             Code = "PLAINTEXT_PII"
	InvalidIdentifier        Code = "INVALID_IDENTIFIER"
	InvalidCurrency          Code = "INVALID_CURRENCY"
	InvalidGPPString         Code = "INVALID_GPP_STRING"
	InvalidGPPSID            Code = "INVALID_GPP_SID"
	InvalidUSPrivacyString   Code = "INVALID_US_PRIVACY_STRING"
	UnsupportedSchemaVersion Code = "UNSUPPORTED_SCHEMA_VERSION"
	InvalidCustomData        Code = "INVALID_CUSTOM_DATA"
	FieldTooLong             Code = "FIELD_TOO_LONG"
)

// Codes that speak of a whole request.
const (
	EmptyBatch            Code = "EMPTY_BATCH"
	BatchTooLarge         Code = "BATCH_TOO_LARGE"
	BatchRejected         Code = "BATCH_REJECTED"
	MissingAPIKey         Code = "MISSING_API_KEY"
	InvalidAPIKey         Code = "INVALID_API_KEY"
	DatasetForbidden      Code = "DATASET_FORBIDDEN"
	InvalidParameter      Code = "INVALID_PARAMETER"
	ServerSideOnly        Code = "SERVER_SIDE_ONLY"
	NotFound              Code = "NOT_FOUND"
	MethodNotAllowed      Code = "METHOD_NOT_ALLOWED"
	PayloadTooLarge       Code = "PAYLOAD_TOO_LARGE"
	UnsupportedMediaType  Code = "UNSUPPORTED_MEDIA_TYPE"
	IdempotencyInProgress Code = "IDEMPOTENCY_IN_PROGRESS"
	IdempotencyKeyReused  Code = "IDEMPOTENCY_KEY_REUSED"
	RateLimited           Code = "RATE_LIMITED"
	InternalError         Code = "INTERNAL_ERROR"
	Unavailable           Code = "UNAVAILABLE"
)

// Warning codes.
const (
	LateEvent              Code = "LATE_EVENT"
	TimestampMilliseconds  Code = "TIMESTAMP_MILLISECONDS"
	ClockSkew              Code = "CLOCK_SKEW"
	HashCaseNormalized     Code = "HASH_CASE_NORMALIZED"
	CurrencyCaseNormalized Code = "CURRENCY_CASE_NORMALIZED"
	UnknownField           Code = "UNKNOWN_FIELD"
	EventIDIgnored         Code = "EVENT_ID_IGNORED"
	CustomEventNameIgnored Code = "CUSTOM_EVENT_NAME_IGNORED"
	ExtIgnored             Code = "EXT_IGNORED"
	GPPSIDMismatch         Code = "GPP_SID_MISMATCH"
	GPPSIDIgnored          Code = "GPP_SID_IGNORED"
	IFAZeroed              Code = "IFA_ZEROED"
	IFANonstandard         Code = "IFA_NONSTANDARD"
	JunkHash               Code = "JUNK_HASH"
	PartnerIDLong          Code = "PARTNER_ID_LONG"
	NegativeValue          Code = "NEGATIVE_VALUE"
	ValueImplausible       Code = "VALUE_IMPLAUSIBLE"
	NullDropped            Code = "NULL_DROPPED"
	PrivacyRestricted      Code = "PRIVACY_RESTRICTED"
	PrivacySuppressed      Code = "PRIVACY_SUPPRESSED"
	PrivacyNotUnderstood   Code = "PRIVACY_NOT_UNDERSTOOD"
	GPPVersionUnknown      Code = "GPP_VERSION_UNKNOWN"

	TCFWithoutDisclosedVendors Code = "TCF_WITHOUT_DISCLOSED_VENDORS"
)

// Rejection counts rejections for the operator's diagnosis. It names no value: Field is one of the members of
// Fields, or "" for anything else.
type Rejection struct {
	Code   Code
	Field  string
	Count  int32 // problems of this code at this field
	Events int32 // events of which this was the first problem; their sum is the number of events rejected
}

// Warned counts accepted events that have a warning of a code, each once, for the operator's diagnosis.
type Warned struct {
	Code   Code
	Events int32
}

package event

import "slices"

// Kind says what a code speaks of.
type Kind uint8

// The kinds of code.
const (
	RuleKind    Kind = iota // one event is rejected
	RequestKind             // the whole request is rejected
	WarningKind             // an event is accepted, with a warning
)

// CodeInfo explains a code to a sender.
type CodeInfo struct {
	Code    Code
	Kind    Kind
	Meaning string
	Remedy  string
}

// Codes returns all codes, as a copy. Those of events come first, in the order in which the problems of one event are
// listed.
func Codes() []CodeInfo { return slices.Clone(codeTable) }

// LookupCode finds a code. The entry of an unknown code says that the code belongs to another version.
func LookupCode(code Code) (info CodeInfo, known bool) {
	if i := rank(code); i < len(codeTable) {
		return codeTable[i], true
	}
	return CodeInfo{
		Code: code, Kind: RuleKind, Meaning: "A code of another version of the service.",
		Remedy: "See the documentation of that version.",
	}, false
}

var codeTable = []CodeInfo{
	request(MalformedJSON, "The body is not strict JSON in UTF-8, or nests deeper than eight levels.",
		"Build the body with a JSON library; the message has the byte offset of the fault."),
	rule(DuplicateField, "A member name occurs twice in one object of the event.", "Send every member once."),
	rule(InvalidType, "A member has the wrong JSON type, or the event is not an object.",
		"Send the JSON type that the message names; numbers and booleans without quotes."),
	rule(MissingField, "A member that is needed here is absent, null or blank.",
		"Send the member that the message names, with a value."),
	rule(InvalidEventType, "event_type is not one of the event types.",
		"Use one of the event types listed at /docs and /v1/schema/events, spelled exactly, or custom with a "+
			"custom_event_name."),
	rule(InvalidTimestamp, "timestamp is not an integer of Unix seconds.", "Send whole Unix seconds as a JSON integer."),
	rule(TimestampTooOld, "The event is more than 30 days old.", "Send events within 30 days, best within 7."),
	rule(TimestampInFuture, "The event is more than five minutes ahead of the time of receipt.",
		"Set the sending machine's clock; send Unix seconds in UTC."),
	rule(MissingIdentifier, "None of email_sha256, ifa and ip holds a usable value.",
		"Send at least one of email_sha256, ifa and ip; partner_id alone is not enough."),
	rule(PlaintextPII, "Personal data was found in plain text.",
		"Hash identifiers before sending, and keep personal data out of every other member."),
	rule(InvalidIdentifier, "An identifier does not have one of its allowed shapes.",
		"Send the lower-case hexadecimal SHA-256, or omit the member."),
	rule(InvalidCurrency, "currency_code is not an active ISO 4217 code.", "Send three capital letters, such as USD."),
	rule(InvalidGPPString, "The GPP string cannot be read.",
		"Send the string exactly as the consent platform gave it, or omit privacy."),
	rule(InvalidGPPSID, "gpp_sid is not a list of section ids.",
		"Send an array of 1 to 63 integers from -1 to 63, such as [7]."),
	rule(InvalidUSPrivacyString, "us_privacy_string is not the digit 1 and three of Y, N and -.",
		"Send a string such as 1YNN, or omit the member."),
	rule(UnsupportedSchemaVersion, "schema_version is neither 1.0 nor v1.", "Send 1.0 or v1, or omit the member."),
	rule(InvalidCustomData, "custom_data is not an object, or too large, too wide or too deep.",
		"Send an object of at most 100 members, three levels and 32 KiB."),
	rule(FieldTooLong, "A value is longer than its member allows, in bytes of UTF-8.",
		"Send a value within the limit, or omit the member."),

	request(EmptyBatch, "The batch holds no event.", "Send at least one event."),
	request(BatchTooLarge, "The batch holds more than 1,000 events.",
		"Split it into several requests; 500 events are a good size."),
	request(BatchRejected, "No event of the batch is valid, for different reasons.",
		"See errors: each entry names event, member and rule."),
	request(MissingAPIKey, "The request carries no key.", "Send Authorization: Bearer and the dataset's key."),
	request(InvalidAPIKey, "The key is not valid.", "Check the key; ask the operator for a new one if need be."),
	request(DatasetForbidden, "An event names a dataset that the key does not open.",
		"Use the key of that dataset; one request, one dataset."),
	request(ServerSideOnly, "The request comes from a browser.",
		"Send from a server; a key must never reach a browser."),
	request(InvalidParameter, "A query parameter cannot be read.",
		"Send one of the values that the hint lists, or leave the parameter out."),
	request(NotFound, "There is nothing at this path.", "Check path and id."),
	request(MethodNotAllowed, "The path does not take this method.", "See the Allow header."),
	request(PayloadTooLarge, "The body is larger than 5,242,880 bytes.", "Split it into several requests."),
	request(UnsupportedMediaType, "The body's media type or encoding is not read.",
		"Send application/json, plain, gzip or zstd."),
	request(IdempotencyInProgress, "The first request with this Idempotency-Key is still running.",
		"Wait for Retry-After, then send the same again."),
	request(IdempotencyKeyReused, "The Idempotency-Key was used with another body.", "Use a new key for a new body."),
	request(RateLimited, "The dataset's rate limit is reached.", "Wait for Retry-After, then send the same again."),
	request(InternalError, "The service could not process the request.", "Try again, waiting longer each time."),
	request(Unavailable, "The service cannot take events at the moment.",
		"Wait for Retry-After, then send the same again."),

	warning(LateEvent, "The event is at least 7 days old. It is stored, and is not eligible for optimization.",
		"Send events sooner."),
	warning(TimestampMilliseconds, "timestamp was read as milliseconds.", "Send whole seconds."),
	warning(ClockSkew, "The event lies up to five minutes in the future.", "Set the sending machine's clock."),
	warning(HashCaseNormalized, "A hash in upper case was converted to lower case.",
		"Send lower-case hexadecimal digits."),
	warning(CurrencyCaseNormalized, "currency_code was converted to upper case.", "Send capital letters."),
	warning(UnknownField, "A member is unknown. It was dropped.",
		"Put data of your own into custom_data. Of a suppressed event only the number of unknown members is said; "+
			"/v1/events/validate names them."),
	warning(EventIDIgnored, "An id was dropped: it is neither a string nor an integer, or event_id is not the id "+
		"beside it.",
		"Send one id of your own, as a string, in the member id."),
	warning(CustomEventNameIgnored, "custom_event_name was dropped: event_type is not custom.",
		"Omit it, or send event_type custom."),
	warning(ExtIgnored, "The content of ext was dropped. The member is reserved.",
		"Put data of your own into custom_data."),
	warning(GPPSIDMismatch, "gpp_sid names sections that the GPP string does not hold, or more than two.",
		"Send the ids that the consent platform gave with the string."),
	warning(GPPSIDIgnored, "gpp_sid came without a GPP string: it was dropped.", "Send both or neither."),
	warning(IFAZeroed, "The advertising id is all zeros or all ones, because the person switched it off. It counts "+
		"as absent.",
		"Omit ifa for them."),
	warning(IFANonstandard, "The advertising id is neither a UUID nor a hash.", "Send the id as the device gives it."),
	warning(JunkHash, "The value is the hash of nothing, such as an empty string: it counts as absent.",
		"Hash only values that are there."),
	warning(PartnerIDLong, "partner_id is longer than 512 characters.", "Send a hash of it."),
	warning(NegativeValue, "value is negative and the event is not a refund.", "Use event_type refund for refunds."),
	warning(ValueImplausible, "value is beyond 1e15. It is stored, and left out of every sum.",
		"Send the value in units of the currency."),
	warning(NullDropped, "An array in custom_data held nulls. They were dropped, so other elements moved.",
		"Leave nulls out, or send another value that stands for nothing."),
	warning(PrivacyRestricted, "The consent signals allow measurement only.",
		"No action is needed if the person opted out."),
	warning(PrivacyNotUnderstood, "A consent signal is in a place or under a name that we do not read. The event is "+
		"restricted to measurement.",
		"Send the signal in the place that the message names."),
	warning(GPPVersionUnknown, "The GPP string has a section in a version that is not known. Where the section is in "+
		"force, the event is suppressed; it is restricted to measurement where only the MspaVersion is not known.",
		"Send the string as the consent platform gave it, and tell the operator: a newer version of the service may "+
			"read it."),
	warning(TCFWithoutDisclosedVendors, "A TC string that was created after 2026-02-28 lacks the segment "+
		"DisclosedVendors, which TCF 2.3 demands. It is no consent: the event is suppressed.",
		"Update the consent platform to TCF 2.3. Send the whole TC string, with all its segments."),
	warning(PrivacySuppressed, "The consent signals forbid use. Every identifier and every other text was removed.",
		"Do not send events of people who opted out."),
}

func rule(code Code, meaning, remedy string) CodeInfo {
	return CodeInfo{code, RuleKind, meaning, remedy}
}

func request(code Code, meaning, remedy string) CodeInfo {
	return CodeInfo{code, RequestKind, meaning, remedy}
}

func warning(code Code, meaning, remedy string) CodeInfo {
	return CodeInfo{code, WarningKind, meaning, remedy}
}

// rank is the position of a code in the table: where an event breaks several rules, the lower is listed first. An
// unknown code comes last.
func rank(code Code) int {
	for i := range codeTable {
		if codeTable[i].Code == code {
			return i
		}
	}
	return len(codeTable)
}

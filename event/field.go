package event

import (
	"slices"
	"strings"
)

// FieldInfo describes one member of an event. The decoder, the JSON Schema and the documentation are made from the
// one table of them.
type FieldInfo struct {
	Pointer  string // JSON Pointer inside the event
	Type     string // JSON type: string, integer, number, boolean, object or array
	Required bool   // rejected without it
	When     string // the condition under which it is required, "" when there is none
	MaxBytes int    // longest value in bytes of UTF-8, 0 when no length rule applies
	Meaning  string // one sentence
	Example  string // a value, as JSON
}

// Name is the member's own name, the last part of the pointer.
func (f FieldInfo) Name() string {
	return f.Pointer[strings.LastIndexByte(f.Pointer, '/')+1:]
}

// field is a position in fieldTable.
type field int8

func (f field) pointer() string { return fieldTable[f].Pointer }

const (
	fieldDataset field = iota
	fieldTimestamp
	fieldType
	fieldIdentifiers
	fieldEmail
	fieldIFA
	fieldIP
	fieldPartner
	fieldCustomName
	fieldSource
	fieldCampaignID
	fieldCampaignName
	fieldReferer
	fieldPageURL
	fieldValue
	fieldCurrency
	fieldPrivacy
	fieldGPPString
	fieldGPPSID
	fieldUSPrivacy
	fieldCustomData
	fieldMeasurementOnly
	fieldExt
	fieldSchemaVersion
	fieldEventID
	fieldID
	fieldCount

	fieldUnknown field = -1
	fieldEvent   field = -2 // the event itself, of which most fields are members
)

// Limits of custom_data. The object itself is the first level of its depth; its members are counted as sent, and so
// are its bytes, from brace to brace.
const (
	customDataMembers = 100
	customDataDepth   = 3
	customDataBytes   = 32 << 10
)

// Fields returns the members of an event, as a copy, in the order in which problems of one rule are listed.
func Fields() []FieldInfo { return slices.Clone(fieldTable) }

// LookupField finds a member by its pointer.
func LookupField(pointer string) (info FieldInfo, known bool) {
	i := slices.IndexFunc(fieldTable, func(f FieldInfo) bool { return f.Pointer == pointer })
	if i < 0 {
		return FieldInfo{}, false
	}
	return fieldTable[i], true
}

// fieldTable is in the order of the constants above.
var fieldTable = []FieldInfo{
	{
		Pointer: "/data_set_id", Type: "string", Required: true, MaxBytes: 128,
		Meaning: "The dataset that the event belongs to: the one that the key was issued for.", Example: `"spring-2026"`,
	},
	{
		Pointer: "/timestamp", Type: "integer", Required: true,
		Meaning: "When it happened, in whole Unix seconds. From 1e11 to below 1e14 it is taken for milliseconds, " +
			"converted and warned about.",
		Example: `1794700800`,
	},
	{
		Pointer: "/event_type", Type: "string", Required: true,
		Meaning: "What happened: one of the 45 event types, spelled exactly.", Example: `"purchase"`,
	},
	{
		Pointer: "/identifiers", Type: "object", Required: true,
		Meaning: "Whose event it is. At least one of email_sha256, ifa and ip.",
		Example: `{"email_sha256":"973dfe463ec85785f5f95af5ba3906eedb2d931c24e69824a89ea65dba4e813b"}`,
	},
	{
		Pointer: "/identifiers/email_sha256", Type: "string",
		Meaning: "SHA-256 of the trimmed, lower-cased e-mail address, as 64 hexadecimal digits.",
		Example: `"973dfe463ec85785f5f95af5ba3906eedb2d931c24e69824a89ea65dba4e813b"`,
	},
	{
		Pointer: "/identifiers/ifa", Type: "string",
		Meaning: "Advertising id of a phone or a television: a UUID, or a hash of it with 32, 40 or 64 hexadecimal " +
			"digits. Another token is accepted with a warning: 8 to 128 letters, digits, dots, hyphens and underscores, " +
			"among them a letter and a digit.",
		Example: `"97987bca-ae59-4c7d-94ba-ee4f19ab8c21"`,
	},
	{
		Pointer: "/identifiers/ip", Type: "string",
		Meaning: "SHA-256 of the IPv4 address in dotted form, as 64 hexadecimal digits.",
		Example: `"bfeb4c6192985efa05e7fa0740ac45708a515e569e7edaec7fc060ff72b44a0c"`,
	},
	{
		Pointer: "/identifiers/partner_id", Type: "string", MaxBytes: 2048,
		Meaning: "An opaque id of your own: printable ASCII without spaces, best under 512 characters. " +
			"It does not count as an identifier.",
		Example: `"crm-8f14e45f"`,
	},
	{
		Pointer: "/custom_event_name", Type: "string", When: "event_type is custom", MaxBytes: 256,
		Meaning: "Your name for an event of type custom. Dropped with any other type.", Example: `"quiz_finished"`,
	},
	{
		Pointer: "/source", Type: "string", MaxBytes: 64,
		Meaning: "Where the event comes from, such as website, app, offline or crm.", Example: `"website"`,
	},
	{
		Pointer: "/cp_id", Type: "string", MaxBytes: 256,
		Meaning: "Campaign id. The dataset's id when absent.", Example: `"cmp-77"`,
	},
	{
		Pointer: "/cp_name", Type: "string", MaxBytes: 512,
		Meaning: "Campaign name.", Example: `"Spring sale"`,
	},
	{
		Pointer: "/referer", Type: "string", MaxBytes: 8192,
		Meaning: "Address of the page that led here.", Example: `"https://www.example.com/"`,
	},
	{
		Pointer: "/page_url", Type: "string", MaxBytes: 8192,
		Meaning: "Address of the page or name of the screen where it happened.",
		Example: `"https://shop.example.com/checkout"`,
	},
	{
		Pointer: "/value", Type: "number",
		Meaning: "What the event is worth: any finite number. Needs currency_code.", Example: `129.95`,
	},
	{
		Pointer: "/currency_code", Type: "string", When: "value is present",
		Meaning: "Currency of value: an active ISO 4217 code in capital letters.", Example: `"USD"`,
	},
	{
		Pointer: "/privacy", Type: "object",
		Meaning: "The person's consent signals.", Example: `{"gpp_string":"DBABLA~BVQqAAAAAgA","gpp_sid":[7]}`,
	},
	{
		Pointer: "/privacy/gpp_string", Type: "string", MaxBytes: 16384,
		Meaning: "The whole Global Privacy Protocol string.", Example: `"DBABLA~BVQqAAAAAgA"`,
	},
	{
		Pointer: "/privacy/gpp_sid", Type: "array", When: "gpp_string is present",
		Meaning: "Ids of the GPP sections that apply, as integers.", Example: `[7]`,
	},
	{
		Pointer: "/privacy/us_privacy_string", Type: "string",
		Meaning: "The older four-character US privacy string.", Example: `"1YNN"`,
	},
	{
		Pointer: "/custom_data", Type: "object",
		Meaning: "Anything else worth keeping: up to 100 members, three levels, 32 KiB.",
		Example: `{"order_id":"A-1001","coupons":["SPRING10"]}`,
	},
	{
		Pointer: "/mmt_only", Type: "boolean",
		Meaning: "True keeps the event out of optimization, for measurement only. False when absent.", Example: `false`,
	},
	{
		Pointer: "/ext", Type: "object",
		Meaning: "Reserved: send an empty object or nothing. Content is dropped.", Example: `{}`,
	},
	{
		Pointer: "/schema_version", Type: "string",
		Meaning: "Version of this body: 1.0 or v1.", Example: `"1.0"`,
	},
	{
		Pointer: "/event_id", Type: "string", MaxBytes: maxReportID,
		Meaning: "Another name of id, read where there is no id. The service gives each event an event_id of its own.",
		Example: `"A-1001-paid"`,
	},
	{
		Pointer: "/id", Type: "string", MaxBytes: maxReportID,
		Meaning: "Your own id of what happened, the same in every report of it: a string or an integer. " +
			"It is stored as sender_event_id, and reports that share it are counted as one conversion.",
		Example: `"A-1001-paid"`,
	},
}

// memberField is the field of a member of the event, or of one of its objects. A switch is faster than the table.
func memberField(object field, name string) field {
	switch object {
	case fieldEvent:
		switch name {
		case "data_set_id":
			return fieldDataset
		case "timestamp":
			return fieldTimestamp
		case "event_type":
			return fieldType
		case "identifiers":
			return fieldIdentifiers
		case "custom_event_name":
			return fieldCustomName
		case "source":
			return fieldSource
		case "cp_id":
			return fieldCampaignID
		case "cp_name":
			return fieldCampaignName
		case "referer":
			return fieldReferer
		case "page_url":
			return fieldPageURL
		case "value":
			return fieldValue
		case "currency_code":
			return fieldCurrency
		case "privacy":
			return fieldPrivacy
		case "custom_data":
			return fieldCustomData
		case "mmt_only":
			return fieldMeasurementOnly
		case "ext":
			return fieldExt
		case "schema_version":
			return fieldSchemaVersion
		case "event_id":
			return fieldEventID
		case "id":
			return fieldID
		}
	case fieldIdentifiers:
		switch name {
		case "email_sha256":
			return fieldEmail
		case "ifa":
			return fieldIFA
		case "ip":
			return fieldIP
		case "partner_id":
			return fieldPartner
		}
	case fieldPrivacy:
		switch name {
		case "gpp_string":
			return fieldGPPString
		case "gpp_sid":
			return fieldGPPSID
		case "us_privacy_string":
			return fieldUSPrivacy
		}
	}
	return fieldUnknown
}

// siblings are the names of the members under each parent's pointer, for did-you-mean.
var siblings = func() map[string][]string {
	names := map[string][]string{}
	for i := range fieldTable {
		parent := parentOf(fieldTable[i].Pointer)
		names[parent] = append(names[parent], fieldTable[i].Name())
	}
	return names
}()

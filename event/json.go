package event

import (
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// AppendJSON adds the stored event as one JSON object on one line: every member that a row has, null when absent.
func AppendJSON(b []byte, r *Row) []byte {
	b = append(b, `{"event_id":`...)
	if r.EventID == (ID{}) {
		b = append(b, "null"...)
	} else {
		b = append(b, '"')
		b = append(r.EventID.Append(b), '"')
	}
	b = appendText(b, "submission_id", r.SubmissionID)
	b = strconv.AppendInt(append(b, `,"submission_index":`...), int64(r.SubmissionIndex), 10)
	b = appendTime(b, "received_at", r.ReceivedAt)
	b = appendText(b, "data_set_id", r.DatasetID)
	b = appendTime(b, "event_time", r.EventTime)
	b = appendText(b, "event_type", r.EventType)
	b = appendText(b, "custom_event_name", r.CustomEventName)
	b = appendText(b, "source", r.Source)
	b = appendText(b, "cp_id", r.CampaignID)
	b = appendText(b, "cp_name", r.CampaignName)
	b = appendText(b, "referer", r.Referer)
	b = appendText(b, "page_url", r.PageURL)
	b = appendNumber(append(b, `,"value":`...), r)
	b = appendText(b, "currency_code", r.CurrencyCode)
	b = appendText(b, "email_sha256", r.EmailSHA256)
	b = appendText(b, "ifa", r.IFA)
	b = appendText(b, "ip_sha256", r.IPSHA256)
	b = appendText(b, "partner_id", r.PartnerID)
	b = appendText(b, "gpp_string", r.GPPString)
	b = appendSIDs(append(b, `,"gpp_sid":`...), r.GPPSID)
	b = appendText(b, "us_privacy_string", r.USPrivacyString)
	b = appendText(b, "privacy", r.Privacy.String())
	b = strconv.AppendBool(append(b, `,"late":`...), r.Late)
	b = strconv.AppendBool(append(b, `,"mmt_only":`...), r.MeasurementOnly)
	b = strconv.AppendBool(append(b, `,"optimization_eligible":`...), r.OptimizationEligible)
	b = appendCustomData(append(b, `,"custom_data":`...), r.CustomData)
	b = appendText(b, "schema_version", r.SchemaVersion)
	return append(b, '}')
}

func appendText(b []byte, name, value string) []byte {
	b = append(append(append(b, `,"`...), name...), `":`...)
	if value == "" {
		return append(b, "null"...)
	}
	return AppendString(b, value)
}

// AppendString adds a JSON string. Bytes that are not UTF-8 become U+FFFD, so that the result is always valid. The same s
// always gives the same bytes: a sender repeats a request to the byte, also after an update.
func AppendString[S string | []byte](b []byte, s S) []byte {
	b = append(b, '"')
	done := 0 // everything before it is written
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			if r == utf8.RuneError && size == 1 {
				b = append(append(b, s[done:i]...), `\ufffd`...)
				done = i + 1
			}
			i += size
			continue
		}
		if c < ' ' || c == '"' || c == '\\' {
			b = append(append(b, s[done:i]...), '\\')
			if c < ' ' {
				b = append(b, 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			} else {
				b = append(b, c)
			}
			done = i + 1
		}
		i++
	}
	return append(append(b, s[done:]...), '"')
}

func appendTime(b []byte, name string, at int64) []byte {
	b = append(append(append(b, `,"`...), name...), `":"`...)
	b = time.Unix(at, 0).UTC().AppendFormat(b, time.RFC3339)
	return append(b, '"')
}

// appendNumber adds the value in the shortest form that reads back the same.
func appendNumber(b []byte, r *Row) []byte {
	if !r.HasValue || math.IsInf(r.Value, 0) || math.IsNaN(r.Value) {
		return append(b, "null"...)
	}
	// Plain digits where people write them, an exponent beyond.
	format := byte('f')
	if a := math.Abs(r.Value); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(b, r.Value, format, -1, 64)
}

func appendSIDs(b []byte, sids []int32) []byte {
	if len(sids) == 0 {
		return append(b, "null"...)
	}
	for i, id := range sids {
		sep := byte(',')
		if i == 0 {
			sep = '['
		}
		b = strconv.AppendInt(append(b, sep), int64(id), 10)
	}
	return append(b, ']')
}

// appendCustomData adds the object on one line: in valid JSON a control character can only be white space between
// tokens, so leaving them out changes nothing.
func appendCustomData(b []byte, raw string) []byte {
	if raw == "" {
		return append(b, "null"...)
	}
	from := 0
	for i := 0; i < len(raw); i++ {
		if raw[i] < ' ' {
			b = append(b, raw[from:i]...)
			from = i + 1
		}
	}
	return append(b, raw[from:]...)
}

package event

// foreignMembers are the member names of other platforms' events and requests that an event has at its top level.
type foreignMembers uint16

const (
	foreignData foreignMembers = 1 << iota
	foreignEvents
	foreignEventName
	foreignEventTime
	foreignEvent
	foreignClientID
	foreignUser
	foreignContext
	foreignConversion
)

var foreignNames = map[string]foreignMembers{
	"data": foreignData, "events": foreignEvents, "event_name": foreignEventName, "event_time": foreignEventTime,
	"event": foreignEvent, "client_id": foreignClientID, "app_instance_id": foreignClientID, "user_data": foreignUser,
	"action_source": foreignUser, "context": foreignContext, "pixel_code": foreignContext,
	"event_source_id": foreignContext, "event_conversion_type": foreignConversion, "hashed_email": foreignConversion,
}

// foreignHint names the platform that a body was made for, "" if none is recognised. It is asked only about events that
// lack members of ours.
func (d *Decoder) foreignHint(t *draft) string {
	has := func(m foreignMembers) bool { return t.foreign&m == m }
	switch {
	case has(foreignEvents | foreignClientID):
		return "This looks like a body for the Google Analytics 4 Measurement Protocol. Convert it: sluice-send convert " +
			"--from ga4."
	case has(foreignData | foreignContext), has(foreignEvent | foreignContext), has(foreignEvent | foreignEventTime):
		return "This looks like a body for the TikTok Events API. Convert it: sluice-send convert --from tiktok."
	case has(foreignConversion):
		return "This looks like an event for the Snap Conversions API. Convert it: sluice-send convert --from snap."
	case has(foreignData), has(foreignEventName | foreignEventTime), has(foreignEventName | foreignUser):
		return "This looks like a body for the Meta or Snap Conversions API. Convert it: sluice-send convert --from meta, " +
			"or --from snap."
	}
	return ""
}

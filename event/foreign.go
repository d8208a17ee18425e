package event

// foreignMembers are the member names of other platforms' events and requests that an event has at its top level.
type foreignMembers uint16

const (
	foreignData       foreignMembers = 1 << iota // data: a list of events
	foreignEvents                                // events: a list of events
	foreignEventName                             // event_name
	foreignEventTime                             // event_time
	foreignEvent                                 // event
	foreignClientID                              // client_id, app_instance_id
	foreignUser                                  // user_data, action_source
	foreignContext                               // context, pixel_code, event_source_id
	foreignConversion                            // event_conversion_type, hashed_email
)

func foreignMember(name string) foreignMembers {
	switch name {
	case "data":
		return foreignData
	case "events":
		return foreignEvents
	case "event_name":
		return foreignEventName
	case "event_time":
		return foreignEventTime
	case "event":
		return foreignEvent
	case "client_id", "app_instance_id":
		return foreignClientID
	case "user_data", "action_source":
		return foreignUser
	case "context", "pixel_code", "event_source_id":
		return foreignContext
	case "event_conversion_type", "hashed_email":
		return foreignConversion
	}
	return 0
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

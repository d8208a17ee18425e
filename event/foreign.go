package event

import "slices"

// foreignHint names the platform that a body was made for, "" if none is recognised, by the unknown members of the
// event that have a warning, which are the first 32. It is asked only about events that lack members of ours.
func (d *Decoder) foreignHint() string {
	unknown := slices.Collect(d.unknownMembers(""))
	has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(unknown, name) })
	}
	context := has("context", "pixel_code", "event_source_id")
	switch {
	case has("events") && has("client_id", "app_instance_id"):
		return "This looks like a body for the Google Analytics 4 Measurement Protocol. Convert it: sluice-send convert " +
			"--from ga4."
	case has("data", "event") && context, has("event") && has("event_time"):
		return "This looks like a body for the TikTok Events API. Convert it: sluice-send convert --from tiktok."
	case has("event_conversion_type", "hashed_email"):
		return "This looks like an event for the Snap Conversions API. Convert it: sluice-send convert --from snap."
	case has("data"), has("event_name") && has("event_time", "user_data", "action_source"):
		return "This looks like a body for the Meta or Snap Conversions API. Convert it: sluice-send convert --from meta, " +
			"or --from snap."
	}
	return ""
}

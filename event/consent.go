package event

import "strings"

// The members of an event that carry consent signals.
const (
	placePrivacy   = "/privacy"
	placeGPPString = "/privacy/gpp_string"
	placeGPPSID    = "/privacy/gpp_sid"
	placeUSPrivacy = "/privacy/us_privacy_string"
	placeMmtOnly   = "/mmt_only"
)

// consentTable lists the consent names, by the place where the signal belongs; "" if it has none of its own. An event
// with such a member elsewhere carries a signal that we did not read. The names are our own, and those of IAB Tech Lab
// specifications, browsers, mobile systems and the server APIs of advertising platforms. A word that is as likely
// something else (lat, status, age) is not listed.
var consentTable = []struct {
	place string
	names []string
}{
	{placePrivacy, strings.Fields(`
		privacy privacies privacy_signals privacy_settings privacy_options privacy_info privacy_consent privacy_string
		user_privacy data_privacy regs consent consents consent_string consent_signals consent_status consent_state
		consent_mode consent_data consent_info consent_given consent_granted user_consent has_consent marketing_consent
		ad_consent ads_consent advertising_consent data_consent cookie_consent tracking_consent cmp`)},
	{placeGPPString, strings.Fields(`
		gpp_string gpp gpp_consent gpp_consent_string gpp_data iab_gpp iabgpp_hdr_gpp_string gpps`)},
	{placeGPPSID, strings.Fields(`
		gpp_sid gpp_sids gpp_section gpp_sections gpp_section_id gpp_section_ids gpp_section_list gpp_applicable_sections
		applicable_sections iabgpp_gpp_sid`)},
	{placeUSPrivacy, strings.Fields(`
		us_privacy_string us_privacy us_privacy_consent usp usp_string usp_consent uspv1 iabus_privacy_string ccpa
		ccpa_string ccpa_consent ccpa_opt_out ccpa_privacy cpra`)},
	{placeMmtOnly, strings.Fields(`
		mmt_only mmt measurement_only is_measurement_only`)},
	// Opt-outs in plain words; then those of browsers, Europe, children, mobile systems and server APIs of platforms.
	{"", strings.Fields(`
		opt_out opted_out is_opted_out user_opt_out opt_out_of_sale sale_opt_out sharing_opt_out
		targeted_advertising_opt_out opt_in opted_in do_not_sell do_not_share do_not_sell_or_share do_not_track dnt
		dns_opt_out
		gpc global_privacy_control sec_gpc
		gdpr gdpr_applies gdpr_consent gdpr_consent_string tcf tcf_string tcf_consent tcf_eu tcfeuv2 tcfcav1 tc_string tcs
		iabtcf_tc_string addtl_consent additional_consent ac_string euconsent eu_consent lgpd pipeda
		coppa is_coppa child_directed tag_for_child_directed_treatment tfcd tfcdt tag_for_under_age_of_consent tfua
		under_age_of_consent known_child is_child
		att atts att_status att_consent att_authorization_status app_tracking_transparency tracking_authorization_status
		tracking_enabled advertiser_tracking_enabled application_tracking_enabled ad_tracking_enabled limit_ad_tracking
		limited_ad_tracking is_limit_ad_tracking_enabled limit_tracking lmt is_lat limit_advertising_tracking
		limited_data_use limit_data_use ldu limited_data_usage data_processing_options data_processing_options_country
		data_processing_options_state restricted_data_processing rdp data_use non_personalized_ads npa ad_user_data
		ad_personalization ad_personalization_consent ad_user_data_consent ad_storage analytics_storage gcs gcd
		allow_ad_personalization ads_personalization personalized_ads data_processing_consent`)},
}

// The messages about a consent signal that was not understood. They are constants, because the pointer names the
// member.
var consentMessages = map[string]string{
	placePrivacy:   notUnderstood + "Send consent signals in /privacy.",
	placeGPPString: notUnderstood + "Send the GPP string as /privacy/gpp_string, with /privacy/gpp_sid.",
	placeGPPSID:    notUnderstood + "Send the GPP section ids as /privacy/gpp_sid, with /privacy/gpp_string.",
	placeUSPrivacy: notUnderstood + "Send the US privacy string as /privacy/us_privacy_string.",
	placeMmtOnly:   notUnderstood + "Send mmt_only, true or false, at the top level of the event.",
	"": notUnderstood + "Send consent as /privacy/gpp_string with /privacy/gpp_sid, or as /privacy/us_privacy_string; " +
		"send mmt_only true to restrict an event yourself.",
}

const notUnderstood = "This consent signal was not understood, so the event is restricted to measurement. "

// walkConsent drops the member at the end of the path, a consent signal in a place where we do not read it. The event
// is then restricted: a signal that was not read is not a permission. What else is in the value belongs to the same
// signal; only in what stands for mmt_only there can be a stronger one.
func (d *Decoder) walkConsent(place string, level int) bool {
	t := &d.draft
	if place == placeMmtOnly {
		t.mmtUnread = true
	} else {
		t.consentUnread = true
	}
	d.unread++
	pointer := ""
	if d.unread <= maxUnknownNamed {
		pointer = d.pointer(level)
		d.warn(PrivacyNotUnderstood, pointer, consentMessages[place])
	} else if d.unread == maxUnknownNamed+1 {
		d.warn(PrivacyNotUnderstood, "", "More consent signals were not understood.")
	}
	if t.unreadAt == "" && t.consentUnread { // a misspelled mmt_only never suppresses
		t.unreadAt = pointer
	}
	outer := d.nameless
	d.nameless = outer || place != placeMmtOnly
	ok := d.walk(level)
	d.nameless = outer
	return ok
}

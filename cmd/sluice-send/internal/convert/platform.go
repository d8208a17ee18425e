package convert

// move takes one member of another platform's event to ours.
type move struct {
	from string // path; "^" before it: of the request around the events
	to   string // our field; "" for none
	as   way
}

// way is how a value changes, in the words of the table that is shown to senders. A consent field fills mmt_only.
type way string

const (
	asText    way = "as it is"
	asType    way = "by the table of event types; an unknown one becomes custom with its name"
	asTime    way = "Unix seconds or milliseconds, or an RFC 3339 time"
	asMicros  way = "microseconds, cut to seconds"
	asNumber  way = "a number, also one written as a string"
	asEmail   way = "must be a SHA-256, the first of a list; plain only with --hash-plain"
	asIP      way = "must be a SHA-256; a plain IPv4 address only with --hash-plain; IPv6 is left out"
	asSource  way = "in lower case; web becomes website, mobile_app becomes app"
	asInts    way = "a list of integers"
	asFlag    way = "anything but false, 0 and an empty list restricts the event to measurement"
	asEnabled way = "anything but true and 1 restricts the event to measurement"
	asATT     way = "anything but AUTHORIZED (3) and NOT_APPLICABLE restricts the event to measurement"
	asGranted way = "anything but GRANTED restricts the event to measurement"
	asRefusal way = "DENIED leaves the event out; anything else but GRANTED restricts it to measurement"
	asNothing way = "no effect of its own"
)

// platform is a form of server events that can be converted.
type platform struct {
	name  string
	title string
	lists []string          // members of a request that may hold its events
	rest  []string          // objects whose other members become custom_data
	types map[string]string // their names of ours; names not here that are ours stay
	moves []move
}

var platforms = []platform{
	{
		name: "meta", title: "Meta Conversions API", lists: []string{"data"}, rest: []string{"custom_data"}, types: metaTypes,
		moves: []move{
			{"event_name", "event_type", asType},
			{"event_time", "timestamp", asTime},
			{"event_id", "custom_data.event_id", asText},
			{"action_source", "source", asSource},
			{"event_source_url", "page_url", asText},
			{"referrer_url", "referer", asText},
			{"custom_data.value", "value", asNumber},
			{"custom_data.currency", "currency_code", asText},
			{"user_data.em", "email_sha256", asEmail},
			{"user_data.client_ip_address", "ip", asIP},
			{"user_data.madid", "ifa", asText},
			{"user_data.external_id", "partner_id", asText},
			{"opt_out", "mmt_only", asFlag},
			{"data_processing_options", "mmt_only", asFlag},
			{"data_processing_options_country", "", asNothing},
			{"data_processing_options_state", "", asNothing},
			{"app_data.advertiser_tracking_enabled", "mmt_only", asEnabled},
			{"app_data.application_tracking_enabled", "mmt_only", asEnabled},
			{"user_data.advertiser_tracking_enabled", "mmt_only", asEnabled},
			{"advertiser_tracking_enabled", "mmt_only", asEnabled},
			{"application_tracking_enabled", "mmt_only", asEnabled},
		},
	},
	{
		name: "ga4", title: "Google Analytics 4 Measurement Protocol", lists: []string{"events"}, rest: []string{"params"},
		types: ga4Types,
		moves: []move{
			{"name", "event_type", asType},
			{"timestamp_micros", "timestamp", asMicros},
			{"^timestamp_micros", "timestamp", asMicros},
			{"params.page_location", "page_url", asText},
			{"params.page_referrer", "referer", asText},
			{"params.value", "value", asNumber},
			{"params.currency", "currency_code", asText},
			{"params.campaign_id", "cp_id", asText},
			{"params.campaign", "cp_name", asText},
			{"^user_data.sha256_email_address", "email_sha256", asEmail},
			{"^ip_override", "ip", asIP},
			{"^device.advertising_id", "ifa", asText},
			{"^user_id", "partner_id", asText},
			{"^client_id", "partner_id", asText},
			{"^non_personalized_ads", "mmt_only", asFlag},
			{"^consent.ad_personalization", "mmt_only", asGranted},
			{"^consent.ad_user_data", "mmt_only", asRefusal},
			{"^consent.ad_storage", "mmt_only", asGranted},
			{"^consent.analytics_storage", "mmt_only", asGranted},
			{"consent.ad_personalization", "mmt_only", asGranted},
			{"consent.ad_user_data", "mmt_only", asRefusal},
			{"^user_properties.allow_ad_personalization_signals.value", "mmt_only", asEnabled},
		},
	},
	{
		name: "tiktok", title: "TikTok Events API, versions 2.0 and 1.2", lists: []string{"data", "batch"},
		rest: []string{"properties"}, types: tiktokTypes,
		moves: []move{
			{"event", "event_type", asType},
			{"event_time", "timestamp", asTime},
			{"event_id", "custom_data.event_id", asText},
			{"^event_source", "source", asSource},
			{"page.url", "page_url", asText},
			{"page.referrer", "referer", asText},
			{"properties.value", "value", asNumber},
			{"properties.currency", "currency_code", asText},
			{"user.email", "email_sha256", asEmail},
			{"user.ip", "ip", asIP},
			{"user.idfa", "ifa", asText},
			{"user.gaid", "ifa", asText},
			{"user.external_id", "partner_id", asText},
			{"ad.campaign_id", "cp_id", asText},
			{"limited_data_use", "mmt_only", asFlag},
			{"^limited_data_use", "mmt_only", asFlag},
			{"user.att_status", "mmt_only", asATT},
			{"app.att_status", "mmt_only", asATT},
			{"att_status", "mmt_only", asATT},
			// Version 1.2 has a context, and a time in text.
			{"timestamp", "timestamp", asTime},
			{"context.page.url", "page_url", asText},
			{"context.page.referrer", "referer", asText},
			{"context.user.email", "email_sha256", asEmail},
			{"context.user.external_id", "partner_id", asText},
			{"context.ip", "ip", asIP},
			{"context.user.idfa", "ifa", asText},
			{"context.user.gaid", "ifa", asText},
			{"context.user.att_status", "mmt_only", asATT},
			{"context.device.att_status", "mmt_only", asATT},
			{"context.app.att_status", "mmt_only", asATT},
			{"context.limited_data_use", "mmt_only", asFlag},
		},
	},
	{
		name: "snap", title: "Snap Conversions API, versions 3 and 2", lists: []string{"data"}, rest: []string{"custom_data"},
		types: snapTypes,
		moves: []move{
			{"event_name", "event_type", asType},
			{"event_time", "timestamp", asTime},
			{"event_id", "custom_data.event_id", asText},
			{"action_source", "source", asSource},
			{"event_source_url", "page_url", asText},
			{"custom_data.referrer_url", "referer", asText},
			{"custom_data.value", "value", asNumber},
			{"custom_data.currency", "currency_code", asText},
			{"user_data.em", "email_sha256", asEmail},
			{"user_data.client_ip_address", "ip", asIP},
			{"user_data.madid", "ifa", asText},
			{"user_data.external_id", "partner_id", asText},
			{"data_processing_options", "mmt_only", asFlag},
			{"data_processing_options_country", "", asNothing},
			{"data_processing_options_state", "", asNothing},
			{"app_data.advertiser_tracking_enabled", "mmt_only", asEnabled},
			{"app_data.application_tracking_enabled", "mmt_only", asEnabled},
			{"app_data.att_status", "mmt_only", asATT},
			{"opt_out", "mmt_only", asFlag},
			// Version 2 is one flat object.
			{"event_type", "event_type", asType},
			{"timestamp", "timestamp", asTime},
			{"event_conversion_type", "source", asSource},
			{"page_url", "page_url", asText},
			{"price", "value", asNumber},
			{"currency", "currency_code", asText},
			{"hashed_email", "email_sha256", asEmail},
			{"hashed_ip_address", "ip", asIP},
			{"hashed_mobile_ad_id", "ifa", asText},
			{"client_dedup_id", "custom_data.event_id", asText},
			{"transaction_id", "custom_data.transaction_id", asText},
			{"item_ids", "custom_data.item_ids", asText},
			{"item_category", "custom_data.item_category", asText},
			{"number_items", "custom_data.number_items", asText},
			{"description", "custom_data.description", asText},
			{"data_use", "mmt_only", asFlag},
			{"att_status", "mmt_only", asATT},
		},
	},
	{
		name: "ecapi", title: "IAB Tech Lab ECAPI 1.0", lists: []string{"data"}, rest: []string{"properties"},
		moves: []move{
			{"data_set_id", "data_set_id", asText},
			{"event_type", "event_type", asType},
			{"custom_event", "custom_event_name", asText},
			{"timestamp", "timestamp", asTime},
			{"id", "custom_data.event_id", asText},
			{"source", "source", asSource},
			{"value", "value", asNumber},
			{"currency_code", "currency_code", asText},
			{"properties.page_url", "page_url", asText},
			{"properties.referrer", "referer", asText},
			{"user_data.email_address", "email_sha256", asEmail},
			{"user_data.email_addresses", "email_sha256", asEmail},
			{"user_data.event_ip_address", "ip", asIP},
			{"user_data.ifa", "ifa", asText},
			{"user_data.customer_identifier", "partner_id", asText},
			{"user_data.click_id", "custom_data.click_id", asText},
			{"user_data.gpp_string", "gpp_string", asText},
			{"user_data.gpp_sid", "gpp_sid", asInts},
			{"user_data.us_privacy_string", "us_privacy_string", asText},
			{"user_data.mmt_only", "mmt_only", asFlag},
			{"user_data.opt_out", "mmt_only", asFlag},
			{"opt_out", "mmt_only", asFlag},
			{"mmt_only", "mmt_only", asFlag},
			{"user_data.lmt", "mmt_only", asFlag},
			{"user_data.att_status", "mmt_only", asATT},
		},
	},
}

var metaTypes = map[string]string{
	"AddPaymentInfo": "add_payment_info", "AddToCart": "add_to_cart", "AddToWishlist": "add_to_wishlist",
	"CompleteRegistration": "sign_up", "Contact": "contact", "CustomizeProduct": "customize_product",
	"Donate": "donate", "FindLocation": "find_location", "InitiateCheckout": "begin_checkout",
	"Lead": "generate_lead", "PageView": "page_view", "Purchase": "purchase", "Schedule": "schedule",
	"Search": "search", "StartTrial": "start_trial", "SubmitApplication": "generate_lead",
	"Subscribe": "subscribe", "ViewContent": "viewed_item", "AchievementUnlocked": "unlock_achievement",
	"LevelAchieved": "level_up", "TutorialCompletion": "tutorial_complete",
	"SpentCredits": "spend_virtual_currency", "MobileAppInstall": "install",
}

var ga4Types = map[string]string{
	"view_item": "viewed_item", "view_cart": "viewed_cart", "first_open": "install",
	"in_app_purchase": "purchase", "app_store_subscription_convert": "subscribe",
}

var tiktokTypes = map[string]string{
	"AddPaymentInfo": "add_payment_info", "AddToCart": "add_to_cart", "AddToWishlist": "add_to_wishlist",
	"CompletePayment": "purchase", "Purchase": "purchase", "PlaceAnOrder": "purchase",
	"CompleteRegistration": "sign_up", "Registration": "sign_up", "Contact": "contact",
	"CustomizeProduct": "customize_product", "FindLocation": "find_location",
	"InitiateCheckout": "begin_checkout", "Checkout": "begin_checkout", "Lead": "generate_lead",
	"SubmitForm": "generate_lead", "SubmitApplication": "generate_lead", "Pageview": "page_view",
	"PageView": "page_view", "Schedule": "schedule", "Search": "search", "StartTrial": "start_trial",
	"Subscribe": "subscribe", "ViewContent": "viewed_item", "InstallApp": "install", "Login": "login",
	"AchieveLevel": "level_up", "UnlockAchievement": "unlock_achievement",
	"CompleteTutorial": "tutorial_complete", "JoinGroup": "join_group",
	"SpendCredits": "spend_virtual_currency",
}

var snapTypes = map[string]string{
	"PURCHASE": "purchase", "Purchase": "purchase", "SAVE": "add_to_wishlist",
	"ADD_TO_WISHLIST": "add_to_wishlist", "ADD_CART": "add_to_cart", "VIEW_CONTENT": "viewed_item",
	"ADD_BILLING": "add_payment_info", "SIGN_UP": "sign_up", "SEARCH": "search", "PAGE_VIEW": "page_view",
	"SUBSCRIBE": "subscribe", "AD_VIEW": "ad_impression", "APP_INSTALL": "install", "LOGIN": "login",
	"SHARE": "share", "START_CHECKOUT": "begin_checkout", "LIST_VIEW": "view_item_list",
	"ACHIEVEMENT_UNLOCKED": "unlock_achievement", "COMPLETE_TUTORIAL": "tutorial_complete",
	"LEVEL_COMPLETE": "level_up", "SPENT_CREDITS": "spend_virtual_currency", "START_TRIAL": "start_trial",
	"RESERVE": "schedule",
}

package convert

// move takes one member of another platform's event to ours.
type move struct {
	from string // path; "^" before it: of the request around the events
	to   string // our field; "" for none
	how  string // how the value changes on the way, one of the words of hows
}

// hows explains the ways of a value, for the table that is shown to senders.
var hows = map[string]string{
	"text":    "as it is",
	"type":    "by the table of event types; an unknown one becomes custom with its name",
	"seconds": "Unix seconds",
	"micros":  "microseconds, cut to seconds",
	"millis":  "milliseconds, or seconds; cut to seconds",
	"number":  "a number, also one written as a string",
	"email":   "must be a SHA-256, the first of a list; plain only with --hash-plain",
	"ip":      "must be a SHA-256; a plain IPv4 address only with --hash-plain; IPv6 is left out",
	"source":  "in lower case; web becomes website, mobile_app becomes app",
	"ints":    "a list of integers",
	"flag":    "true, or a list that is not empty, restricts the event to measurement",
	"denied":  "DENIED restricts the event to measurement",
	"refused": "DENIED refuses the event",
}

// platform is a form of server events that can be converted.
type platform struct {
	name  string
	title string
	list  string            // member of a request that holds its events
	rest  []string          // objects whose other members become custom_data
	types map[string]string // their names of ours; names not here that are ours stay
	moves []move
}

var platforms = []platform{
	{
		name: "meta", title: "Meta Conversions API", list: "data", rest: []string{"custom_data"}, types: metaTypes,
		moves: []move{
			{"event_name", "event_type", "type"},
			{"event_time", "timestamp", "seconds"},
			{"event_id", "custom_data.event_id", "text"},
			{"action_source", "source", "source"},
			{"event_source_url", "page_url", "text"},
			{"referrer_url", "referer", "text"},
			{"custom_data.value", "value", "number"},
			{"custom_data.currency", "currency_code", "text"},
			{"user_data.em", "email_sha256", "email"},
			{"user_data.client_ip_address", "ip", "ip"},
			{"user_data.madid", "ifa", "text"},
			{"user_data.external_id", "partner_id", "text"},
			{"opt_out", "mmt_only", "flag"},
			{"data_processing_options", "mmt_only", "flag"},
		},
	},
	{
		name: "ga4", title: "Google Analytics 4 Measurement Protocol", list: "events", rest: []string{"params"}, types: ga4Types,
		moves: []move{
			{"name", "event_type", "type"},
			{"timestamp_micros", "timestamp", "micros"},
			{"^timestamp_micros", "timestamp", "micros"},
			{"params.page_location", "page_url", "text"},
			{"params.page_referrer", "referer", "text"},
			{"params.value", "value", "number"},
			{"params.currency", "currency_code", "text"},
			{"params.campaign_id", "cp_id", "text"},
			{"params.campaign", "cp_name", "text"},
			{"^user_data.sha256_email_address", "email_sha256", "email"},
			{"^ip_override", "ip", "ip"},
			{"^device.advertising_id", "ifa", "text"},
			{"^user_id", "partner_id", "text"},
			{"^non_personalized_ads", "mmt_only", "flag"},
			{"^consent.ad_personalization", "mmt_only", "denied"},
			{"^consent.ad_user_data", "", "refused"},
		},
	},
	{
		name: "tiktok", title: "TikTok Events API", list: "data", rest: []string{"properties"}, types: tiktokTypes,
		moves: []move{
			{"event", "event_type", "type"},
			{"event_time", "timestamp", "seconds"},
			{"event_id", "custom_data.event_id", "text"},
			{"^event_source", "source", "source"},
			{"page.url", "page_url", "text"},
			{"page.referrer", "referer", "text"},
			{"properties.value", "value", "number"},
			{"properties.currency", "currency_code", "text"},
			{"user.email", "email_sha256", "email"},
			{"user.ip", "ip", "ip"},
			{"user.idfa", "ifa", "text"},
			{"user.gaid", "ifa", "text"},
			{"user.external_id", "partner_id", "text"},
			{"ad.campaign_id", "cp_id", "text"},
			{"limited_data_use", "mmt_only", "flag"},
		},
	},
	{
		name: "snap", title: "Snap Conversions API, versions 3 and 2", list: "data", rest: []string{"custom_data"}, types: snapTypes,
		moves: []move{
			{"event_name", "event_type", "type"},
			{"event_time", "timestamp", "millis"},
			{"event_id", "custom_data.event_id", "text"},
			{"action_source", "source", "source"},
			{"event_source_url", "page_url", "text"},
			{"custom_data.referrer_url", "referer", "text"},
			{"custom_data.value", "value", "number"},
			{"custom_data.currency", "currency_code", "text"},
			{"user_data.em", "email_sha256", "email"},
			{"user_data.client_ip_address", "ip", "ip"},
			{"user_data.madid", "ifa", "text"},
			{"user_data.external_id", "partner_id", "text"},
			{"data_processing_options", "mmt_only", "flag"},
			// Version 2 is one flat object.
			{"event_type", "event_type", "type"},
			{"timestamp", "timestamp", "millis"},
			{"event_conversion_type", "source", "source"},
			{"page_url", "page_url", "text"},
			{"price", "value", "number"},
			{"currency", "currency_code", "text"},
			{"hashed_email", "email_sha256", "email"},
			{"hashed_ip_address", "ip", "ip"},
			{"hashed_mobile_ad_id", "ifa", "text"},
			{"client_dedup_id", "custom_data.event_id", "text"},
			{"transaction_id", "custom_data.transaction_id", "text"},
			{"item_ids", "custom_data.item_ids", "text"},
			{"item_category", "custom_data.item_category", "text"},
			{"number_items", "custom_data.number_items", "text"},
			{"description", "custom_data.description", "text"},
			{"data_use", "mmt_only", "flag"},
		},
	},
	{
		name: "ecapi", title: "IAB Tech Lab ECAPI 1.0", list: "data", rest: []string{"properties"},
		moves: []move{
			{"data_set_id", "data_set_id", "text"},
			{"event_type", "event_type", "type"},
			{"custom_event", "custom_event_name", "text"},
			{"timestamp", "timestamp", "seconds"},
			{"id", "custom_data.event_id", "text"},
			{"source", "source", "source"},
			{"value", "value", "number"},
			{"currency_code", "currency_code", "text"},
			{"properties.page_url", "page_url", "text"},
			{"properties.referrer", "referer", "text"},
			{"user_data.email_address", "email_sha256", "email"},
			{"user_data.event_ip_address", "ip", "ip"},
			{"user_data.ifa", "ifa", "text"},
			{"user_data.customer_identifier", "partner_id", "text"},
			{"user_data.click_id", "custom_data.click_id", "text"},
			{"user_data.gpp_string", "gpp_string", "text"},
			{"user_data.gpp_sid", "gpp_sid", "ints"},
			{"user_data.mmt_only", "mmt_only", "flag"},
		},
	},
}

var metaTypes = map[string]string{
	"AddPaymentInfo": "add_payment_info", "AddToCart": "add_to_cart", "AddToWishlist": "add_to_wishlist", "CompleteRegistration": "sign_up",
	"Contact": "contact", "CustomizeProduct": "customize_product", "Donate": "donate", "FindLocation": "find_location",
	"InitiateCheckout": "begin_checkout", "Lead": "generate_lead", "PageView": "page_view", "Purchase": "purchase", "Schedule": "schedule",
	"Search": "search", "StartTrial": "start_trial", "SubmitApplication": "generate_lead", "Subscribe": "subscribe", "ViewContent": "viewed_item",
	"AchievementUnlocked": "unlock_achievement", "LevelAchieved": "level_up", "TutorialCompletion": "tutorial_complete",
	"SpentCredits": "spend_virtual_currency", "MobileAppInstall": "install",
}

var ga4Types = map[string]string{
	"view_item": "viewed_item", "view_cart": "viewed_cart", "first_open": "install", "in_app_purchase": "purchase", "app_store_subscription_convert": "subscribe",
}

var tiktokTypes = map[string]string{
	"AddPaymentInfo": "add_payment_info", "AddToCart": "add_to_cart", "AddToWishlist": "add_to_wishlist", "CompletePayment": "purchase",
	"Purchase": "purchase", "PlaceAnOrder": "purchase", "CompleteRegistration": "sign_up", "Registration": "sign_up", "Contact": "contact",
	"CustomizeProduct": "customize_product", "FindLocation": "find_location", "InitiateCheckout": "begin_checkout", "Checkout": "begin_checkout",
	"Lead": "generate_lead", "SubmitForm": "generate_lead", "SubmitApplication": "generate_lead", "Pageview": "page_view", "PageView": "page_view",
	"Schedule": "schedule", "Search": "search", "StartTrial": "start_trial", "Subscribe": "subscribe", "ViewContent": "viewed_item",
	"InstallApp": "install", "Login": "login", "AchieveLevel": "level_up", "UnlockAchievement": "unlock_achievement",
	"CompleteTutorial": "tutorial_complete", "JoinGroup": "join_group", "SpendCredits": "spend_virtual_currency",
}

var snapTypes = map[string]string{
	"PURCHASE": "purchase", "Purchase": "purchase", "SAVE": "add_to_wishlist", "ADD_TO_WISHLIST": "add_to_wishlist", "ADD_CART": "add_to_cart",
	"VIEW_CONTENT": "viewed_item", "ADD_BILLING": "add_payment_info", "SIGN_UP": "sign_up", "SEARCH": "search", "PAGE_VIEW": "page_view",
	"SUBSCRIBE": "subscribe", "AD_VIEW": "ad_impression", "APP_INSTALL": "install", "LOGIN": "login", "SHARE": "share", "START_CHECKOUT": "begin_checkout",
	"LIST_VIEW": "view_item_list", "ACHIEVEMENT_UNLOCKED": "unlock_achievement", "COMPLETE_TUTORIAL": "tutorial_complete",
	"LEVEL_COMPLETE": "level_up", "SPENT_CREDITS": "spend_virtual_currency", "START_TRIAL": "start_trial", "RESERVE": "schedule",
}

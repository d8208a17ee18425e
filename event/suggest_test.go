package event

import (
	"strings"
	"testing"
)

func TestNearestType(t *testing.T) {
	for sent, want := range map[string]string{
		// another style of ours
		"Purchase": "purchase", "PURCHASE": "purchase", "pageView": "page_view", "PageView": "page_view", "page-view": "page_view", "page view": "page_view",
		"AddToCart": "add_to_cart", "ADD_CART": "add_to_cart", "add-to-cart": "add_to_cart", "AddToWishlist": "add_to_wishlist", "AddPaymentInfo": "add_payment_info",
		"StartTrial": "start_trial", "FindLocation": "find_location", "CustomizeProduct": "customize_product", "Custom": "custom", "SignUp": "sign_up",
		// a slip
		"purchse": "purchase", "purhcase": "purchase", "purchases": "purchase", "add_to_cartt": "add_to_cart", "pageviews": "page_view", "begin_chekout": "begin_checkout",
		"subcribe": "subscribe", "viewed_items": "viewed_item", "remove_from_card": "remove_from_cart", "generate_leads": "generate_lead", "serach": "search",
		// other platforms
		"CompletePayment": "purchase", "view_item": "viewed_item", "PAGE_VISIT": "page_view", "ViewContent": "viewed_item", "VIEW_CONTENT": "viewed_item",
		"InitiateCheckout": "begin_checkout", "CompleteRegistration": "sign_up", "Lead": "generate_lead", "LEAD": "generate_lead", "SubmitForm": "generate_lead",
		"START_CHECKOUT": "begin_checkout", "checkout": "begin_checkout", "SIGN_UP": "sign_up", "signup": "sign_up", "view_cart": "viewed_cart", "first_open": "install",
		"APP_INSTALL": "install", "fb_mobile_purchase": "purchase", "PlaceAnOrder": "purchase", "Order Completed": "purchase", "Product Viewed": "viewed_item",
		"conversion": "purchase", "ViewCategory": "view_item_list", "SubmitApplication": "generate_lead", "Product Added": "add_to_cart", "screen_view": "page_view",
		"ADD_BILLING": "add_payment_info", "LEVEL_COMPLETE": "level_up", "ACHIEVEMENT_UNLOCKED": "unlock_achievement", "SPENT_CREDITS": "spend_virtual_currency",
		"sale": "purchase", "tutorial_completion": "tutorial_complete", "Rate": "custom",
		// nothing
		"": "", "x": "", "zzzzzzzz": "", "…": "", "___": "", "qwertyuiop": "",
	} {
		if name := nearestType(sent); name != want {
			t.Errorf("%q: got %q, want %q", sent, name, want)
		}
	}
}

// TestNearestTypeOwn holds that every type is nearest to itself in any style, whatever the foreign names say.
func TestNearestTypeOwn(t *testing.T) {
	for _, info := range typeTable {
		for _, style := range []string{info.Name, strings.ToUpper(info.Name), strings.ReplaceAll(info.Name, "_", ""), strings.ReplaceAll(info.Name, "_", "-")} {
			if name := nearestType(style); name != info.Name {
				t.Errorf("%q: got %q, want %q", style, name, info.Name)
			}
		}
	}
}

// TestForeignTypes holds the table itself: keys as they are looked up, values that exist, no key that is a type.
func TestForeignTypes(t *testing.T) {
	types := map[string]bool{}
	folded := map[string]bool{}
	for _, info := range typeTable {
		types[info.Name] = true
		folded[strings.ReplaceAll(info.Name, "_", "")] = true
	}
	for key, name := range foreignTypes {
		if b, ok := foldName(nil, key); !ok || string(b) != key {
			t.Errorf("%q is not folded and never found", key)
		}
		if !types[name] {
			t.Errorf("%q stands for %q, which is no type", key, name)
		}
		if folded[key] {
			t.Errorf("%q is a type of ours", key)
		}
	}
}

func TestNearestField(t *testing.T) {
	members := []string{"data_set_id", "timestamp", "event_type", "identifiers", "custom_event_name", "source", "cp_id", "cp_name", "referer", "page_url", "value", "currency_code", "privacy", "custom_data", "mmt_only", "ext", "schema_version"}
	for sent, want := range map[string]string{
		"dataset_id": "data_set_id", "dataSetId": "data_set_id", "time_stamp": "timestamp", "eventType": "event_type", "event_typ": "event_type", "identifier": "identifiers",
		"referrer": "referer", "pageUrl": "page_url", "currencyCode": "currency_code", "curency_code": "currency_code", "customData": "custom_data", "schemaVersion": "schema_version", "vlaue": "value",
		"foo": "", "x": "", "": "", "user_agent": "", "order_id": "",
		strings.Repeat("a", 1<<20): "",
	} {
		if got := meant(sent, nil, members); got != want {
			t.Errorf("%.40q: got %q, want %q", sent, got, want)
		}
	}
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b        string
		limit, want int
	}{
		{"", "", 0, 0},
		{"a", "a", 0, 0},
		{"ab", "ba", 1, 1},
		{"abc", "abd", 1, 1},
		{"abc", "ab", 1, 1},
		{"ab", "abc", 1, 1},
		{"kitten", "sitting", 3, 3},
		{"kitten", "sitting", 2, 3},
		{"abcdef", "ghijkl", 2, 3},
		{"abc", "abc", -1, 0},
		{"ca", "abc", 3, 3},
	} {
		if got := editDistance([]byte(c.a), []byte(c.b), c.limit); got != c.want {
			t.Errorf("%q, %q within %d: got %d, want %d", c.a, c.b, c.limit, got, c.want)
		}
	}
}

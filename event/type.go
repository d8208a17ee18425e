package event

import "slices"

// TypeInfo describes one event type.
type TypeInfo struct {
	Name       string
	Meaning    string
	Additional bool // of the lower-priority group; just as valid
}

// Custom is the event type that needs a custom_event_name.
const Custom = "custom"

// refund is the one type whose value may well be negative.
const refund = "refund"

// Types returns all event types, as a copy.
func Types() []TypeInfo { return slices.Clone(typeTable) }

// TypeNames returns the names of all event types, in the order of Types.
func TypeNames() []string { return slices.Clone(typeNames) }

// LookupType finds an event type by its exact name.
func LookupType(name string) (info TypeInfo, known bool) {
	i, known := typeIndex[name]
	if !known {
		return TypeInfo{}, false
	}
	return typeTable[i], true
}

var typeTable = []TypeInfo{
	{Name: "purchase", Meaning: "An order was paid."},
	{Name: "page_view", Meaning: "A page of the advertiser's site was seen."},
	{Name: "ad_impression", Meaning: "An ad was shown to the person."},
	{Name: "add_to_wishlist", Meaning: "Something went onto a wish list."},
	{Name: "add_to_cart", Meaning: "Something went into a cart."},
	{Name: "viewed_cart", Meaning: "The cart was looked at."},
	{Name: "viewed_item", Meaning: "A product was looked at."},
	{Name: "begin_checkout", Meaning: "A checkout was started."},
	{Name: "add_payment_info", Meaning: "Payment details were entered during checkout."},
	{Name: "remove_from_cart", Meaning: "Something was taken out of a cart."},
	{Name: "refund", Meaning: "An order, or a part of it, was refunded."},
	{Name: "generate_lead", Meaning: "A new lead came in."},
	{Name: "qualify_lead", Meaning: "A lead was found to be qualified."},
	{Name: "close_convert_lead", Meaning: "A lead became a customer."},
	{Name: "disqualify_lead", Meaning: "A lead was ruled out."},
	{Name: "close_unconvert_lead", Meaning: "A lead was closed without becoming a customer."},
	{Name: "sign_up", Meaning: "An account or an offer was signed up for."},
	{Name: "search", Meaning: "A search was made."},
	{Name: "unlock_achievement", Meaning: "An achievement was reached."},
	{Name: "install", Meaning: "The app was installed."},
	{Name: "customize_product", Meaning: "A product was configured to taste."},
	{Name: "contact", Meaning: "The person got in touch."},
	{Name: "donate", Meaning: "A donation was given."},
	{Name: "find_location", Meaning: "A branch or place was looked for."},
	{Name: "schedule", Meaning: "An appointment was made."},
	{Name: "start_trial", Meaning: "A trial period was started."},
	{Name: "subscribe", Meaning: "A subscription was taken out."},
	{Name: Custom, Meaning: "None of the others; custom_event_name says what."},
	{Name: "add_shipping_info", Meaning: "Delivery details were entered.", Additional: true},
	{Name: "share", Meaning: "Content was passed on.", Additional: true},
	{Name: "select_content", Meaning: "A piece of content was chosen.", Additional: true},
	{Name: "select_item", Meaning: "An entry of a product list was chosen.", Additional: true},
	{Name: "select_promotion", Meaning: "A promotion was chosen.", Additional: true},
	{Name: "view_item_list", Meaning: "A list of products was seen.", Additional: true},
	{Name: "view_promotion", Meaning: "A promotion was seen.", Additional: true},
	{Name: "view_search_results", Meaning: "The results of a search were seen.", Additional: true},
	{Name: "spend_virtual_currency", Meaning: "In-app currency was spent.", Additional: true},
	{Name: "earn_virtual_currency", Meaning: "In-app currency was earned.", Additional: true},
	{Name: "working_lead", Meaning: "A lead and a representative were in contact.", Additional: true},
	{Name: "login", Meaning: "The person logged in.", Additional: true},
	{Name: "join_group", Meaning: "A group was joined.", Additional: true},
	{Name: "level_up", Meaning: "A level of a game was completed.", Additional: true},
	{Name: "post_score", Meaning: "A score was posted.", Additional: true},
	{Name: "tutorial_begin", Meaning: "An introduction was started.", Additional: true},
	{Name: "tutorial_complete", Meaning: "An introduction was finished.", Additional: true},
}

// typeNames and typeIndex have the names of the types and where they are in the table. A name in the table is stored in
// rows: it does not keep a request body alive.
var typeNames, typeIndex = func() (names []string, index map[string]int) {
	index = make(map[string]int, len(typeTable))
	for i := range typeTable {
		names = append(names, typeTable[i].Name)
		index[typeTable[i].Name] = i
	}
	return names, index
}()

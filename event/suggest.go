package event

import "strings"

// foreignTypes are the names that other platforms use for our event types, in the form that foldName makes.
// A name that folds to one of ours is found without them.
var foreignTypes = map[string]string{
	// Meta
	"viewcontent": "viewed_item", "initiatecheckout": "begin_checkout", "completeregistration": "sign_up",
	"lead":              "generate_lead",
	"submitapplication": "generate_lead", "mobileappinstall": "install", "fbmobilepurchase": "purchase",
	"fbmobileaddtocart": "add_to_cart", "fbmobileactivateapp": "login", "achievementunlocked": "unlock_achievement",
	"levelachieved": "level_up",
	"spentcredits":  "spend_virtual_currency", "spendcredits": "spend_virtual_currency",
	"tutorialcompletion": "tutorial_complete",
	"completetutorial":   "tutorial_complete", "adclick": "select_promotion", "rate": "custom",
	// Google
	"viewitem": "viewed_item", "viewcart": "viewed_cart", "firstopen": "install", "appinstall": "install",
	"screenview": "page_view", "sessionstart": "page_view", "conversion": "purchase", "ecommercepurchase": "purchase",
	"inapppurchase": "purchase",

	// TikTok
	"completepayment": "purchase", "placeanorder": "purchase", "placeorder": "purchase", "submitform": "generate_lead",
	"clickbutton": "select_content",
	"download":    "install", "installapp": "install", "launchapp": "login", "registration": "sign_up",
	"creategroup": "join_group",
	"createrole":  "sign_up", "checkout": "begin_checkout", "addbilling": "add_payment_info",
	// Snap
	"startcheckout": "begin_checkout", "addbillinginfo": "add_payment_info", "addbillingaddress": "add_payment_info",
	"completesignup": "sign_up",
	"signupcomplete": "sign_up", "appopen": "login", "openapp": "login", "listview": "view_item_list",
	"achievement": "unlock_achievement",
	"reserve":     "schedule", "invite": "share", "adview": "ad_impression", "levelcomplete": "level_up",
	"completelevel": "level_up",
	// Pinterest
	"pagevisit": "page_view", "viewcategory": "view_item_list", "watchvideo": "select_content", "userdefined": "custom",
	// Reddit, X, LinkedIn, Amazon, Microsoft, The Trade Desk
	"pagevisited": "page_view", "landingpageview": "page_view", "pageload": "page_view", "sitevisit": "page_view",
	"productview": "viewed_item", "viewproduct": "viewed_item", "contentview": "viewed_item",
	"checkoutinitiated": "begin_checkout",
	"bookappointment":   "schedule", "appointment": "schedule", "requestquote": "generate_lead",
	"qualifiedlead":          "qualify_lead",
	"marketingqualifiedlead": "qualify_lead", "salesqualifiedlead": "qualify_lead", "keypageview": "page_view",
	"offamazonpurchases": "purchase",
	"application":        "generate_lead", "mobileappfirststart": "install", "newsletter": "subscribe",
	"subscription":      "subscribe",
	"startsubscription": "subscribe", "donation": "donate", "contactus": "contact", "outboundclick": "select_content",
	"click": "select_content",
	// Segment, Shopify, Adobe and plain speech
	"ordercompleted": "purchase", "orderplaced": "purchase", "ordercreated": "purchase", "order": "purchase",
	"sale": "purchase", "buy": "purchase",
	"transaction": "purchase", "payment": "purchase", "checkoutcompleted": "purchase", "completecheckout": "purchase",
	"orderrefunded": "refund", "refunded": "refund", "return": "refund", "returned": "refund", "chargeback": "refund",
	"productadded": "add_to_cart", "productaddedtocart": "add_to_cart", "addedtocart": "add_to_cart",
	"cartadd": "add_to_cart", "additem": "add_to_cart",
	"addtobasket": "add_to_cart", "addtobag": "add_to_cart", "productremoved": "remove_from_cart",
	"productremovedfromcart": "remove_from_cart",
	"cartremove":             "remove_from_cart", "cartviewed": "viewed_cart", "basketview": "viewed_cart",
	"productviewed": "viewed_item", "itemview": "viewed_item",
	"itemviewed": "viewed_item", "pdpview": "viewed_item", "checkoutstarted": "begin_checkout",
	"beginscheckout":     "begin_checkout",
	"paymentinfoentered": "add_payment_info", "paymentinfosubmitted": "add_payment_info",
	"checkoutaddressinfosubmitted":  "add_shipping_info",
	"checkoutshippinginfosubmitted": "add_shipping_info", "productaddedtowishlist": "add_to_wishlist",
	"wishlist": "add_to_wishlist", "favorite": "add_to_wishlist",
	"productlistviewed": "view_item_list", "collectionviewed": "view_item_list", "productssearched": "search",
	"searchsubmitted": "search",
	"promotionviewed": "view_promotion", "promotionclicked": "select_promotion", "signedup": "sign_up",
	"register": "sign_up", "registered": "sign_up",
	"accountcreated": "sign_up", "createaccount": "sign_up", "signin": "login", "signedin": "login", "loggedin": "login",
	"applicationinstalled": "install",
	"firstlaunch":          "install", "page": "page_view", "view": "page_view", "visit": "page_view", "pv": "page_view",
	"impression": "ad_impression", "impressions": "ad_impression", "trial": "start_trial", "trialstarted": "start_trial",
	"storelocator": "find_location",
	"form":         "generate_lead", "formsubmit": "generate_lead", "formsubmission": "generate_lead", "other": "custom",
	"customevent": "custom",
}

// maxName bounds the names that are compared, in bytes after folding: none of ours is longer than 24.
const maxName = 40

// nearestType names the event type that s most likely means: one of ours in another case or with a typing error, or the
// name of another platform. known is false if nothing is near.
func nearestType(s string) (name string, known bool) {
	var buf [maxName]byte
	folded, ok := foldName(buf[:0], s)
	if !ok {
		return "", false
	}
	var best nearest
	for i := range typeTable {
		best.offer(folded, typeTable[i].Name)
	}
	if best.distance > 0 || best.name == "" {
		if ours, ok := foreignTypes[string(folded)]; ok {
			return ours, true
		}
	}
	return best.name, best.name != ""
}

// foreignFields are the names that other platforms, and plain speech, have for members of ours, in the form that
// foldName makes, by the pointer of their parent.
var foreignFields = map[string]map[string]string{
	"": {
		"event": "event_type", "eventname": "event_type", "type": "event_type", "name": "event_type",
		"conversiontype": "event_type",
		"time":           "timestamp", "eventtime": "timestamp", "ts": "timestamp", "date": "timestamp",
		"occurredat": "timestamp", "createdat": "timestamp",
		"dataset": "data_set_id", "pixelid": "data_set_id", "userdata": "identifiers", "user": "identifiers",
		"ids":      "identifiers",
		"currency": "currency_code", "amount": "value", "price": "value", "revenue": "value", "total": "value",
		"url": "page_url", "eventsourceurl": "page_url", "campaign": "cp_id", "campaignid": "cp_id",
		"campaignname": "cp_name",
		"metadata":     "custom_data", "properties": "custom_data", "params": "custom_data", "version": "schema_version",
	},
	"/identifiers": {
		"email": "email_sha256", "em": "email_sha256", "emails": "email_sha256", "hashedemail": "email_sha256",
		"emailhash": "email_sha256", "emailhashed": "email_sha256",
		"emailaddress": "email_sha256", "sha256email": "email_sha256", "sha256emailaddress": "email_sha256",
		"hem": "email_sha256", "useremail": "email_sha256", "emailmd5": "email_sha256",
		"idfa": "ifa", "gaid": "ifa", "aaid": "ifa", "adid": "ifa", "maid": "ifa", "madid": "ifa", "advertisingid": "ifa",
		"deviceid": "ifa", "idfv": "ifa", "rida": "ifa", "tifa": "ifa",
		"ipaddress": "ip", "ipv4": "ip", "clientip": "ip", "clientipaddress": "ip", "iphash": "ip", "ipsha256": "ip",
		"hashedip": "ip",
		"userid":   "partner_id", "customerid": "partner_id", "externalid": "partner_id", "crmid": "partner_id",
	},
}

// likelyField is the member of a parent that an unknown name was most likely meant to be, "" if none is.
func likelyField(name, parent string) string {
	var buf [maxName]byte
	if folded, ok := foldName(buf[:0], name); ok {
		if ours := foreignFields[parent][string(folded)]; ours != "" {
			return ours
		}
	}
	return nearestField(name, siblings[parent])
}

// nearestField is the candidate that an unknown member name was most likely meant to be, "" if none is near.
func nearestField(name string, candidates []string) string {
	var buf [maxName]byte
	folded, ok := foldName(buf[:0], name)
	if !ok {
		return ""
	}
	var best nearest
	for _, c := range candidates {
		best.offer(folded, c)
	}
	return best.name
}

// nearest keeps the candidate at the least distance; the first of several.
type nearest struct {
	name     string
	distance int
}

func (n *nearest) offer(folded []byte, candidate string) {
	var buf [maxName]byte
	other, ok := foldName(buf[:0], candidate)
	if !ok {
		return
	}
	// A third of the letters may be wrong: more is another word. Short names have to be closer.
	limit := min(len(folded), len(other)) / 3
	if n.name != "" {
		limit = min(limit, n.distance-1)
	}
	if d := editDistance(folded, other, limit); d <= limit {
		n.name, n.distance = candidate, d
	}
}

// foldName appends the letters and digits of s in lower case, without the separators that styles of naming
// differ in. It is not ok if there are too many or none.
func foldName(b []byte, s string) ([]byte, bool) {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if strings.IndexByte("_- .:/$", c) >= 0 {
			continue
		}
		if len(b) == maxName {
			return nil, false
		}
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		b = append(b, c)
	}
	return b, len(b) > 0
}

// editDistance counts the insertions, deletions, replacements and swaps of neighbours that make a into b. It
// gives up with limit+1 as soon as there are more than limit.
func editDistance(a, b []byte, limit int) int {
	if limit < 0 || len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	var rows [3][maxName + 1]int
	before, last, now := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		now[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(last[j]+1, now[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, before[j-2]+1)
			}
			now[j] = d
			least = min(least, d)
		}
		if least > limit {
			return limit + 1
		}
		before, last, now = last, now, before
	}
	return last[len(b)]
}

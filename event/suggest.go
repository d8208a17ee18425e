package event

import "strings"

// foreignTypes are the names that other platforms, shops and plain speech use for our event types, in the form that
// foldName makes. A name that folds to one of ours is found without them.
var foreignTypes = byWord(map[string]string{
	"purchase": "fbmobilepurchase conversion ecommercepurchase inapppurchase completepayment placeanorder placeorder " +
		"offamazonpurchases ordercompleted orderplaced ordercreated order sale buy transaction payment checkoutcompleted " +
		"completecheckout",
	"page_view": "screenview sessionstart pagevisit pagevisited landingpageview pageload sitevisit keypageview page " +
		"view visit pv",
	"ad_impression":   "adview impression impressions",
	"add_to_wishlist": "productaddedtowishlist wishlist favorite",
	"add_to_cart": "fbmobileaddtocart productadded productaddedtocart addedtocart cartadd additem addtobasket " +
		"addtobag",
	"viewed_cart": "viewcart cartviewed basketview",
	"viewed_item": "viewcontent viewitem productview viewproduct contentview productviewed itemview itemviewed " +
		"pdpview",
	"begin_checkout":   "initiatecheckout checkout startcheckout checkoutinitiated checkoutstarted beginscheckout",
	"add_payment_info": "addbilling addbillinginfo addbillingaddress paymentinfoentered paymentinfosubmitted",
	"remove_from_cart": "productremoved productremovedfromcart cartremove",
	"refund":           "orderrefunded refunded return returned chargeback",
	"generate_lead":    "lead submitapplication submitform requestquote application form formsubmit formsubmission",
	"qualify_lead":     "qualifiedlead marketingqualifiedlead salesqualifiedlead",
	"sign_up": "completeregistration registration createrole completesignup signupcomplete signedup register registered " +
		"accountcreated createaccount",
	"search":             "productssearched searchsubmitted",
	"unlock_achievement": "achievementunlocked achievement",
	"install": "mobileappinstall firstopen appinstall download installapp mobileappfirststart applicationinstalled " +
		"firstlaunch",
	"contact":                "contactus",
	"donate":                 "donation",
	"find_location":          "storelocator",
	"schedule":               "reserve bookappointment appointment",
	"start_trial":            "trial trialstarted",
	"subscribe":              "newsletter subscription startsubscription",
	"custom":                 "rate userdefined other customevent",
	"add_shipping_info":      "checkoutaddressinfosubmitted checkoutshippinginfosubmitted",
	"share":                  "invite",
	"select_content":         "clickbutton watchvideo outboundclick click",
	"select_promotion":       "adclick promotionclicked",
	"view_item_list":         "listview viewcategory productlistviewed collectionviewed",
	"view_promotion":         "promotionviewed",
	"spend_virtual_currency": "spentcredits spendcredits",
	"login":                  "fbmobileactivateapp launchapp appopen openapp signin signedin loggedin",
	"join_group":             "creategroup",
	"level_up":               "levelachieved levelcomplete completelevel",
	"tutorial_complete":      "tutorialcompletion completetutorial",
})

// byWord makes a table from words to meanings of one from meanings to words.
func byWord(meanings map[string]string) map[string]string {
	words := map[string]string{}
	for meaning, list := range meanings {
		for _, word := range strings.Fields(list) {
			words[word] = meaning
		}
	}
	return words
}

// maxName bounds the names that are compared, in bytes after folding: none of ours is longer than 24.
const maxName = 40

// nearestType names the event type that s most likely means, "" if nothing is near.
func nearestType(s string) string { return meant(s, foreignTypes, typeNames) }

// foreignFields are the names that other platforms, and plain speech, have for members of ours, in the form that
// foldName makes, by the pointer of their parent.
var foreignFields = map[string]map[string]string{
	"": byWord(map[string]string{
		"event_type":     "event eventname type name conversiontype",
		"timestamp":      "time eventtime ts date occurredat createdat",
		"data_set_id":    "dataset pixelid",
		"identifiers":    "userdata user ids",
		"currency_code":  "currency",
		"value":          "amount price revenue total",
		"page_url":       "url eventsourceurl",
		"cp_id":          "campaign campaignid",
		"cp_name":        "campaignname",
		"custom_data":    "metadata properties params",
		"schema_version": "version",
	}),
	"/identifiers": byWord(map[string]string{
		"email_sha256": "email em emails hashedemail emailhash emailhashed emailaddress sha256email sha256emailaddress hem " +
			"useremail emailmd5",
		"ifa":        "idfa gaid aaid adid maid madid advertisingid deviceid idfv rida tifa",
		"ip":         "ipaddress ipv4 clientip clientipaddress iphash ipsha256 hashedip",
		"partner_id": "userid customerid externalid crmid",
	}),
}

// likelyField is the member of a parent that an unknown name was most likely meant to be, "" if none is.
func likelyField(name, parent string) string {
	return meant(name, foreignFields[parent], siblings[parent])
}

// meant is the name of ours that a name most likely stands for: a foreign one, or one of ours in another style or with
// typing errors, those with the fewest, and the first of several; "" if none is near.
func meant(name string, foreign map[string]string, ours []string) (best string) {
	var buf, other [maxName]byte
	folded, _ := foldName(buf[:0], name)
	if known := foreign[string(folded)]; known != "" {
		return known
	}
	least := maxName // errors
	for _, candidate := range ours {
		spelled, _ := foldName(other[:0], candidate)
		// A third of the letters may be wrong: more is another word. Short names have to be closer.
		limit := min(len(folded)/3, len(spelled)/3, least-1)
		if d := editDistance(folded, spelled, limit); d <= limit {
			best, least = candidate, d
		}
	}
	return best
}

func didYouMean(name string) string {
	if name == "" {
		return ""
	}
	return "Did you mean " + name + "?"
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

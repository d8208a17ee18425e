package client

import (
	"encoding/json"
	"time"
)

// Event is one conversion event as a sender writes it. Empty members are left out of the request.
type Event struct {
	DatasetID       string         // data_set_id; empty: that of the Client
	ID              string         // your own id of what happened, the same in every report of it
	Time            time.Time      // timestamp, sent in seconds; a zero Time is left out and rejected by the service
	EventType       string         // one of the standard types, or "custom"
	CustomEventName string         // needed by "custom"
	Source          string         // where it happened: website, app, offline, crm …
	CampaignID      string         // cp_id
	CampaignName    string         // cp_name
	Referer         string         //
	PageURL         string         //
	Value           *float64       // new(9.99); needs CurrencyCode
	CurrencyCode    string         // ISO 4217
	Identifiers     Identifiers    // at least one of EmailSHA256, IFA, IPSHA256
	Privacy         Privacy        //
	CustomData      map[string]any // free; up to 100 members, three levels
	MeasurementOnly bool           // mmt_only
	SchemaVersion   string         // "1.0" or empty
}

// Identifiers are the hashed ways to recognise a person or a device.
type Identifiers struct {
	EmailSHA256 string `json:"email_sha256,omitempty"` // HashEmail
	IFA         string `json:"ifa,omitempty"`          // advertising id of a device
	IPSHA256    string `json:"ip,omitempty"`           // HashIPv4; the member is called ip
	PartnerID   string `json:"partner_id,omitempty"`   // opaque id of your own; not enough alone
}

// Privacy holds the consent signals of the person.
type Privacy struct {
	GPPString       string `json:"gpp_string,omitempty"`
	GPPSID          []int  `json:"gpp_sid,omitempty"` // needed by GPPString
	USPrivacyString string `json:"us_privacy_string,omitempty"`
}

type wireEvent struct {
	DatasetID       string         `json:"data_set_id,omitempty"`
	ID              string         `json:"id,omitempty"`
	Timestamp       *int64         `json:"timestamp,omitempty"`
	EventType       string         `json:"event_type,omitempty"`
	CustomEventName string         `json:"custom_event_name,omitempty"`
	Source          string         `json:"source,omitempty"`
	CampaignID      string         `json:"cp_id,omitempty"`
	CampaignName    string         `json:"cp_name,omitempty"`
	Referer         string         `json:"referer,omitempty"`
	PageURL         string         `json:"page_url,omitempty"`
	Value           *float64       `json:"value,omitempty"`
	CurrencyCode    string         `json:"currency_code,omitempty"`
	Identifiers     Identifiers    `json:"identifiers,omitzero"`
	Privacy         *Privacy       `json:"privacy,omitempty"`
	CustomData      map[string]any `json:"custom_data,omitempty"`
	MeasurementOnly bool           `json:"mmt_only,omitempty"`
	SchemaVersion   string         `json:"schema_version,omitempty"`
}

// MarshalJSON writes the event in the words of the API.
func (e Event) MarshalJSON() ([]byte, error) {
	w := wireEvent{
		DatasetID: e.DatasetID, ID: e.ID, EventType: e.EventType, CustomEventName: e.CustomEventName, Source: e.Source,
		CampaignID: e.CampaignID, CampaignName: e.CampaignName, Referer: e.Referer, PageURL: e.PageURL,
		Value: e.Value, CurrencyCode: e.CurrencyCode, Identifiers: e.Identifiers, CustomData: e.CustomData,
		MeasurementOnly: e.MeasurementOnly, SchemaVersion: e.SchemaVersion,
	}
	if !e.Time.IsZero() {
		w.Timestamp = new(e.Time.Unix())
	}
	if p := e.Privacy; p.GPPString != "" || len(p.GPPSID) > 0 || p.USPrivacyString != "" {
		w.Privacy = &p
	}
	return json.Marshal(w)
}

// encode is the event's body, with the Client's dataset where the event names none.
func (c *Client) encode(e Event) ([]byte, error) {
	if e.DatasetID == "" {
		e.DatasetID = c.o.DatasetID
	}
	return json.Marshal(e)
}

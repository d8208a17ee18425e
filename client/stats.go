package client

import (
	"context"
	"net/url"
	"time"
)

// Stats are the numbers of a dataset in a window, as GET /v1/stats gives them.
type Stats struct {
	DatasetID string    `json:"data_set_id"`
	Window    string    `json:"window"`
	From      time.Time `json:"from"`
	To        time.Time `json:"to"`
	Complete  bool      `json:"complete"` // false while the server still reads its tables
	Received  int64     `json:"received"`
	Accepted  int64     `json:"accepted"`
	Rejected  int64     `json:"rejected"`
	Late      int64     `json:"late"`
	Outcomes  struct {
		Unrestricted    int64 `json:"unrestricted"`
		MeasurementOnly int64 `json:"measurement_only"`
		Suppressed      int64 `json:"suppressed"`
	} `json:"outcomes"`
	Requests struct {
		Accepted int64            `json:"accepted"` // answered with a receipt, replays included
		Rejected int64            `json:"rejected"` // rejected whole
		ByCode   map[string]int64 `json:"by_code"`  // the rejected ones
	} `json:"requests"`
	EventTypes []struct {
		EventType string `json:"event_type"`
		Accepted  int64  `json:"accepted"`
	} `json:"event_types"`
	Rejections  []StatsRejection `json:"rejections"`
	Identifiers []struct {
		Field  string  `json:"field"`
		Events int64   `json:"events"`
		Share  float64 `json:"share"`
	} `json:"identifiers"`
	MatchReadiness struct {
		Points  float64 `json:"points"`
		Formula string  `json:"formula"`
		Terms   struct {
			WithEmailOrIFA int64 `json:"with_email_or_ifa"`
			WithIPOnly     int64 `json:"with_ip_only"`
			Accepted       int64 `json:"accepted"`
		} `json:"terms"`
	} `json:"match_readiness"`
	Freshness struct {
		CountedAt        time.Time `json:"counted_at"`
		DelaySeconds     int64     `json:"delay_seconds"`
		LastAcceptedHour time.Time `json:"last_accepted_hour,omitzero"`
	} `json:"freshness"`
	Key struct {
		KeyID      string    `json:"key_id"`
		CreatedAt  time.Time `json:"created_at"`
		AgeSeconds int64     `json:"age_seconds"`
		EndsAt     time.Time `json:"ends_at,omitzero"`
	} `json:"key"`

	// Only StatsByCampaign fills these.
	Campaigns  []StatsCampaign `json:"campaigns,omitempty"` // of the most events first
	AsReported bool            `json:"as_reported,omitempty"`
	Note       string          `json:"note,omitempty"` // which views count each conversion once
}

// StatsCampaign is what was reported of one campaign. "(none)" are suppressed events without one, "(other)" those of
// campaigns beyond the first thousand.
type StatsCampaign struct {
	ID      string             `json:"cp_id"`
	Name    string             `json:"cp_name"` // last seen
	Events  map[string]int64   `json:"events"`  // by type
	Value   map[string]float64 `json:"value"`   // by currency, without refunds
	Refunds map[string]float64 `json:"refunds"` // by currency, never negative
}

// StatsRejection is one reason for rejections: an error code at a field.
type StatsRejection struct {
	ErrorCode string    `json:"error_code"`
	Field     string    `json:"field"`
	Events    int64     `json:"events"`   // whose first problem it was: they add up to Stats.Rejected
	Problems  int64     `json:"problems"` // how often it was found at all
	FirstSeen time.Time `json:"first_seen"`
	LastSeen  time.Time `json:"last_seen"`
	Hint      string    `json:"hint"`
	Example   string    `json:"example,omitempty"`
}

// Stats reads the numbers of the key's own dataset. The window is 1h, 24h, 7d or 30d; "" is 24h. An event is counted
// some seconds after its receipt.
func (c *Client) Stats(ctx context.Context, window string) (*Stats, error) {
	return c.stats(ctx, window, url.Values{})
}

// StatsByCampaign is Stats with the campaigns as they were reported: a conversion that was sent twice counts twice.
func (c *Client) StatsByCampaign(ctx context.Context, window string) (*Stats, error) {
	return c.stats(ctx, window, url.Values{"by": {"campaign"}})
}

func (c *Client) stats(ctx context.Context, window string, query url.Values) (*Stats, error) {
	if window != "" {
		query.Set("window", window)
	}
	path := "/v1/stats"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return readJSON(ctx, c, path, "the numbers", func(s *Stats) bool { return s.DatasetID != "" })
}

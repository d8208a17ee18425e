package upload

import (
	"testing"
	"time"
)

func TestProgressView(t *testing.T) {
	for name, tt := range map[string]struct {
		view view
		want string
	}{
		"half way":        {view{read: 50, size: 100, accepted: 900, rejected: 100, fresh: 1000, elapsed: 10 * time.Second}, "[############............]  50%  100 rows/s  900 accepted  100 rejected  10s left"},
		"resumed":         {view{read: 75, skipped: 50, size: 100, accepted: 750, fresh: 250, elapsed: 5 * time.Second}, "[##################......]  75%  50 rows/s  750 accepted  0 rejected  5s left"},
		"just begun":      {view{size: 100}, "[........................]   0%  0 rows/s  0 accepted  0 rejected"},
		"at the end":      {view{read: 120, size: 100, accepted: 1, fresh: 1, elapsed: 2 * time.Second}, "[########################] 100%  0 rows/s  1 accepted  0 rejected  0s left"},
		"no size (stdin)": {view{read: 75, accepted: 10, fresh: 10, elapsed: time.Second}, "10 rows/s  10 accepted  0 rejected"},
	} {
		if got := tt.view.String(); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

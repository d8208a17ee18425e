package api

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"

	"sluice/event"
)

// schemaTag names the version of the schema that this program serves.
var schemaTag = sync.OnceValue(func() string {
	sum := sha256.Sum256(event.Schema())
	return `"` + hex.EncodeToString(sum[:16]) + `"`
})

// schema serves the event schema, or says that the sender has it already.
func (q *request) schema() error {
	tag := schemaTag()
	q.w.Header()["Etag"] = []string{tag}
	if known(q.r.Header["If-None-Match"], tag) {
		q.status = http.StatusNotModified
		return nil
	}
	q.shared = [][]byte{event.Schema()}
	return nil
}

// known says whether If-None-Match holds the tag. The comparison is the weak one (RFC 9110, 13.1.2).
func known(values []string, tag string) bool {
	for _, v := range values {
		for t := range strings.SplitSeq(v, ",") {
			t = strings.TrimSpace(t)
			if t == "*" || strings.TrimPrefix(t, "W/") == tag {
				return true
			}
		}
	}
	return false
}

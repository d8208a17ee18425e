package service

import (
	"cmp"

	"sluice/internal/api"
	"sluice/internal/listen"
	"sluice/internal/memory"
	"sluice/internal/stream"
)

// What the service plans with its memory, of which the operator may have said how much it is.

// bytesInFlight is how much requests may hold together: an eighth, for a request costs several times its bytes until it
// is stored.
func bytesInFlight(said int64) int64 { return max(api.LeastInFlight, memory.Planned(said)/8) }

// connections is how many connections senders may have open: as many as an eighth holds.
func connections(said int64) int64 { return max(256, memory.Planned(said)/8/listen.ConnectionCost) }

// idempotencyKeys is how many idempotency keys may be in memory: as many as an eighth holds of what the operator has
// said, else of what the process may have, else of what the machine has. 0 leaves it to the stream.
func idempotencyKeys(said int64) int {
	return int(cmp.Or(said, memory.Own(), memory.Machine()) / 8 / stream.KeyCost)
}

//go:build amd64 || arm64

package suppression

// prefetch has the processor bring a word into its cache, and waits for nothing.
//
//go:noescape
func prefetch(p *uint64)

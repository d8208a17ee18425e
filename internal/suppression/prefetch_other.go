//go:build !amd64 && !arm64

package suppression

func prefetch(*uint64) {}

//go:build !linux

package suppression

func huge([]uint64) {}

package suppression

import (
	"os"
	"syscall"
	"unsafe"
)

// huge asks for large pages under memory that nobody has written to yet. A look-up goes to a place that no other one
// went to, and with small pages the processor first reads where that place is, which takes longer than reading it. A
// system without large pages is as right, and slower.
func huge(digests []uint64) {
	page := os.Getpagesize()
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(digests))), cap(digests)*8)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (page - 1)
	if b = b[min(skip, len(b)):]; len(b) >= page {
		_ = syscall.Madvise(b[:len(b)&^(page-1)], syscall.MADV_HUGEPAGE)
	}
}

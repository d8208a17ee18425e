package suppression

import (
	"os"
	"syscall"
	"unsafe"
)

// collapse is MADV_COLLAPSE, since Linux 6.1.
const collapse = 25

// huge asks for large pages under memory, which may have been used before. A look-up goes to a place that no other one
// went to, and with small pages the processor first reads where that place is, which takes longer than reading it. A
// system without large pages is as right, and slower.
func huge(words []uint64) {
	page := os.Getpagesize()
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), cap(words)*8)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (page - 1)
	if b = b[min(skip, len(b)):]; len(b) >= page {
		b = b[:len(b)&^(page-1)]
		_ = syscall.Madvise(b, syscall.MADV_HUGEPAGE)
		_ = syscall.Madvise(b, collapse)
	}
}

package memstore

import (
	"syscall"
	"unsafe"
)

// hugePage is how large a huge page is on most processors.
const hugePage = 2 << 20

// advise asks the kernel for huge pages under words, which nobody has written yet. It is
// advice (madvise(2), MADV_HUGEPAGE): where there are none nothing happens.
//
// It is for the whole of each page that words are a part of. What is around them is the
// heap's too, which has its memory in arenas of whole huge pages.
func (h hugePages) advise(words []uint64) {
	if size := uintptr(len(words)) * 8; h != 0 && size >= uintptr(h) {
		from := uintptr(unsafe.Pointer(unsafe.SliceData(words)))
		end := (from + size + hugePage - 1) &^ (hugePage - 1)
		from &^= hugePage - 1
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, end-from, syscall.MADV_HUGEPAGE)
	}
}

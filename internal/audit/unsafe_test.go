package audit

import "unsafe"

// unsafeString is a string in memory that changes.
func unsafeString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

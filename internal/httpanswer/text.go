package httpanswer

import (
	"crypto/sha256"
	"encoding/hex"
	"unicode/utf8"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
)

// AppendJSONString appends s as a JSON string. Bytes that are not UTF-8 become
// U+FFFD, as in encoding/json.
func AppendJSONString(dst []byte, s string) []byte {
	return append(appendJSONText(append(dst, '"'), s), '"')
}

// appendJSONText appends what stands between the quotes of a JSON string.
func appendJSONText(dst []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if c >= 0x20 && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = append(dst, s[start:i]...)
			if c == '"' || c == '\\' {
				dst = append(dst, '\\', c)
			} else {
				dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			}
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(dst, s[start:i]...)
			dst = append(dst, "\ufffd"...)
			start = i + 1
		}
		i += size
	}
	return append(dst, s[start:]...)
}

// scopeBytes is how much of the hash of a descriptor a scope shows: enough to
// tell callers apart in a support case, too little to be used as a key.
const scopeBytes = 8

// usualKey is room for most keys, in bytes on the stack.
const usualKey = 256

// appendScope appends, as a JSON string, who was limited by what: the rule and a hash of the
// descriptor, which never shows the key itself. It goes to the caller who sent that key, so
// a plain hash will do.
func appendScope(dst []byte, req *headgate.Request, v *headgate.Verdict) []byte {
	name, suffix := nameOfLimit(v)
	dst = appendJSONText(append(dst, '"'), name)
	dst = appendJSONText(dst, suffix)
	if req == nil || v.Descriptor < 0 || v.Descriptor >= len(req.Descriptors) {
		return append(dst, '"')
	}
	kind := descriptor.KindRule
	if v.Rule == nil {
		kind = descriptor.KindCaller
	}
	var space [usualKey]byte
	sum := sha256.Sum256(descriptor.AppendKey(space[:0], kind, req.Domain, req.Descriptors[v.Descriptor].Entries, 0))
	dst = hex.AppendEncode(append(dst, ':'), sum[:scopeBytes])
	return append(dst, '"')
}

package proxy

import (
	"net/http"
	"strings"
	"testing"
)

// FuzzHopByHop: whatever Connection and Upgrade say, no field stays that
// Connection named, what it leaves there names no field that is added later, and
// no upgrade to another HTTP stays.
func FuzzHopByHop(f *testing.F) {
	for _, seed := range [][2]string{
		{"keep-alive", ""}, {"Upgrade", "websocket"}, {"close, x-named", "h2c"}, {",,x-named ,\tUPGRADE", "a, TLS/1.0"}, {"\x00", "\xff"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, connection, upgrade string) {
		h := http.Header{"Connection": {connection}, "Upgrade": {upgrade}, "X-Named": {"1"}, "X-Other": {"1"}}
		dropHopByHop(h)
		named := false
		for name := range strings.SplitSeq(connection, ",") {
			named = named || strings.EqualFold(strings.Trim(name, " \t"), "x-named")
		}
		if named && h.Get("X-Named") != "" {
			t.Errorf("%q: the field that it names is there", connection)
		}
		for _, rest := range h["Connection"] {
			if !harmless(rest) {
				t.Errorf("%q leaves %q", connection, rest)
			}
		}
		if h.Get("X-Other") == "" && !strings.Contains(strings.ToLower(connection), "x-other") {
			t.Errorf("%q: another field is gone", connection)
		}
		if values := h["Upgrade"]; len(values) > 0 && carriesHTTP(values) {
			t.Errorf("%q stays", upgrade)
		}
	})
}

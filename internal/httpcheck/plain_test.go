package httpcheck

import "testing"

// What a plain check takes is a check with a key, and nothing more.
func FuzzDecodePlain(f *testing.F) {
	for _, seed := range []string{
		`{"key":"user:42","limit":100,"window_ms":60000,"hits":1,"algorithm":"gcra","burst":20,"id":"1"}`,
		`{"key":"k","limit":0,"window_ms":1,"hits":-1,"client_ip":"::1","user_agent":""}`, `{"checks":[]}`, `{"domain":"d"}`, `{`, ``,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		d := decoder{limits: newCallerLimits()}
		if err := d.decodePlain(body); err != nil {
			if err.What == "" {
				t.Fatalf("refused with %+v", err)
			}
			return
		}
		if len(d.requests) != 1 || len(d.requests[0].Descriptors) != 1 || d.requests[0].Descriptors[0].Limit == nil || d.requests[0].Hold != 0 {
			t.Fatalf("%q is %+v", body, d.requests)
		}
		if requests, batch, err := decode(body); err != nil || batch || len(requests) != 1 {
			t.Fatalf("%q is no check: %v", body, err)
		}
	})
}

package httplimit_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/httplimit"
)

// TestNilIsRefused: when it is given, and not by the first request.
func TestNilIsRefused(t *testing.T) {
	m := perMinute(t, 1, httplimit.Options{})
	for f, make := range map[string]func(){
		"Identity":    func() { httplimit.Identity(nil) },
		"Entries":     func() { httplimit.Entries(nil) },
		"Descriptors": func() { httplimit.Descriptors(nil) },
		"First":       func() { httplimit.First(httplimit.RemoteAddress, nil) },
		"All":         func() { httplimit.All(nil) },
		"Each":        func() { httplimit.Each(nil, func(*http.Request, []descriptor.Entry, *httplimit.Subject) {}) },
		"Wrap":        func() { m.Wrap(nil) },
	} {
		func() {
			defer func() {
				if words := fmt.Sprint(recover()); !strings.HasPrefix(words, "httplimit."+f+": the ") || !strings.Contains(words, " is nil; hint: ") {
					t.Errorf("%s: %s", f, words)
				}
			}()
			make()
		}()
	}
}

// TestSecretHeaderRefuses: the one field that is at fault is named.
func TestSecretHeaderRefuses(t *testing.T) {
	pepper := []byte("0123456789abcdef")
	for want, h := range map[string]httplimit.SecretHeader{
		"no name of a header field":      {Header: "x api", Pepper: pepper},
		`"": no name of a header field`:  {Pepper: pepper},
		"X-Api-Key: a pepper of 3 bytes": {Header: "X-Api-Key", Pepper: pepper[:3]},
	} {
		if _, err := h.Identify(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "; hint: ") {
			t.Errorf("%+v: %v", h, err)
		}
	}
}

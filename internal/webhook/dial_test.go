package webhook

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestNothingIsSentThere: whatever a name leads to, nothing is sent where clouds keep
// secrets, and nothing in the clear to another machine.
func TestNothingIsSentThere(t *testing.T) {
	for _, c := range []struct {
		scheme, address string
		want            error
	}{
		{"https", "169.254.169.254:443", errMetadata},
		{"https", "169.254.170.2:443", errMetadata},
		{"https", "[::ffff:169.254.169.254]:443", errMetadata},
		{"https", "[64:ff9b::a9fe:a9fe]:443", errMetadata},
		{"https", "[fe80::1%25lo]:443", errMetadata},
		{"https", "[fd00:ec2::254]:443", errMetadata},
		{"https", "100.100.100.200:443", errMetadata},
		{"http", "169.254.169.254:80", errMetadata},
		{"http", "192.0.2.1:80", errNotHere},
		{"http", "[2001:db8::1]:80", errNotHere},
	} {
		s := newSender(3, &Receiver{URL: &url.URL{Scheme: c.scheme, Host: c.address, Path: "/SeCrEt"}}, newTransport(c.scheme), &Options{Now: now})
		if err := s.send(t.Context(), nil); !errors.Is(err, c.want) || strings.Contains(err.Error(), "SeCrEt") {
			t.Errorf("%s %s: %v", c.scheme, c.address, err)
		}
	}
	for _, ip := range []string{"10.0.0.1", "192.168.1.1", "203.0.113.9", "127.0.0.1", "::1", "2001:db8::1", "64:ff9b::cb00:7109"} {
		if err := checkIP(net.ParseIP(ip), "https"); err != nil {
			t.Errorf("%s: %v", ip, err)
		}
	}
}

// TestRedirectIsNotFollowed over a real connection, nor is a proxy of the environment
// asked.
func TestRedirectIsNotFollowed(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	asked := 0
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer elsewhere.Close()
	here := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer here.Close()
	address, err := parseURL(here.URL)
	if err != nil {
		t.Fatal(err)
	}
	s := newSender(0, &Receiver{URL: address}, newTransport("http"), &Options{Now: now})
	var refused *refusal
	if err := s.send(context.Background(), []byte("{}")); !errors.As(err, &refused) || refused.status != http.StatusTemporaryRedirect || !refused.final || asked != 0 {
		t.Errorf("%v; %d requests elsewhere", err, asked)
	}
}

func now() time.Time { return time.Unix(1767225600, 0) }

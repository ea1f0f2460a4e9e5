package proxy

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strings"
	"testing"
)

// TestWhereRequestsComeFrom: who is not trusted cannot tell the backend an address.
func TestWhereRequestsComeFrom(t *testing.T) {
	names := []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "X-Real-Ip", "X-Forwarded-Port", "X-Forwarded-Client-Cert"}
	spoofed := []string{
		"X-Forwarded-For", "1.1.1.1", "x-forwarded-for", "2.2.2.2, 3.3.3.3", "X-Forwarded-Host", "evil", "X-Forwarded-Proto", "https",
		"Forwarded", "for=4.4.4.4", "Forwarded", "for=8.8.8.8", "X-Real-IP", "5.5.5.5", "X-Forwarded-Port", "443",
		"X-Forwarded-Client-Cert", "Subject=them",
	}
	for _, tt := range []struct {
		name    string
		trusted bool
		sent    []string
		want    string
	}{
		{"plain", false, nil, "127.0.0.1|HOST|http||||"},
		{"spoofed", false, spoofed, "127.0.0.1|HOST|http||||"},
		{"trusted and silent", true, nil, "127.0.0.1|HOST|http||||"},
		{"trusted", true, spoofed, "1.1.1.1, 2.2.2.2, 3.3.3.3, 127.0.0.1|evil|https|for=4.4.4.4, for=8.8.8.8, for=127.0.0.1|5.5.5.5|443|Subject=them"},
		{"with underscores", false, underscored(spoofed), "127.0.0.1|HOST|http||||"},
		{"trusted, with underscores", true, underscored(spoofed), "127.0.0.1|HOST|http||||"},
		{"struck out", false, append([]string{"Connection", "x-forwarded-for, forwarded, x-forwarded-host"}, spoofed...), "127.0.0.1|HOST|http||||"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := front(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var values []string
				for _, name := range names {
					values = append(values, strings.Join(asCGI(r.Header, name), "/"))
				}
				io.WriteString(w, strings.Join(values, "|"))
			}), Options{PeerTrusted: func(*http.Request) bool { return tt.trusted }})
			if got, want := read(t, e.get("/", tt.sent...)), strings.Replace(tt.want, "HOST", e.addr, 1); got != want {
				t.Errorf("got %s\nwant %s", got, want)
			}
		})
	}
}

// TestConnectionOfAnExpectation: a connection that only one request uses ends with a request that
// waits to be asked for its body, and one that others may use at the same time does not.
func TestConnectionOfAnExpectation(t *testing.T) {
	for _, tt := range []struct {
		to, expect string
		ends       bool
	}{
		{"http://b:1", "100-continue", true},
		{"http://b:1", "", false},
		{"https://b:1", "100-continue", false},
	} {
		p, err := New(Options{To: parse(t, tt.to)})
		if err != nil {
			t.Fatal(err)
		}
		in := httptest.NewRequest("PUT", "/", strings.NewReader("body"))
		if tt.expect != "" {
			in.Header.Set("Expect", tt.expect)
		}
		out := in.Clone(t.Context())
		p.rewrite(&httputil.ProxyRequest{In: in, Out: out})
		if out.Close != tt.ends {
			t.Errorf("%s, Expect %q: the connection ends: %v", tt.to, tt.expect, out.Close)
		}
	}
}

// asCGI returns the values of a field to a backend that reads underscores as dashes.
func asCGI(h http.Header, called string) []string {
	var values []string
	for name, list := range h {
		if strings.EqualFold(strings.ReplaceAll(name, "_", "-"), called) {
			values = append(values, list...)
		}
	}
	return values
}

// underscored returns those of the fields that can be written with underscores, so.
func underscored(fields []string) []string {
	var written []string
	for i := 0; i < len(fields); i += 2 {
		if name := strings.ReplaceAll(fields[i], "-", "_"); name != fields[i] {
			written = append(written, name, fields[i+1], strings.Replace(fields[i], "-", "_", 1), fields[i+1])
		}
	}
	return written
}

// TestPeerWithoutAddress: who asks by a unix socket has no address, and none is made up.
func TestPeerWithoutAddress(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		p, err := New(Options{To: parse(t, "http://b:1"), PeerTrusted: func(*http.Request) bool { return trusted }})
		if err != nil {
			t.Fatal(err)
		}
		for _, prior := range []string{"", "192.0.2.1"} {
			in := httptest.NewRequest("GET", "/", nil)
			in.RemoteAddr = "@"
			want := []string(nil)
			if prior != "" {
				in.Header.Set("X-Forwarded-For", prior)
				if trusted {
					want = []string{prior}
				}
			}
			out := in.Clone(t.Context())
			out.Header.Del("X-Forwarded-For")
			p.rewrite(&httputil.ProxyRequest{In: in, Out: out})
			if got := out.Header["X-Forwarded-For"]; !slices.Equal(got, want) {
				t.Errorf("trusted %v, %q before: %q", trusted, prior, got)
			}
			if _, there := out.Header["X-Forwarded-For"]; there != (want != nil) {
				t.Errorf("trusted %v, %q before: an empty field", trusted, prior)
			}
		}
	}
}

func TestSchemeOfTheClient(t *testing.T) {
	for want, r := range map[string]*http.Request{"http": {}, "https": {TLS: new(tls.ConnectionState)}} {
		if got := scheme(r); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestForwardedNode(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[2001:db8::1]:80": `"[2001:db8::1]"`, "[fe80::1%eth0]:80": `"[fe80::1]"`,
		"[::ffff:192.0.2.1]:80": "192.0.2.1", "@": "unknown", "": "unknown",
	} {
		if _, addr := peerOf(&http.Request{RemoteAddr: remote}); node(addr) != want {
			t.Errorf("%q: %s, want %s", remote, node(addr), want)
		}
	}
	if text, _ := peerOf(&http.Request{RemoteAddr: "[fe80::1%eth0]:80"}); text != "fe80::1" {
		t.Errorf("a zone of ours is told: %s", text)
	}
}

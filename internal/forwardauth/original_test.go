package forwardauth

import (
	"bufio"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/identity"
)

// TestProfilesTellTheWholeRequest: what each gateway sends becomes the request of its client, of
// which fields of one hop and those that the gateway sets are no part.
func TestProfilesTellTheWholeRequest(t *testing.T) {
	for i := range profiles {
		p := &profiles[i]
		file, err := os.Open(filepath.Join("testdata", p.name+".request"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		sub, err := http.ReadRequest(bufio.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		sub.RemoteAddr = "10.0.0.7:1"
		gone := slices.Concat(hopByHop[:], []string{"Proxy-Authorization"})
		for _, name := range gone {
			sub.Header.Set(name, "of one hop")
		}
		for _, name := range []string{p.method, p.uri, p.host} {
			if name != "" {
				gone = append(gone, name)
			}
		}
		target := parseTarget(sub.RequestURI)
		r, err := target.original(t.Context(), sub)
		if err != nil {
			t.Errorf("%s: %v", p.name, err)
			continue
		}
		if got, want := strings.Join([]string{r.Method, r.URL.String(), r.Host, r.RemoteAddr}, " "), "POST /login?next=%2Fhome shop.example 10.0.0.7:1"; got != want {
			t.Errorf("%s: %s, want %s", p.name, got, want)
		}
		for _, name := range gone {
			if values, there := r.Header[name]; there {
				t.Errorf("%s: the request has %s: %q", p.name, name, values)
			}
		}
	}
}

// TestPeersWithAZone: the zone of an address is a name of this machine, and in no network.
func TestPeersWithAZone(t *testing.T) {
	peers := NewPeers([]netip.Prefix{netip.MustParsePrefix("fe80::/10")})
	for addr, want := range map[string]bool{"[fe80::1%eth0]:1": true, "[fe80::1]:1": true, "[2001:db8::1%eth0]:1": false} {
		if got := peers.Allow(addr); got != want {
			t.Errorf("%s: %v", addr, got)
		}
	}
}

// TestCostOfAStranger: without a verified token a claim costs nothing, whatever the header says.
func TestCostOfAStranger(t *testing.T) {
	list := []fact{{attribute: "claim:weight", claim: "weight"}, {attribute: "header:X-Rows", header: "X-Rows"}}
	r := &http.Request{Header: http.Header{"Weight": {"9"}, "Claim:weight": {"9"}, "X-Rows": {"3"}}}
	for _, token := range []*identity.Token{nil, {}} {
		got, err := appendFacts(nil, list, r, token)
		if want := []descriptor.Entry{{Key: "header:X-Rows", Value: "3"}}; err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	}
}

package identity

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func prefixes(texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, t := range texts {
		list = append(list, netip.MustParsePrefix(t))
	}
	return list
}

func newClientIP(t testing.TB, o ClientIPOptions) *ClientIP {
	t.Helper()
	c, err := NewClientIP(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func from(peer string, header string, lines ...string) *http.Request {
	r := &http.Request{Header: http.Header{}, RemoteAddr: peer}
	if len(lines) > 0 {
		r.Header[header] = lines
	}
	return r
}

const xff = "X-Forwarded-For"

var ourProxies = ClientIPOptions{Trusted: prefixes("10.0.0.0/8", "2001:db8:aaaa::/48", "127.0.0.0/8"), Source: ForwardedFor}

func TestClientIPByNetworks(t *testing.T) {
	c := newClientIP(t, ourProxies)
	for _, test := range []struct {
		name, peer string
		lines      []string
		want       string
	}{
		{"no header", "10.0.0.1:99", nil, "10.0.0.1"},
		{"one client", "10.0.0.1:99", []string{"203.0.113.9"}, "203.0.113.9"},
		{"untrusted peer", "198.51.100.7:99", []string{"203.0.113.9"}, "198.51.100.7"},
		{"invented on the left", "10.0.0.1:99", []string{"1.1.1.1, 203.0.113.9"}, "203.0.113.9"},
		{"through two proxies", "10.0.0.1:99", []string{"1.1.1.1, 203.0.113.9, 10.2.3.4"}, "203.0.113.9"},
		{"lines in order", "10.0.0.1:99", []string{"1.1.1.1", "203.0.113.9", "10.2.3.4"}, "203.0.113.9"},
		{"split within a line", "10.0.0.1:99", []string{"1.1.1.1,203.0.113.9", "10.2.3.4,10.2.3.5"}, "203.0.113.9"},
		{"all trusted", "10.0.0.1:99", []string{"10.9.9.9, 10.2.3.4"}, "10.0.0.1"},
		{"junk at once", "10.0.0.1:99", []string{"203.0.113.9, junk"}, "10.0.0.1"},
		{"junk behind a proxy", "10.0.0.1:99", []string{"203.0.113.9, junk, 10.2.3.4"}, "10.2.3.4"},
		{"empty entry", "10.0.0.1:99", []string{"203.0.113.9, , 10.2.3.4"}, "10.2.3.4"},
		{"empty line", "10.0.0.1:99", []string{"203.0.113.9", ""}, "10.0.0.1"},
		{"port", "10.0.0.1:99", []string{"203.0.113.9:1234"}, "203.0.113.9"},
		{"bad port", "10.0.0.1:99", []string{"203.0.113.9:123456"}, "10.0.0.1"},
		{"IPv6", "10.0.0.1:99", []string{"2001:db8::1"}, "2001:db8::1"},
		{"IPv6 in brackets with port", "10.0.0.1:99", []string{"[2001:db8::1]:443"}, "2001:db8::1"},
		{"IPv6 in brackets", "10.0.0.1:99", []string{"[2001:db8::1]"}, "2001:db8::1"},
		{"open bracket", "10.0.0.1:99", []string{"[2001:db8::1"}, "10.0.0.1"},
		{"IPv4 in brackets", "10.0.0.1:99", []string{"[203.0.113.9]"}, "10.0.0.1"},
		{"zone", "10.0.0.1:99", []string{"fe80::1%eth0"}, "fe80::1"},
		{"empty zone", "10.0.0.1:99", []string{"fe80::1%"}, "10.0.0.1"},
		{"zone on IPv4", "10.0.0.1:99", []string{"203.0.113.9%eth0"}, "10.0.0.1"},
		{"mapped client", "10.0.0.1:99", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		{"mapped proxy", "10.0.0.1:99", []string{"203.0.113.9, ::ffff:10.2.3.4"}, "203.0.113.9"},
		{"mapped peer", "[::ffff:10.0.0.1]:99", []string{"203.0.113.9"}, "203.0.113.9"},
		{"IPv6 proxies", "[2001:db8:aaaa::1]:99", []string{"2001:db8:bbbb::1, 2001:db8:aaaa::2"}, "2001:db8:bbbb::1"},
		{"unspecified", "10.0.0.1:99", []string{"203.0.113.9, 0.0.0.0"}, "10.0.0.1"},
		{"unspecified IPv6", "10.0.0.1:99", []string{"::"}, "10.0.0.1"},
		{"unspecified, mapped", "10.0.0.1:99", []string{"::ffff:0.0.0.0"}, "10.0.0.1"},
		{"octal", "10.0.0.1:99", []string{"010.1.1.1"}, "10.0.0.1"},
		{"tabs and blanks", "10.0.0.1:99", []string{"1.1.1.1 ,\t 203.0.113.9 \t"}, "203.0.113.9"},
		{"unknown", "10.0.0.1:99", []string{"unknown"}, "10.0.0.1"},
		{"very long entry", "10.0.0.1:99", []string{"203.0.113.9, " + strings.Repeat(" ", 500) + "1.1.1.1"}, "10.0.0.1"},
		{"most hops", "10.0.0.1:99", []string{"203.0.113.9" + strings.Repeat(",10.1.1.1", MaxHops-1)}, "203.0.113.9"},
		{"too many hops", "10.0.0.1:99", []string{"203.0.113.9" + strings.Repeat(",10.1.1.1", MaxHops)}, "10.0.0.1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := c.Addr(from(test.peer, xff, test.lines...))
			if err != nil || got.String() != test.want {
				t.Errorf("%v, %v; want %s", got, err, test.want)
			}
		})
	}
}

func TestClientIPByHops(t *testing.T) {
	for _, test := range []struct {
		hops  int
		peer  string
		lines []string
		want  string
	}{
		{1, "192.0.2.1:1", []string{"1.1.1.1, 203.0.113.9"}, "203.0.113.9"},
		{2, "192.0.2.1:1", []string{"1.1.1.1, 203.0.113.9, 192.0.2.7"}, "203.0.113.9"},
		{2, "192.0.2.1:1", []string{"1.1.1.1", "203.0.113.9", "192.0.2.7"}, "203.0.113.9"},
		{2, "192.0.2.1:1", []string{"203.0.113.9"}, "192.0.2.1"},
		{2, "192.0.2.1:1", nil, "192.0.2.1"},
		{3, "192.0.2.1:1", []string{"203.0.113.9, junk, 192.0.2.7"}, "192.0.2.7"},
		{32, "192.0.2.1:1", []string{"203.0.113.9" + strings.Repeat(",5.5.5.5", 31)}, "203.0.113.9"},
	} {
		c := newClientIP(t, ClientIPOptions{Hops: test.hops, Source: ForwardedFor})
		if got, err := c.Addr(from(test.peer, xff, test.lines...)); err != nil || got.String() != test.want {
			t.Errorf("%d hops, %q: %v, %v; want %s", test.hops, test.lines, got, err, test.want)
		}
	}
	c := newClientIP(t, ClientIPOptions{Hops: 1, Trusted: prefixes("10.0.0.0/8"), Source: ForwardedFor})
	if got, _ := c.Addr(from("192.0.2.1:1", xff, "203.0.113.9")); got.String() != "192.0.2.1" {
		t.Errorf("%v from a peer that is not trusted, want the peer", got)
	}
}

func TestClientIPForwarded(t *testing.T) {
	o := ourProxies
	o.Source = Forwarded
	c := newClientIP(t, o)
	for _, test := range []struct {
		lines []string
		want  string
	}{
		{[]string{`for=203.0.113.9`}, "203.0.113.9"},
		{[]string{`For="[2001:db8:cafe::17]:4711";proto=http;by=203.0.113.43`}, "2001:db8:cafe::17"},
		{[]string{`for=1.1.1.1, for=203.0.113.9;proto=https, for=10.2.3.4`}, "203.0.113.9"},
		{[]string{`for=1.1.1.1`, `for=203.0.113.9`, `for="10.2.3.4:80"`}, "203.0.113.9"},
		{[]string{`proto=http; FOR=203.0.113.9 ; by="_x"`}, "203.0.113.9"},
		{[]string{`for="203.0.113.9:_port"`}, "203.0.113.9"},
		{[]string{`host="a,for=9.9.9.9";for=203.0.113.9`}, "203.0.113.9"},
		{[]string{`for=203.0.113.9;host="a\",for=9.9.9.9,\\"`}, "10.0.0.1"},
		{[]string{`for="open, for=203.0.113.9`}, "203.0.113.9"},
		{[]string{`for="open\", for=203.0.113.9, for=10.2.3.4`}, "203.0.113.9"},
		{[]string{`for=203.0.113.9, for=unknown, for=10.2.3.4`}, "10.2.3.4"},
		{[]string{`for=203.0.113.9, for=_hidden`}, "10.0.0.1"},
		{[]string{`for=203.0.113.9;for=9.9.9.9`}, "10.0.0.1"},
		{[]string{`proto=http`}, "10.0.0.1"},
		{[]string{`for=203.0.113.9,` + strings.Repeat(" ", maxForwardedLength) + `for=9.9.9.9`}, "10.0.0.1"},
		{[]string{`203.0.113.9`}, "10.0.0.1"},
		{[]string{`for=`}, "10.0.0.1"},
		{[]string{`for="203.0.113.9"x`}, "10.0.0.1"},
		{[]string{`for=203.0.113.9;` + strings.Repeat("a=b;", 200) + "c=d"}, "10.0.0.1"},
		{[]string{``}, "10.0.0.1"},
		{nil, "10.0.0.1"},
	} {
		r := from("10.0.0.1:1", "Forwarded", test.lines...)
		r.Header.Set(xff, "9.9.9.9") // the other header is never read
		if got, err := c.Addr(r); err != nil || got.String() != test.want {
			t.Errorf("%q: %v, %v; want %s", test.lines, got, err, test.want)
		}
	}
}

// A comma inside of quotes, also of quotes with quotes in them, divides nothing.
func TestCutForwardedKnowsQuotes(t *testing.T) {
	for _, line := range []string{`for=a;host="x,y"`, `for=a;host="x,y\"z"`, `for=a;host="x,\\"`, `for=a;host="\",for=b;x=\""`} {
		if rest, element, more := cutForwarded(line); rest != "" || element != line || more {
			t.Errorf("%s: %s | %s", line, rest, element)
		}
		if rest, element, more := cutForwarded("left, " + line); rest != "left" || element != " "+line || !more {
			t.Errorf("left, %s: %s | %s", line, rest, element)
		}
	}
}

func TestClientIPSingleHeader(t *testing.T) {
	c := newClientIP(t, ClientIPOptions{Trusted: prefixes("10.0.0.0/8"), Source: SingleHeader, Header: "cf-connecting-ip"})
	const name = "Cf-Connecting-Ip"
	for _, test := range []struct {
		peer  string
		lines []string
		want  string
	}{
		{"10.0.0.1:1", []string{"203.0.113.9"}, "203.0.113.9"},
		{"198.51.100.7:1", []string{"203.0.113.9"}, "198.51.100.7"},
		{"10.0.0.1:1", nil, "10.0.0.1"},
		{"10.0.0.1:1", []string{"junk"}, "10.0.0.1"},
		{"10.0.0.1:1", []string{"203.0.113.9, 1.1.1.1"}, "10.0.0.1"},
		{"10.0.0.1:1", []string{"203.0.113.9", "1.1.1.1"}, "10.0.0.1"},
	} {
		if got, err := c.Addr(from(test.peer, name, test.lines...)); err != nil || got.String() != test.want {
			t.Errorf("%s %q: %v, %v; want %s", test.peer, test.lines, got, err, test.want)
		}
	}
	if s := c.Stats(); s != (ClientIPStats{Junk: 3, Short: 1, Untrusted: 1}) {
		t.Errorf("%+v", s)
	}
}

func TestClientIPOfAUnixSocket(t *testing.T) {
	for _, peer := range []string{"", "@", "/run/x.sock"} {
		if _, err := newClientIP(t, ourProxies).Addr(from(peer, xff, "203.0.113.9")); !errors.Is(err, ErrNoAddress) {
			t.Errorf("peer %q: %v, want ErrNoAddress", peer, err)
		}
		o := ourProxies
		o.LocalPeer = netip.MustParseAddr("127.0.0.1")
		c := newClientIP(t, o)
		if got, err := c.Addr(from(peer, xff, "203.0.113.9")); err != nil || got.String() != "203.0.113.9" {
			t.Errorf("peer %q: %v, %v", peer, got, err)
		}
		if got, err := c.Addr(from(peer, xff)); err != nil || got.String() != "127.0.0.1" {
			t.Errorf("peer %q without header: %v, %v", peer, got, err)
		}
	}
}

func TestClientIPRefusesBadConfiguration(t *testing.T) {
	trusted := prefixes("10.0.0.0/8")
	for name, test := range map[string]struct {
		o     ClientIPOptions
		field string
	}{
		"trusts nobody":         {ClientIPOptions{Source: ForwardedFor}, "Trusted"},
		"trusts everybody":      {ClientIPOptions{Source: ForwardedFor, Trusted: prefixes("10.0.0.0/8", "0.0.0.0/0")}, "Trusted[1]"},
		"trusts all mapped":     {ClientIPOptions{Source: ForwardedFor, Trusted: prefixes("::ffff:0.0.0.0/96")}, "Trusted[0]"},
		"half mapped":           {ClientIPOptions{Source: ForwardedFor, Trusted: prefixes("::ffff:0.0.0.0/90")}, "Trusted[0]"},
		"zero prefix":           {ClientIPOptions{Source: ForwardedFor, Trusted: make([]netip.Prefix, 1)}, "Trusted[0]"},
		"too many":              {ClientIPOptions{Source: ForwardedFor, Trusted: make([]netip.Prefix, MaxTrusted+1)}, "Trusted"},
		"hops without header":   {ClientIPOptions{Hops: 1}, "Hops"},
		"negative hops":         {ClientIPOptions{Source: Forwarded, Hops: -1}, "Hops"},
		"hops beyond the bound": {ClientIPOptions{Source: Forwarded, Hops: MaxHops + 1}, "Hops"},
		"no header name":        {ClientIPOptions{Source: SingleHeader, Trusted: trusted}, "Header"},
		"a list as one":         {ClientIPOptions{Source: SingleHeader, Trusted: trusted, Header: "x-forwarded-for"}, "Header"},
		"anyone's header":       {ClientIPOptions{Source: SingleHeader, Header: "X-Real-Ip"}, "Trusted"},
		"name without use":      {ClientIPOptions{Header: "X-Real-Ip"}, "Header"},
		"nobody as local peer":  {ClientIPOptions{LocalPeer: netip.IPv6Unspecified()}, "LocalPeer"},
		"unknown source":        {ClientIPOptions{Source: 9}, "Source"},
	} {
		_, err := NewClientIP(test.o)
		var config *ConfigError
		if !errors.As(err, &config) || config.Field != test.field || config.Hint == "" {
			t.Errorf("%s: %v, want a ConfigError of %s", name, err, test.field)
		}
	}
}

func TestNetworksAgreeWithEachPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		addr := rapid.Custom(func(t *rapid.T) netip.Addr {
			b := rapid.SliceOfN(rapid.ByteRange(0, 3), 4, 4).Draw(t, "bytes")
			if rapid.Bool().Draw(t, "six") {
				return netip.AddrFrom16([16]byte{0: 0x20, 1: b[0], 2: b[1], 15: b[2]})
			}
			return netip.AddrFrom4([4]byte(b))
		})
		var list []netip.Prefix
		for range rapid.IntRange(0, 12).Draw(t, "n") {
			a := addr.Draw(t, "network")
			list = append(list, netip.PrefixFrom(a, rapid.IntRange(1, a.BitLen()).Draw(t, "bits")))
		}
		var bad problems
		set := newNetworks(list, &bad)
		if len(bad) > 0 {
			t.Fatal(bad.err())
		}
		ip, want := addr.Draw(t, "ip"), false
		for _, p := range list {
			want = want || p.Contains(ip)
		}
		if got := set.contains(ip); got != want {
			t.Fatalf("%v in %v: %v, want %v", ip, list, got, want)
		}
	})
}

// hostile draws text for the left of a header: good and bad entries, of ours and of
// others, quotes, commas, blanks.
func hostile() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"", ",", "1.1.1.1", "10.1.1.1", "for=1.1.1.1", `for="`, `"`, `\"`, `\`, "for=10.1.1.1;a=\"", "junk", " ", "\t", "::", "[::1"}),
		rapid.StringMatching(`[ -~]{0,40}`),
	)
}

// G2: what a client puts on the left changes nothing, neither on the line that our
// proxy appends to nor on lines before it.
func TestG2LeftEntriesNeverChangeTheAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source := rapid.SampledFrom([]AddressSource{ForwardedFor, Forwarded}).Draw(t, "source")
		o := ourProxies
		o.Source = source
		name, write := xff, func(a string) string { return a }
		if source == Forwarded {
			name, write = "Forwarded", func(a string) string { return fmt.Sprintf("for=%q;proto=http", a) }
		}
		client := rapid.SampledFrom([]string{"203.0.113.9", "2001:db8::5", "[2001:db8::5]:80", "198.51.100.1:99"}).Draw(t, "client")
		ours := []string{write(client)}
		for range rapid.IntRange(0, 5).Draw(t, "proxies") {
			ours = append(ours, write("10.2.3.4"))
		}
		if rapid.Bool().Draw(t, "by count") {
			o.Trusted, o.Hops = nil, len(ours)
		}
		c, err := NewClientIP(o)
		if err != nil {
			t.Fatal(err)
		}
		want, err := c.Addr(from("10.0.0.1:1", name, strings.Join(ours, ", ")))
		if expected, _ := parseHop(client); err != nil || want != expected {
			t.Fatalf("%v, %v; want %v", want, err, expected)
		}
		lines := rapid.SliceOfN(hostile(), 0, 5).Draw(t, "lines")
		lines = append(lines, hostile().Draw(t, "left")+","+strings.Join(ours, ", "))
		if rapid.Bool().Draw(t, "own line") {
			lines[len(lines)-1] = strings.Join(ours, ",")
		}
		if got, err := c.Addr(from("10.0.0.1:1", name, lines...)); err != nil || got != want {
			t.Fatalf("%q: %v, %v; want %v", lines, got, err, want)
		}
	})
}

func TestTenThousandEntries(t *testing.T) {
	c := newClientIP(t, ourProxies)
	for _, test := range []struct {
		lines []string
		want  string
	}{
		{[]string{strings.Repeat("1.1.1.1, ", 10_000) + "203.0.113.9"}, "203.0.113.9"},
		{append(slicesOf("1.1.1.1", 10_000), "203.0.113.9, 10.2.3.4"), "203.0.113.9"},
		{[]string{strings.Repeat("10.1.1.1, ", 10_000) + "10.1.1.1"}, "10.0.0.1"},
		{slicesOf("", 10_000), "10.0.0.1"},
		{[]string{strings.Repeat("9", 1<<20)}, "10.0.0.1"},
	} {
		if got, err := c.Addr(from("10.0.0.1:1", xff, test.lines...)); err != nil || got.String() != test.want {
			t.Errorf("%d lines: %v, %v; want %s", len(test.lines), got, err, test.want)
		}
	}
}

func slicesOf(s string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = s
	}
	return list
}

func TestAppendNetwork(t *testing.T) {
	for _, test := range []struct {
		addr string
		p    Prefixes
		want string
	}{
		{"192.0.2.1", Prefixes{}, "192.0.2.1"},
		{"192.0.2.1", Prefixes{IPv4: 24}, "192.0.2.0/24"},
		{"::ffff:192.0.2.1", Prefixes{}, "192.0.2.1"},
		{"2001:db8:1:2:3:4:5:6", Prefixes{}, "2001:db8:1:2::/64"},
		{"2001:db8:1:2:3:4:5:6", Prefixes{IPv6: 48}, "2001:db8:1::/48"},
		{"2001:db8:1:2:3:4:5:6", Prefixes{IPv6: 128}, "2001:db8:1:2:3:4:5:6"},
		{"fe80::1%eth0", Prefixes{}, "fe80::/64"},
		{"192.0.2.1", Prefixes{IPv4: 99}, "192.0.2.1"},
	} {
		if got := AppendNetwork(nil, netip.MustParseAddr(test.addr), test.p); string(got) != test.want {
			t.Errorf("%s %+v: %s, want %s", test.addr, test.p, got, test.want)
		}
	}
}

func FuzzForwardedFor(f *testing.F) {
	f.Add("1.1.1.1, 203.0.113.9", "203.0.113.9")
	f.Add("[::1]:80", "::ffff:1.2.3.4%x")
	c := newClientIP(f, ourProxies)
	f.Fuzz(func(t *testing.T, left, right string) {
		got, err := c.Addr(from("10.0.0.1:1", xff, left, right))
		if err != nil || !got.IsValid() || got.IsUnspecified() || got.Zone() != "" || got.Is4In6() {
			t.Errorf("%v, %v", got, err)
		}
		if again, _ := c.Addr(from("10.0.0.1:1", xff, left+","+right)); again != got {
			t.Errorf("%v as one line, %v as two", again, got)
		}
	})
}

func FuzzForwarded(f *testing.F) {
	f.Add(`for="`, `for="[2001:db8::1]:80";proto=http`)
	f.Add(`x\"`, `for=10.1.1.1;by="a\\"`)
	o := ourProxies
	o.Source = Forwarded
	c := newClientIP(f, o)
	f.Fuzz(func(t *testing.T, left, right string) {
		got, err := c.Addr(from("10.0.0.1:1", "Forwarded", right))
		if err != nil || !got.IsValid() || got.IsUnspecified() {
			t.Errorf("%v, %v", got, err)
		}
		if got.String() == "10.0.0.1" || c.trusted.contains(got) {
			return // all of it ours, or junk: what is left may speak
		}
		if again, _ := c.Addr(from("10.0.0.1:1", "Forwarded", left, right)); again != got {
			t.Errorf("%v with more on the left, %v without", again, got)
		}
	})
}

// TestVouched: a peer that has shown who it is is trusted like one in a trusted network, and the
// entries of the header still are by their networks alone.
func TestVouched(t *testing.T) {
	clients, err := NewClientIP(ClientIPOptions{
		Source: ForwardedFor, Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Vouched: func(r *http.Request) bool { return r.Header.Get("X-Known") != "" },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		known, want string
		trusted     bool
	}{{"", "192.0.2.1", false}, {"yes", "203.0.113.9", true}} {
		r := &http.Request{RemoteAddr: "192.0.2.1:1", Header: http.Header{"X-Forwarded-For": {"1.1.1.1, 203.0.113.9, 10.0.0.2"}}}
		if c.known != "" {
			r.Header.Set("X-Known", c.known)
		}
		if got, err := clients.Addr(r); err != nil || got.String() != c.want || clients.PeerTrusted(r) != c.trusted {
			t.Errorf("known %q: %v, %v, trusted %v", c.known, got, err, clients.PeerTrusted(r))
		}
	}
}

// TestHopsTrustNobody: to count the entries of a header says nothing of who sends it, so a peer is
// not believed in what proxies of ours alone may say.
func TestHopsTrustNobody(t *testing.T) {
	clients, err := NewClientIP(ClientIPOptions{Source: ForwardedFor, Hops: 1})
	if err != nil {
		t.Fatal(err)
	}
	r := &http.Request{RemoteAddr: "192.0.2.1:1", Header: http.Header{"X-Forwarded-For": {"203.0.113.9"}}}
	if got, err := clients.Addr(r); err != nil || got.String() != "203.0.113.9" || clients.PeerTrusted(r) {
		t.Errorf("%v, %v, trusted %v", got, err, clients.PeerTrusted(r))
	}
}

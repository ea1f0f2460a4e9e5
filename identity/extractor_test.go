package identity

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/descriptor"
)

func extract(t *testing.T, o Options, r *http.Request) (*Identity, string, error) {
	t.Helper()
	e, err := NewExtractor(o)
	if err != nil {
		t.Fatal(err)
	}
	var id Identity
	err = e.Extract(r, noon, &id)
	var texts []string
	for _, entries := range id.Descriptors {
		if err := descriptor.Validate(entries); err != nil {
			t.Error(err)
		}
		texts = append(texts, descriptor.Format(entries))
	}
	return &id, strings.Join(texts, " | "), err
}

// get makes a request from peer 10.0.0.1 for the client 203.0.113.9; pairs are
// names and values of headers.
func get(target string, pairs ...string) *http.Request {
	r := httptest.NewRequest("GET", target, nil)
	r.RemoteAddr = "10.0.0.1:99"
	r.Header.Set(xff, "203.0.113.9")
	for i := 0; i < len(pairs); i += 2 {
		r.Header.Add(pairs[i], pairs[i+1])
	}
	return r
}

// platform is the usual configuration: key, else user, else address, and beside it
// the address for keys that nobody knows.
func platform(t testing.TB) Options {
	h := newHasher(t)
	known := h.APIKey("good")
	return Options{
		ClientIP:  newClientIP(t, ourProxies),
		Templates: newTemplates(t, "/users/{id}", "/orders"),
		Hasher:    h,
		Tokens:    verifier(t, fileKeys(t, allKeys(t))),
		APIKeys:   &APIKeyOptions{Headers: []string{"x-api-key"}, Query: []string{"api_key"}, Bearer: true, Known: func(hashed string) bool { return hashed == known }, Unknown: CountUnverified},
		Descriptors: []Descriptor{
			{Entries: []Preference{
				FirstOf(Source{Kind: KindAPIKey}, Source{Kind: KindClaim, Name: "sub"}, Source{Kind: KindAddress}),
				FirstOf(Source{Kind: KindEndpoint}),
			}},
			{Entries: []Preference{FirstOf(Source{Kind: KindAddress})}, WhenUnverified: true},
		},
	}
}

func TestG1Preference(t *testing.T) {
	s := signers()
	token := "Bearer " + sign(t, s.ec, `{"alg":"ES256","kid":"e"}`, claims())
	bad := "Bearer " + encode(`{"alg":"none"}`) + "." + encode(claims()) + "."
	h := newHasher(t)
	good, invented := h.APIKey("good"), h.APIKey("invented")
	const address = "remote_address:203.0.113.9"
	for _, test := range []struct {
		name       string
		r          *http.Request
		want       string
		unverified bool
	}{
		{"nobody", get("/orders"), address + ",endpoint:GET /orders", false},
		{"key", get("/users/7", "X-Api-Key", "good"), "api_key:" + good + ",endpoint:GET /users/{id}", false},
		{"key in the query", get("/orders?api_key=good"), "api_key:" + good + ",endpoint:GET /orders", false},
		{"key as bearer", get("/orders", "Authorization", "Bearer good"), "api_key:" + good + ",endpoint:GET /orders", false},
		{"same key twice", get("/orders?api_key=good", "X-Api-Key", "good"), "api_key:" + good + ",endpoint:GET /orders", false},
		{"two keys", get("/orders?api_key=good", "X-Api-Key", "other"), address + ",endpoint:GET /orders", false},
		{"invented key", get("/orders", "X-Api-Key", "invented"), "api_key:" + invented + ",endpoint:GET /orders | " + address, true},
		{"key too long", get("/orders", "X-Api-Key", strings.Repeat("x", MaxSecret+1)), address + ",endpoint:GET /orders", false},
		{"token", get("/orders", "Authorization", token), "user:alice,endpoint:GET /orders", false},
		{"token and key", get("/orders", "Authorization", token, "X-Api-Key", "good"), "api_key:" + good + ",endpoint:GET /orders", false},
		{"bad token", get("/orders", "Authorization", bad), address + ",endpoint:GET /orders", false},
		{"two tokens", get("/orders", "Authorization", token, "Authorization", token+"x"), address + ",endpoint:GET /orders", false},
		{"unmatched path", get("/x/y/z"), address + ",endpoint:GET unmatched", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			id, got, err := extract(t, platform(t), test.r)
			if err != nil || got != test.want || id.Unverified != test.unverified {
				t.Errorf("%s (unverified %v), %v; want %s", got, id.Unverified, err, test.want)
			}
		})
	}
}

// G2: a client that invents a key for each request stays in one bucket.
func TestG2InventedKeysMeetTheAddress(t *testing.T) {
	for unknown, want := range map[Treatment]string{
		Anonymous:       "remote_address:203.0.113.9,endpoint:GET /orders",
		CountUnverified: "remote_address:203.0.113.9",
	} {
		o := platform(t)
		o.APIKeys.Unknown = unknown
		for i := range 5 {
			_, got, err := extract(t, o, get("/orders", "X-Api-Key", fmt.Sprint("invented", i)))
			if parts := strings.Split(got, " | "); err != nil || parts[len(parts)-1] != want {
				t.Errorf("%s, %v; want %s at the end", got, err, want)
			}
		}
	}
}

func TestSources(t *testing.T) {
	literal := Source{Kind: KindLiteral, Key: "global"}
	user := Source{Kind: KindHeader, Name: "x-user-id", Key: "user", TrustedPeer: true}
	token := "Bearer " + sign(t, signers().ec, `{"alg":"ES256","kid":"e"}`, claims("tenant", `"acme"`))
	of := func(p ...Preference) []Preference { return p }
	for _, test := range []struct {
		name    string
		entries []Preference
		r       *http.Request
		want    string
	}{
		{"literal", of(FirstOf(literal)), get("/"), "global:"},
		{"method", of(FirstOf(Source{Kind: KindMethod})), get("/"), "method:GET"},
		{"route", of(FirstOf(Source{Kind: KindRoute})), get("/users/9"), "route:/users/{id}"},
		{"wide network", of(FirstOf(Source{Kind: KindAddress, Key: "masked_remote_address", Prefixes: Prefixes{IPv4: 24}})), get("/"), "masked_remote_address:203.0.113.0/24"},
		{"header of a gateway", of(FirstOf(user)), get("/", "X-User-Id", "alice"), "user:alice"},
		{"header missing", of(FirstOf(user)), get("/"), ""},
		{"header too long", of(FirstOf(user)), get("/", "X-User-Id", strings.Repeat("x", MaxValue+1)), ""},
		{"header twice", of(FirstOf(user)), get("/", "X-User-Id", "a", "X-User-Id", "b"), ""},
		{"secret header", of(FirstOf(Source{Kind: KindHeader, Name: "X-Auth-Token", Key: "session", Secret: true})), get("/", "X-Auth-Token", "s"), "session:" + newHasher(t).Hash("session", "s")},
		{"cookie", of(FirstOf(Source{Kind: KindCookie, Name: "sid", Key: "session"})), get("/", "Cookie", "a=b; sid=s"), "session:" + newHasher(t).Hash("session", "s")},
		{"claim", of(FirstOf(Source{Kind: KindClaim, Name: "tenant", Key: "tenant"})), get("/", "Authorization", token), "tenant:acme"},
		{"secret claim", of(FirstOf(Source{Kind: KindClaim, Name: "sub", Secret: true})), get("/", "Authorization", token), "user:" + newHasher(t).Hash("user", "alice")},
		{"combination", of(Preference{{{Kind: KindClaim, Name: "tenant", Key: "tenant"}, {Kind: KindClaim, Name: "sub"}}, {literal}}), get("/", "Authorization", token), "tenant:acme,user:alice"},
		{"half a combination", of(Preference{{{Kind: KindClaim, Name: "sub"}, {Kind: KindClaim, Name: "team", Key: "team"}}, {literal}}), get("/", "Authorization", token), "global:"},
		{"half a descriptor", of(FirstOf(literal), FirstOf(user)), get("/"), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := platform(t)
			o.AllowInvented, o.Descriptors = true, []Descriptor{{Entries: test.entries}}
			id, got, err := extract(t, o, test.r)
			if err != nil || got != test.want {
				t.Errorf("%q, %v; want %q", got, err, test.want)
			}
			if got == "" && id.Unverified {
				t.Error("unverified for a value that is not used")
			}
		})
	}
	o := platform(t)
	o.Descriptors = []Descriptor{{Entries: []Preference{FirstOf(user, Source{Kind: KindAddress})}}}
	r := get("/", "X-User-Id", "alice")
	r.RemoteAddr = "198.51.100.7:1"
	if _, got, err := extract(t, o, r); err != nil || got != "remote_address:198.51.100.7" {
		t.Errorf("%q, %v: a stranger names the user", got, err)
	}
}

func TestMethodsAreBounded(t *testing.T) {
	for in, want := range map[string]string{"": "GET", "GET": "GET", "PATCH": "PATCH", "get": "OTHER", "INVENTED1": "OTHER", strings.Repeat("X", 9999): "OTHER"} {
		if got := Method(in); got != want {
			t.Errorf("%.20q: %s, want %s", in, got, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	token := sign(t, signers().ec, `{"alg":"ES256","kid":"e"}`, claims())
	for _, test := range []struct {
		name   string
		change func(*Options)
		r      *http.Request
		want   Reason
	}{
		{"bad token", func(o *Options) { o.BadTokens = Refuse }, get("/", "Authorization", "Bearer eyJ"+canary+".x.y"), TokenMalformed},
		{"bad token behind a good key", func(o *Options) { o.BadTokens = Refuse }, get("/?api_key=good", "Authorization", "Bearer eyJ"+canary+".x.y"), TokenMalformed},
		{"no token", func(o *Options) { o.BadTokens = Refuse }, get("/"), 0},
		{"good token", func(o *Options) { o.BadTokens = Refuse }, get("/", "Authorization", "Bearer "+token), 0},
		{"two tokens are no bad token", func(o *Options) { o.BadTokens = Refuse }, get("/", "Authorization", "Bearer "+token, "Authorization", "Bearer eyJ.x"), 0},
		{"two tokens", func(o *Options) { o.Conflicts = Refuse }, get("/", "Authorization", "Bearer "+token, "Authorization", "Bearer eyJ.x"), Conflicting},
		{"two keys", func(o *Options) { o.Conflicts = Refuse }, get("/?api_key="+canary, "X-Api-Key", "good"), Conflicting},
		{"unknown key", func(o *Options) { o.APIKeys.Unknown = Refuse }, get("/?api_key=" + canary), APIKeyUnknown},
		{"key too long", func(o *Options) { o.APIKeys.Unknown = Refuse }, get("/", "X-Api-Key", strings.Repeat(canary, 200)), APIKeyTooLong},
		{"known key", func(o *Options) { o.APIKeys.Unknown = Refuse }, get("/?api_key=good"), 0},
		{"token in a cookie", func(o *Options) { o.BadTokens, o.TokenPlaces = Refuse, TokenPlaces{Cookie: "t"} }, get("/", "Cookie", "t="+canary), TokenMalformed},
		{"token in a header", func(o *Options) { o.BadTokens, o.TokenPlaces = Refuse, TokenPlaces{Header: "x-jwt"} }, get("/", "X-Jwt", canary), TokenMalformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := platform(t)
			test.change(&o)
			_, _, err := extract(t, o, test.r)
			var refused *RefusedError
			if test.want == 0 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.As(err, &refused) || refused.Reason != test.want || !errors.Is(err, ErrRefused) || strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), canary) {
				t.Errorf("%v, want %v", err, test.want)
			}
		})
	}
	o := platform(t)
	r := get("/")
	r.RemoteAddr = "@"
	if _, _, err := extract(t, o, r); !errors.Is(err, ErrNoAddress) {
		t.Errorf("%v, want ErrNoAddress", err)
	}
}

// No secret that a client or an operator gives shows up in what may be logged.
func TestSecretsNeverAppear(t *testing.T) {
	o := platform(t)
	o.Descriptors = append(o.Descriptors, Descriptor{Entries: []Preference{FirstOf(Source{Kind: KindCookie, Name: "sid", Key: "session"})}})
	e, err := NewExtractor(o)
	if err != nil {
		t.Fatal(err)
	}
	var id Identity
	r := get("/orders?api_key="+canary+"&q=1", "X-Api-Key", canary, "Authorization", "Bearer eyJ"+canary+".x.y", "Cookie", "sid="+canary)
	if err := e.Extract(r, noon, &id); err != nil {
		t.Fatal(err)
	}
	if len(id.Descriptors) != 3 {
		t.Fatalf("%v", id.Descriptors)
	}
	for _, v := range []any{id, &id, e, e.Stats(), o, o.Hasher, o.Tokens, o.ClientIP} {
		for _, verb := range []string{"%v", "%+v", "%#v"} {
			if text := fmt.Sprintf(verb, v); strings.Contains(text, canary) {
				t.Errorf("%s of %T: %.300s", verb, v, text)
			}
		}
	}
	if got := e.StripQuery(r.URL.RawQuery); got != "q=1" {
		t.Errorf("%q", got)
	}
}

func TestStatsCountByReason(t *testing.T) {
	e, err := NewExtractor(platform(t))
	if err != nil {
		t.Fatal(err)
	}
	var id Identity
	for _, r := range []*http.Request{
		get("/", "Authorization", "Bearer eyJ.x.y"), get("/?api_key=a&api_key=b"), get("/?api_key=a"), get("/?api_key=b"), get("/"),
	} {
		if err := e.Extract(r, noon, &id); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(e.Stats().Bad); got != fmt.Sprint(map[Reason]uint64{TokenMalformed: 1, Conflicting: 1, APIKeyUnknown: 2}) {
		t.Errorf("%v", got)
	}
	if got := e.Stats().Unmatched; got != 5 {
		t.Errorf("%d unmatched, want 5", got)
	}
}

func TestTenThousandLinesAreNoCredential(t *testing.T) {
	for _, name := range []string{"X-Api-Key", "Authorization"} {
		r := get("/orders")
		r.Header[name] = slicesOf("Bearer good", 10_000)
		if _, got, err := extract(t, platform(t), r); err != nil || got != "remote_address:203.0.113.9,endpoint:GET /orders" {
			t.Errorf("%s: %s, %v", name, got, err)
		}
		o := platform(t)
		o.Conflicts = Refuse
		if _, _, err := extract(t, o, r); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v, want ErrRefused", name, err)
		}
	}
}

func TestExtractorRefusesBadConfiguration(t *testing.T) {
	first := func(s ...Source) []Descriptor { return []Descriptor{{Entries: []Preference{FirstOf(s...)}}} }
	for _, test := range []struct {
		field  string
		change func(*Options)
	}{
		{"Descriptors", func(o *Options) { o.Descriptors = nil }},
		{"Descriptors", func(o *Options) { o.Descriptors = make([]Descriptor, MaxDescriptors+1) }},
		{"Descriptors", func(o *Options) { o.Descriptors = first(Source{Kind: KindAPIKey}, Source{Kind: KindAddress}) }},
		{"Descriptors", func(o *Options) {
			o.APIKeys.Known = nil
			o.Descriptors = o.Descriptors[:1]
			o.APIKeys.Unknown = Anonymous
		}},
		{"Descriptors", func(o *Options) { o.Descriptors = first(Source{Kind: KindHeader, Name: "X-User-Id", Key: "user"}) }},
		{"Descriptors", func(o *Options) { o.Descriptors = first(Source{Kind: KindCookie, Name: "sid", Key: "s"}) }},
		{"Descriptors[0].Entries", func(o *Options) { o.Descriptors = []Descriptor{{}} }},
		{"Descriptors[0].Entries[0]", func(o *Options) { o.Descriptors = first() }},
		{"Descriptors[0].Entries[0][0]", func(o *Options) { o.Descriptors = []Descriptor{{Entries: []Preference{{{}}}}} }},
		{"Descriptors[0].Entries", func(o *Options) {
			all := make(Combination, MaxEntries)
			for i := range all {
				all[i].Kind = KindMethod
			}
			o.Descriptors = []Descriptor{{Entries: []Preference{{all}, FirstOf(Source{Kind: KindMethod})}}}
		}},
		{"Descriptors[0].Entries[0][0][0]", func(o *Options) { o.Hasher, o.APIKeys = nil, nil }},
		{"Descriptors[0].Entries[0][1][0]", func(o *Options) { o.Tokens = nil }},
		{"Descriptors[0].Entries[0][2][0]", func(o *Options) { o.ClientIP = nil }},
		{"Descriptors[0].Entries[1][0][0]", func(o *Options) { o.Templates = nil }},
		{"Descriptors[0].Entries[0][0][0].Key", func(o *Options) { o.Descriptors = first(Source{Kind: KindClaim, Name: "tenant"}) }},
		{"Descriptors[0].Entries[0][0][0].Name", func(o *Options) { o.Descriptors = first(Source{Kind: KindClaim, Key: "k"}) }},
		{"Descriptors[0].Entries[0][0][0].Name", func(o *Options) { o.Descriptors = first(Source{Kind: KindMethod, Name: "x"}) }},
		{"Descriptors[0].Entries[0][0][0].Name", func(o *Options) { o.Descriptors = first(Source{Kind: KindHeader, Name: "host", Key: "k"}) }},
		{"Descriptors[0].Entries[0][0][0].Value", func(o *Options) { o.Descriptors = first(Source{Kind: KindMethod, Value: "x"}) }},
		{"Descriptors[0].Entries[0][0][0].Secret", func(o *Options) { o.Descriptors = first(Source{Kind: KindMethod, Secret: true}) }},
		{"Descriptors[0].Entries[0][0][0].Secret", func(o *Options) { o.Descriptors = first(Source{Kind: KindHeader, Name: "authorization", Key: "k"}) }},
		{"Descriptors[0].Entries[0][0][0].TrustedPeer", func(o *Options) { o.Descriptors = first(Source{Kind: KindMethod, TrustedPeer: true}) }},
		{"Descriptors[0].Entries[0][0][0].Kind", func(o *Options) { o.Descriptors = first(Source{Kind: "x", Key: "k"}) }},
		{"Descriptors[0].Entries[0][0][0].Prefixes.IPv6", func(o *Options) { o.Descriptors = first(Source{Kind: KindAddress, Prefixes: Prefixes{IPv6: 129}}) }},
		{"Descriptors[0].Entries[0][0][0]", func(o *Options) {
			o.ClientIP = newClientIP(t, ClientIPOptions{})
			o.Descriptors = first(Source{Kind: KindHeader, Name: "X-User-Id", Key: "user", TrustedPeer: true})
		}},
		{"Descriptors[0].Entries[0][0][0]", func(o *Options) {
			o.ClientIP = newClientIP(t, ClientIPOptions{Hops: 1, Source: ForwardedFor})
			o.Descriptors = first(Source{Kind: KindHeader, Name: "X-User-Id", Key: "user", TrustedPeer: true})
		}},
		{"Descriptors[1].Entries[0][0][0]", func(o *Options) {
			o.Descriptors[1].Entries[0] = FirstOf(Source{Kind: KindCookie, Name: "c", Key: "k"}, Source{Kind: KindAddress})
		}},
		{"APIKeys", func(o *Options) { o.APIKeys = &APIKeyOptions{} }},
		{"APIKeys.Headers[0]", func(o *Options) { o.APIKeys = &APIKeyOptions{Headers: []string{"authorization"}} }},
		{"APIKeys.Query[0]", func(o *Options) { o.APIKeys = &APIKeyOptions{Query: []string{""}} }},
		{"APIKeys.Unknown", func(o *Options) { o.APIKeys.Known = nil }},
		{"TokenPlaces", func(o *Options) { o.TokenPlaces.Header = "a b" }},
		{"BadTokens", func(o *Options) { o.BadTokens = CountUnverified }},
		{"Conflicts", func(o *Options) { o.Conflicts = CountUnverified }},
	} {
		o := platform(t)
		test.change(&o)
		_, err := NewExtractor(o)
		var config *ConfigError
		if !errors.As(err, &config) || config.Field != test.field || config.Hint == "" {
			t.Errorf("%v, want a ConfigError of %s", err, test.field)
		}
	}
}

// FuzzExtract holds the bounds of what comes out, whatever a client sends.
func FuzzExtract(f *testing.F) {
	f.Add("GET", "/users/7", "api_key=a", "203.0.113.9", "Bearer good", "sid=1")
	f.Add("X", "//", "api%5fkey=a&api_key=b", "for=\"", "Bearer eyJhbGciOiJub25lIn0.e30.", "sid=\"")
	o := platform(f)
	o.Descriptors = append(o.Descriptors, Descriptor{Entries: []Preference{FirstOf(Source{Kind: KindCookie, Name: "sid", Key: "session"}, Source{Kind: KindAddress})}})
	e, err := NewExtractor(o)
	if err != nil {
		f.Fatal(err)
	}
	var id Identity
	f.Fuzz(func(t *testing.T, method, path, query, forwarded, authorization, cookie string) {
		r := get("/")
		r.Method, r.URL.Path, r.URL.RawQuery = method, path, query
		r.Header = http.Header{xff: {forwarded}, "Authorization": {authorization}, "Cookie": {cookie}}
		if err := e.Extract(r, noon, &id); err != nil {
			t.Fatal(err)
		}
		if len(id.Descriptors) < 2 || id.Unverified && len(id.Descriptors) != 3 {
			t.Errorf("%v", id.Descriptors)
		}
		for _, entries := range id.Descriptors {
			for _, entry := range entries {
				if len(entry.Value) > MaxValue || descriptor.Validate(entries) != nil {
					t.Errorf("%v", entries)
				}
			}
		}
	})
}

func TestPeerTrusted(t *testing.T) {
	clients, err := NewClientIP(ClientIPOptions{Source: ForwardedFor, Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	if err != nil {
		t.Fatal(err)
	}
	method := []Descriptor{{Entries: []Preference{FirstOf(Source{Kind: KindMethod})}}}
	for _, test := range []struct {
		clients *ClientIP
		peer    string
		want    bool
	}{
		{clients, "10.1.2.3:80", true},
		{clients, "192.0.2.1:80", false},
		{clients, "@", false},
		{nil, "10.1.2.3:80", false},
	} {
		e, err := NewExtractor(Options{ClientIP: test.clients, Descriptors: method})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = test.peer
		r.Header.Set("X-Forwarded-For", "10.0.0.1")
		if got := e.PeerTrusted(r); got != test.want {
			t.Errorf("%s: %v, want %v", test.peer, got, test.want)
		}
	}
}

// Who forwards requests is told all fields by which they say who asks.
func TestHeaderFields(t *testing.T) {
	o := platform(t)
	o.AllowInvented = true
	o.TokenPlaces = TokenPlaces{Header: "x-access-token"}
	o.Descriptors = append(o.Descriptors, Descriptor{Entries: []Preference{FirstOf(Source{Kind: KindHeader, Name: "x-user-id", Key: "user"})}})
	e, err := NewExtractor(o)
	if err != nil {
		t.Fatal(err)
	}
	got := e.HeaderFields()
	slices.Sort(got)
	if want := []string{"X-Access-Token", "X-Api-Key", "X-User-Id"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

package identity

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/ascii"
)

// Treatment says what becomes of a request whose credential is not believed.
type Treatment uint8

const (
	// Anonymous goes on as if the credential had not been sent. It is the zero
	// value.
	Anonymous Treatment = iota
	// Refuse makes Extract return a RefusedError.
	Refuse
	// CountUnverified, for API keys only, counts on the key all the same, and
	// marks the request as unverified.
	CountUnverified
	// Forbid, for API keys that Known does not know only, is Refuse with an error that is
	// Forbidden.
	Forbid
)

// APIKeyOptions says where an API key is sent and which ones are genuine. A
// request with different keys in two places is in conflict.
type APIKeyOptions struct {
	// Headers and Query name the headers and query parameters that may hold it.
	// Query parameters end up in logs: see Extractor.StripQuery.
	Headers, Query []string
	// Bearer takes the credentials of "Authorization: Bearer". Where tokens are
	// expected there too, what looks like a token is one.
	Bearer bool
	// Known, when not nil, reports whether a hashed key was given to someone. It
	// must not block: it is on the path of a decision. When nil, no key is
	// verified, and all of them are unverified.
	Known func(hashed string) bool
	// Unsure, when not nil, is asked about keys that Known does not know, and must not
	// block either: whether nobody can say yet. Such a key is treated as by
	// CountUnverified, whatever Unknown says.
	Unsure func(hashed string) bool
	// Unknown says what becomes of keys that Known does not know.
	Unknown Treatment
}

// TokenPlaces says where a token is sent. The zero value is "Authorization:
// Bearer". A request with different tokens in two places is in conflict.
type TokenPlaces struct {
	// Header and Cookie name a header (which holds the token alone) and a cookie
	// that may hold it; either may be empty. With one of them Authorization is
	// looked at only if Bearer is set.
	Header, Cookie string
	Bearer         bool
}

// Options configures an Extractor.
type Options struct {
	// Descriptors are what requests are limited on, in order; not empty.
	Descriptors []Descriptor
	// The parts that the sources in Descriptors need; the rest may be nil.
	ClientIP    *ClientIP
	Templates   *Templates
	Hasher      *Hasher
	APIKeys     *APIKeyOptions
	Tokens      *TokenVerifier
	TokenPlaces TokenPlaces
	// BadTokens says what becomes of a request whose token is not believed, and
	// Conflicts of one with several credentials of a kind: Anonymous or Refuse.
	BadTokens, Conflicts Treatment
	// AllowInvented accepts a configuration in which a client may win a fresh
	// budget by inventing a fresh value. Without it, a descriptor on values that
	// clients choose (API keys that nobody verifies, headers, cookies) needs
	// another one beside it on the address alone.
	AllowInvented bool
}

// Identity is what an Extractor made of a request. The zero value is ready for
// use; use it again for the next request and nothing is allocated for the lists.
type Identity struct {
	// Descriptors are the entries to limit on. They and their entries are valid
	// until the next Extract with this Identity.
	Descriptors [][]descriptor.Entry
	// Unverified says that an entry holds a value that the client could have
	// invented.
	Unverified bool
	// Address is the client's, if a descriptor asked for it. It is not valid
	// otherwise.
	Address netip.Addr
	// Token is the verified token, if one was looked at and believed.
	Token *Token

	entries []descriptor.Entry
	ends    []int
}

// Extractor turns requests into descriptors. It is safe for concurrent use.
type Extractor struct {
	o           Options
	descriptors []Descriptor
	headers     []string
	isToken     func(string) bool
	isAPIKey    func(string) bool

	bad                tally
	tooLong, unmatched atomic.Uint64
}

// NewExtractor checks options.
func NewExtractor(o Options) (*Extractor, error) {
	var bad problems
	e := &Extractor{o: o, isToken: anyBearer, isAPIKey: anyBearer}
	if len(o.Descriptors) == 0 || len(o.Descriptors) > MaxDescriptors {
		bad.add("Descriptors", fmt.Sprintf("%d of them", len(o.Descriptors)), fmt.Sprintf("write 1 to %d", MaxDescriptors))
	}
	for i, d := range o.Descriptors[:min(len(o.Descriptors), MaxDescriptors)] {
		e.descriptors = append(e.descriptors, checkDescriptor(index("Descriptors", i), d, &o, &bad))
	}
	if o.APIKeys != nil {
		e.checkAPIKeys(*o.APIKeys, &bad)
	}
	if t := o.TokenPlaces; t.Header == "" && t.Cookie == "" {
		e.o.TokenPlaces.Bearer = true
	} else if t.Header != "" && !ascii.IsToken(t.Header) || t.Cookie != "" && !ascii.IsToken(t.Cookie) {
		bad.add("TokenPlaces", "holds what is no name", "write the name of a header or cookie")
	}
	e.o.TokenPlaces.Header = http.CanonicalHeaderKey(o.TokenPlaces.Header)
	if o.APIKeys != nil && o.APIKeys.Bearer && o.Tokens != nil && e.o.TokenPlaces.Bearer {
		e.isToken, e.isAPIKey = looksLikeToken, notToken
	}
	if o.BadTokens > Refuse {
		bad.add("BadTokens", "neither Anonymous nor Refuse", "a token that is not believed names nobody")
	}
	if o.Conflicts > Refuse {
		bad.add("Conflicts", "neither Anonymous nor Refuse", "which credential counts cannot be told")
	}
	if !o.AllowInvented {
		checkInvented(e.descriptors, &o, &bad)
	}
	return e, bad.err()
}

func (e *Extractor) checkAPIKeys(k APIKeyOptions, bad *problems) {
	if e.o.Hasher == nil {
		bad.add("Hasher", "not set", "make one with NewHasher: API keys are not used as they are")
	}
	if n := len(k.Headers) + len(k.Query); n > MaxPlaces || n == 0 && !k.Bearer {
		bad.add("APIKeys", fmt.Sprintf("%d places", n), fmt.Sprintf("name 1 to %d headers and query parameters, or set Bearer", MaxPlaces))
	}
	for i, name := range k.Headers {
		canonical := http.CanonicalHeaderKey(name)
		if !ascii.IsToken(name) || canonical == "Authorization" {
			bad.add(index("APIKeys.Headers", i), fmt.Sprintf("%.100q cannot hold an API key alone", name), "write a header such as X-Api-Key; for Authorization set Bearer")
		}
		e.headers = append(e.headers, canonical)
	}
	for i, name := range k.Query {
		if name == "" {
			bad.add(index("APIKeys.Query", i), "empty", "write the name of the parameter")
		}
	}
	if k.Unknown > Forbid || (k.Unknown != Anonymous || k.Unsure != nil) && k.Known == nil {
		bad.add("APIKeys.Unknown", "no treatment, or set without Known", "use one of the constants; without Known all keys are unverified")
	}
	own := *e.o.APIKeys
	own.Query = slices.Clone(k.Query)
	e.o.APIKeys = &own
}

func checkDescriptor(field string, d Descriptor, o *Options, bad *problems) Descriptor {
	own := Descriptor{WhenUnverified: d.WhenUnverified}
	if len(d.Entries) == 0 || len(d.Entries) > MaxEntries {
		bad.add(field+".Entries", fmt.Sprintf("%d of them", len(d.Entries)), fmt.Sprintf("write 1 to %d", MaxEntries))
		return own
	}
	longest := 0
	for i, p := range d.Entries {
		field := index(field+".Entries", i)
		if len(p) == 0 || len(p) > MaxAlternatives {
			bad.add(field, fmt.Sprintf("%d alternatives", len(p)), fmt.Sprintf("write 1 to %d", MaxAlternatives))
			return own
		}
		own.Entries = append(own.Entries, checkPreference(field, p, d.WhenUnverified, o, bad))
		longest += len(slices.MaxFunc(p, func(a, b Combination) int { return len(a) - len(b) }))
	}
	if longest > MaxEntries {
		bad.add(field+".Entries", fmt.Sprintf("may yield %d entries", longest), fmt.Sprintf("at most %d", MaxEntries))
	}
	return own
}

// checkPreference returns p with its sources' defaults filled in.
func checkPreference(field string, p Preference, whenUnverified bool, o *Options, bad *problems) Preference {
	own := make(Preference, len(p))
	for i, c := range p {
		field := index(field, i)
		if len(c) == 0 {
			bad.add(field, "without a source", "write at least one")
		}
		for j, s := range c {
			field := index(field, j)
			s = s.withDefaults()
			s.check(field, o, bad)
			if whenUnverified && s.inventable(o) {
				bad.add(field, "is what a client can invent", "limit unverified requests on something that is certain, such as KindAddress")
			}
			own[i] = append(own[i], s)
		}
	}
	return own
}

// checkInvented holds that invented values win no fresh budget: some descriptor
// must then count on the address alone.
func checkInvented(descriptors []Descriptor, o *Options, bad *problems) {
	var invented []Kind
	guarded := false
	for _, d := range descriptors {
		guarded = guarded || onAddressAlone(d)
		for _, p := range d.Entries {
			for _, c := range p {
				for _, s := range c {
					if s.inventable(o) && !slices.Contains(invented, s.Kind) {
						invented = append(invented, s.Kind)
					}
				}
			}
		}
	}
	if len(invented) > 0 && !guarded {
		bad.add("Descriptors", "clients can invent values ("+words(invented)+") and so win fresh budgets",
			"add a descriptor on KindAddress with WhenUnverified, or verify the values, or set AllowInvented")
	}
}

// onAddressAlone reports whether nothing that a client sends changes the bucket.
func onAddressAlone(d Descriptor) bool {
	address := false
	for _, p := range d.Entries {
		for _, c := range p {
			for _, s := range c {
				if s.Kind != KindAddress && s.Kind != KindLiteral {
					return false
				}
				address = address || s.Kind == KindAddress && len(p) == 1
			}
		}
	}
	return address
}

// Extract makes descriptors of a request, in the order of the configuration, those
// WhenUnverified last. The names of headers must be in net/http's canonical form. A token counts if it is good at now. It reads neither body
// nor clock, and waits for nothing. The error is a RefusedError, or ErrNoAddress.
func (e *Extractor) Extract(r *http.Request, now time.Time, into *Identity) error {
	*into = Identity{Descriptors: into.Descriptors[:0], entries: into.entries[:0], ends: into.ends[:0]}
	q := request{e: e, r: r, now: now, id: into}
	if err := q.refuse(); err != nil {
		return err
	}
	for _, conditional := range [2]bool{false, true} {
		if conditional && !into.Unverified {
			break
		}
		for i := range e.descriptors {
			if e.descriptors[i].WhenUnverified != conditional {
				continue
			}
			if err := q.descriptor(&e.descriptors[i]); err != nil {
				return err
			}
		}
	}
	start := 0
	for _, end := range into.ends {
		into.Descriptors = append(into.Descriptors, into.entries[start:end:end])
		start = end
	}
	return nil
}

// Descriptors returns what requests are limited on, with the keys of all entries filled
// in. The caller must not change it.
func (e *Extractor) Descriptors() []Descriptor { return e.descriptors }

// PeerTrusted reports whether the request comes from a proxy of ours, by
// Options.ClientIP, so that what it writes of earlier hops may be passed on.
func (e *Extractor) PeerTrusted(r *http.Request) bool {
	return e.o.ClientIP != nil && e.o.ClientIP.PeerTrusted(r)
}

// Client returns the address of the client of a request of which Extract made id, for
// whoever only wants to know it; the zero value where it cannot be told.
func (e *Extractor) Client(r *http.Request, id *Identity) netip.Addr {
	if id.Address.IsValid() || e.o.ClientIP == nil {
		return id.Address
	}
	addr, _ := e.o.ClientIP.Addr(r) // without one, nobody is told one
	return addr
}

// HeaderFields returns the names of the header fields that may hold a credential or a value
// to count by, in their canonical form. Who forwards requests lets them pass nowhere else,
// such as in trailers, where nothing looks at them.
func (e *Extractor) HeaderFields() []string {
	names := slices.Clone(e.headers)
	if e.o.TokenPlaces.Header != "" {
		names = append(names, e.o.TokenPlaces.Header)
	}
	for i := range e.descriptors {
		for _, preferred := range e.descriptors[i].Entries {
			for _, source := range slices.Concat(preferred...) {
				if source.Kind == KindHeader {
					names = append(names, http.CanonicalHeaderKey(source.Name))
				}
			}
		}
	}
	return names
}

// StripQuery returns a raw query without the parameters that may hold an API key,
// for logs and for what is forwarded.
func (e *Extractor) StripQuery(raw string) string {
	if e.o.APIKeys == nil {
		return raw
	}
	return StripQuery(raw, e.o.APIKeys.Query...)
}

// Stats counts what an Extractor saw since the start.
type Stats struct {
	// Bad counts credentials that were not believed, by reason, whatever became
	// of the request.
	Bad map[Reason]uint64
	// TooLong counts values other than credentials that were longer than they may
	// be, and so counted as missing.
	TooLong uint64
	// Unmatched counts requests whose path fitted no template, where one was
	// asked for.
	Unmatched uint64
}

// Stats returns the counts so far.
func (e *Extractor) Stats() Stats {
	return Stats{Bad: e.bad.snapshot(), TooLong: e.tooLong.Load(), Unmatched: e.unmatched.Load()}
}

package identity

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/headgate/headgate/internal/ascii"
)

// Kind says where a Source takes its value from.
type Kind string

// The kinds of sources. Where a Source names no entry key, it is the kind's own
// word, unless said otherwise.
const (
	// KindAPIKey is the hashed API key, wherever APIKeyOptions finds it.
	KindAPIKey Kind = "api_key"
	// KindClaim is the claim Name of a verified token. The entry of "sub" is
	// "user"; for others Key must be set.
	KindClaim Kind = "claim"
	// KindHeader is the request header Name. Key must be set.
	KindHeader Kind = "header"
	// KindCookie is the cookie Name, hashed. Key must be set.
	KindCookie Kind = "cookie"
	// KindAddress is the network of the client's address, as wide as Prefixes say.
	KindAddress Kind = "remote_address"
	// KindMethod is the request method; one that is not a method of RFC 9110 or
	// 5789 is "OTHER", so that clients cannot invent values.
	KindMethod Kind = "method"
	// KindRoute is the path template, or Unmatched.
	KindRoute Kind = "route"
	// KindEndpoint is method, a blank and path template: "POST /users/{id}".
	KindEndpoint Kind = "endpoint"
	// KindLiteral is Value. Key must be set.
	KindLiteral Kind = "literal"
)

// OtherMethod stands for every method that is not a standard one.
const OtherMethod = "OTHER"

const (
	// MaxValue bounds a value that is not a secret, in bytes. A longer one counts
	// as missing.
	MaxValue = 256
	// MaxDescriptors, MaxEntries (those that one descriptor may have),
	// MaxAlternatives and MaxPlaces bound a configuration.
	MaxDescriptors  = 16
	MaxEntries      = 8
	MaxAlternatives = 8
	MaxPlaces       = 8
)

// Source is one value of a request that becomes one entry.
type Source struct {
	// Kind says where the value is from.
	Kind Kind
	// Name is the name of the claim, header or cookie.
	Name string
	// Key is the key of the entry; empty for the kind's own.
	Key string
	// Value is the value of KindLiteral. It may be empty.
	Value string
	// Prefixes says how wide the network of KindAddress is.
	Prefixes Prefixes
	// Secret hashes the value of a header or claim. API keys and cookies always
	// are.
	Secret bool
	// TrustedPeer takes a header from trusted peers only (ClientIPOptions), such
	// as the user that a gateway has established. It is then not what a client
	// could have invented.
	TrustedPeer bool
}

// Combination is a list of sources that count together: it yields their entries,
// in order, if every one of them has a value, and otherwise nothing.
type Combination []Source

// Preference is a list of combinations of which the first that yields something
// is taken: the API key, else the user, else the address.
type Preference []Combination

// FirstOf prefers each of its sources to the ones after it.
func FirstOf(sources ...Source) Preference {
	p := make(Preference, len(sources))
	for i := range sources {
		p[i] = Combination{sources[i]}
	}
	return p
}

// Descriptor says which entries a descriptor is made of: those of each preference,
// in order. If one of them yields nothing there is no such descriptor.
type Descriptor struct {
	Entries []Preference
	// WhenUnverified leaves the descriptor out unless another one holds a value
	// that the client could have invented.
	WhenUnverified bool
}

var methods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
	http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace,
}

// Method returns a standard method as it is, "GET" for none, as net/http does,
// and OtherMethod for anything else.
func Method(m string) string {
	if m == "" {
		return http.MethodGet
	}
	if slices.Contains(methods, m) {
		return m
	}
	return OtherMethod
}

// credentialHeaders hold secrets: their values are never used as they are.
var credentialHeaders = []string{"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "X-Auth-Token", "Api-Key"}

// withDefaults fills the key and makes the name canonical.
func (s Source) withDefaults() Source {
	switch s.Kind {
	case KindHeader:
		s.Name = http.CanonicalHeaderKey(s.Name)
	case KindClaim:
		if s.Key == "" && s.Name == "sub" {
			s.Key = "user"
		}
	case KindAPIKey, KindAddress, KindMethod, KindRoute, KindEndpoint:
		s.Key = cmp.Or(s.Key, string(s.Kind))
	case KindCookie:
		s.Secret = true
	}
	s.Prefixes = s.Prefixes.withDefaults()
	return s
}

// check says what is wrong with a source after withDefaults, given what else is
// configured.
func (s Source) check(field string, o *Options, bad *problems) {
	if s.Key == "" {
		bad.add(field+".Key", "empty", `name the entry, such as "user" or "tenant"`)
	}
	if len(s.Key) > MaxValue || len(s.Value) > MaxValue || !utf8.ValidString(s.Key+s.Value) {
		bad.add(field, "Key or Value is longer than 256 bytes or no UTF-8", "use a short word")
	}
	named := s.Kind == KindClaim || s.Kind == KindHeader || s.Kind == KindCookie
	switch {
	case !named && s.Name != "":
		bad.add(field+".Name", "set for a kind without one", "leave it empty, or set Key")
	case s.Kind == KindClaim && s.Name == "", named && s.Kind != KindClaim && !ascii.IsToken(s.Name):
		bad.add(field+".Name", fmt.Sprintf("%.100q is no name of a %s", s.Name, s.Kind), "write which one it is")
	}
	if s.Value != "" && s.Kind != KindLiteral {
		bad.add(field+".Value", "set for a kind other than literal", "leave it empty")
	}
	if s.Secret && !named {
		bad.add(field+".Secret", "set for a kind without secrets", "leave it out; API keys are always hashed")
	}
	if s.TrustedPeer && s.Kind != KindHeader {
		bad.add(field+".TrustedPeer", "set for a kind other than header", "leave it out")
	}
	if s.Kind == KindHeader && s.Name == "Host" {
		bad.add(field+".Name", "Host is not among the headers of a request in Go", "limit on something else")
	}
	if s.Kind == KindHeader && !s.Secret && slices.Contains(credentialHeaders, s.Name) {
		bad.add(field+".Secret", s.Name+" holds secrets", "set it, or use KindAPIKey")
	}
	s.checkParts(field, o, bad)
}

// checkParts checks that the parts are there which a source needs.
func (s Source) checkParts(field string, o *Options, bad *problems) {
	need := func(is bool, part, hint string) {
		if !is {
			bad.add(field, "needs "+part, hint)
		}
	}
	if s.Secret {
		need(o.Hasher != nil, "Hasher", "make one with NewHasher: secrets are not used as they are")
	}
	switch s.Kind {
	case KindAPIKey:
		need(o.APIKeys != nil, "APIKeys", "say where API keys are sent")
	case KindClaim:
		need(o.Tokens != nil, "Tokens", "say how tokens are verified")
	case KindRoute, KindEndpoint:
		need(o.Templates != nil, "Templates", "list the path templates: raw paths would be values without end")
	case KindAddress:
		need(o.ClientIP != nil, "ClientIP", "say how the client address is found")
		s.Prefixes.check(field+".Prefixes", bad)
	case KindHeader:
		if s.TrustedPeer {
			need(o.ClientIP != nil && len(o.ClientIP.trusted) > 0, "ClientIP with Trusted", "name the networks of the proxies whose headers are believed")
		}
	case KindCookie, KindMethod, KindLiteral:
	default:
		bad.add(field+".Kind", fmt.Sprintf("%.50q is unknown", string(s.Kind)), "use one of the constants")
	}
}

// inventable reports whether a client can choose the value at will, so that a
// fresh value is a fresh budget.
func (s Source) inventable(o *Options) bool {
	switch s.Kind {
	case KindAPIKey:
		return o.APIKeys != nil && (o.APIKeys.Known == nil || o.APIKeys.Unknown == CountUnverified || o.APIKeys.Unsure != nil)
	case KindHeader:
		return !s.TrustedPeer
	case KindCookie:
		return true
	}
	return false
}

// words joins a configuration's names for an error.
func words(kinds []Kind) string {
	text := make([]string, len(kinds))
	for i, k := range kinds {
		text[i] = string(k)
	}
	return strings.Join(text, ", ")
}

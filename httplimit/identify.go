package httplimit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/admission"
	"github.com/headgate/headgate/internal/ascii"
	"github.com/headgate/headgate/limit"
)

// ErrUnidentified is wrapped by an Identify for a request that says nothing of
// who asks.
var ErrUnidentified = errors.New("the request does not say who asks")

// ErrAmbiguous is wrapped for a request that names several who ask, or several
// costs.
var ErrAmbiguous = errors.New("the request contradicts itself")

// Identify says what a request is limited on, by the descriptors that it adds to
// s. An error refuses the request with 4xx, or with 500 or 503 where the fault is ours
// (see Identity); adding nothing lets it pass without counting. It is called from many goroutines.
type Identify func(r *http.Request, s *Subject) error

// Subject is what one request is limited on. It is valid during the call that
// it is passed to.
type Subject struct {
	pass *admission.Pass
	now  func() time.Time
}

// Add adds one descriptor of these entries, which are copied. It costs what
// Options.Hits says.
func (s *Subject) Add(entries ...descriptor.Entry) { s.pass.Add(entries...) }

// AddHits is Add for a descriptor that costs hits, brought into 0 to limit.MaxQuota.
// Options.Hits, where it is set, says otherwise.
func (s *Subject) AddHits(hits int64, entries ...descriptor.Entry) {
	from := len(s.pass.Descriptors)
	s.pass.Add(entries...)
	for i := from; i < len(s.pass.Descriptors); i++ {
		s.pass.Descriptors[i].Hits = min(max(hits, 0), limit.MaxQuota)
	}
}

// AddAttribute adds a fact from which a rule may take its cost, such as
// "claim:plan". See headgate.Request.
func (s *Subject) AddAttribute(key, value string) {
	request := s.pass.Request()
	request.Attributes = append(request.Attributes, descriptor.Entry{Key: key, Value: value})
}

// Entries is the Identify that adds one descriptor of the entries that f
// returns; none when there are no entries.
func Entries(f func(*http.Request) ([]descriptor.Entry, error)) Identify {
	refuseNil("Entries", "function", f == nil)
	return func(r *http.Request, s *Subject) error {
		entries, err := f(r)
		if err == nil && len(entries) > 0 {
			s.Add(entries...)
		}
		return err
	}
}

// Descriptors is the Identify that adds the descriptors that f returns.
func Descriptors(f func(*http.Request) ([][]descriptor.Entry, error)) Identify {
	refuseNil("Descriptors", "function", f == nil)
	return func(r *http.Request, s *Subject) error {
		list, err := f(r)
		if err != nil {
			return err
		}
		for _, entries := range list {
			s.Add(entries...)
		}
		return nil
	}
}

// First is the Identify that asks each in turn until one does not say
// ErrUnidentified: an API key, for instance, else the address. What those that
// say it have added does not count.
func First(each ...Identify) Identify {
	refuseNil("First", "Identify", hasNil(each))
	return func(r *http.Request, s *Subject) error {
		err, mark := ErrUnidentified, s.pass.Mark()
		for _, identify := range each {
			s.pass.Rewind(mark)
			if err = identify(r, s); !errors.Is(err, ErrUnidentified) {
				return err
			}
		}
		return err
	}
}

// All is the Identify that adds what each adds: an API key, for instance, and
// the address, so that invented keys win nothing.
func All(each ...Identify) Identify {
	refuseNil("All", "Identify", hasNil(each))
	return func(r *http.Request, s *Subject) error {
		for _, identify := range each {
			if err := identify(r, s); err != nil {
				return err
			}
		}
		return nil
	}
}

func hasNil(each []Identify) bool {
	return slices.ContainsFunc(each, func(one Identify) bool { return one == nil })
}

// Each is the Identify that calls f with each descriptor that identify adds, in their place: f
// adds others to s. The entries are f's.
func Each(identify Identify, f func(r *http.Request, entries []descriptor.Entry, s *Subject)) Identify {
	refuseNil("Each", "Identify or function", identify == nil || f == nil)
	return func(r *http.Request, s *Subject) error {
		before := s.pass.Mark()
		if err := identify(r, s); err != nil {
			return err
		}
		for _, entries := range s.pass.TakeBack(before) {
			f(r, entries, s)
		}
		return nil
	}
}

// RemoteAddressKey is the entry key of RemoteAddress.
const RemoteAddressKey = admission.RemoteAddressKey

// RemoteAddress is an Identify by the peer of the connection, under the entry
// key remote_address: an IPv4 address, or the /64 of an IPv6 address. No header
// is looked at. A peer without an address, as on a unix socket, is ErrUnidentified,
// so that First asks the next, and identity.ErrNoAddress: a fault of the
// configuration, and 500 where it is the last word.
func RemoteAddress(r *http.Request, s *Subject) error {
	address, peer, ok := admission.Remote(r.RemoteAddr)
	if !ok {
		return fmt.Errorf("%w: %w: peer address %q; hint: listeners that are not TCP need an Identify of their own", ErrUnidentified, identity.ErrNoAddress, r.RemoteAddr)
	}
	s.Add(descriptor.Entry{Key: RemoteAddressKey, Value: address})
	if origin := &s.pass.Request().Origin; !origin.ClientIP.IsValid() {
		origin.ClientIP = peer // as addOrigin would, which need not read it again
	}
	return nil
}

// SecretHeader names an API key or another secret in a header.
type SecretHeader struct {
	// Header is the name of the field, such as "X-Api-Key".
	Header string
	// Prefix is cut off the value where it is there and required when not
	// empty, such as "Bearer ". It is compared without regard to case.
	Prefix string
	// Key is the entry key; empty means "api_key".
	Key string
	// Pepper keys the hash, so that nobody who sees a store or a log can try
	// secrets against it; at least 16 bytes, the same for all processes that
	// share a store.
	Pepper []byte
}

// minPepper is the least pepper: 128 bits.
const minPepper = 16

// hashedBytes is how much of the hash stands in the descriptor: two of 2^32
// keys meet with a probability of 2^-65.
const hashedBytes = 16

// Identify returns the Identify by the hash of the header. A request without it
// is ErrUnidentified, one with several ErrAmbiguous.
func (h SecretHeader) Identify() (Identify, error) {
	switch {
	case !ascii.IsToken(h.Header):
		return nil, fmt.Errorf("secret header %q: no name of a header field; hint: letters, digits and dashes, such as X-Api-Key", h.Header)
	case len(h.Pepper) < minPepper:
		return nil, fmt.Errorf("secret header %s: a pepper of %d bytes; hint: at least %d random ones", h.Header, len(h.Pepper), minPepper)
	}
	if h.Key == "" {
		h.Key = "api_key"
	}
	h.Header = http.CanonicalHeaderKey(h.Header)
	return func(r *http.Request, s *Subject) error {
		secret, err := h.secret(r)
		if err != nil {
			return err
		}
		mac := hmac.New(sha256.New, h.Pepper)
		mac.Write([]byte(secret))
		var sum [sha256.Size]byte
		s.Add(descriptor.Entry{Key: h.Key, Value: hex.EncodeToString(mac.Sum(sum[:0])[:hashedBytes])})
		return nil
	}, nil
}

func (h *SecretHeader) secret(r *http.Request) (string, error) {
	values := r.Header[h.Header]
	switch {
	case len(values) == 0 || values[0] == "" && len(values) == 1:
		return "", fmt.Errorf("%w: no header %s", ErrUnidentified, h.Header)
	case len(values) > 1:
		return "", fmt.Errorf("%w: %d headers %s", ErrAmbiguous, len(values), h.Header)
	}
	secret := values[0]
	if n := len(h.Prefix); n > 0 {
		if len(secret) <= n || !strings.EqualFold(secret[:n], h.Prefix) {
			return "", fmt.Errorf("%w: header %s has another form", ErrUnidentified, h.Header)
		}
		secret = secret[n:]
	}
	return secret, nil
}

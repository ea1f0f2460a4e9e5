package identity

import (
	"net/http"
	"time"

	"github.com/headgate/headgate/descriptor"
)

// request is the work on one request: each credential is looked at once, and only
// if something depends on it.
type request struct {
	e   *Extractor
	r   *http.Request
	now time.Time
	id  *Identity

	apiKey struct {
		done       bool
		name       string
		unverified bool
		reason     Reason
	}
	token struct {
		done   bool
		reason Reason
	}
	route string
}

// refuses reports whether keys that are not known are refused.
func (k *APIKeyOptions) refuses() bool { return k.Unknown == Refuse || k.Unknown == Forbid }

// refuse looks at the credentials for which bad ones are refused, also where no
// descriptor would come to them.
func (q *request) refuse() error {
	o := &q.e.o
	if k := o.APIKeys; k != nil && (o.Conflicts == Refuse || k.refuses()) {
		q.findAPIKey()
		switch reason := q.apiKey.reason; {
		case reason == Conflicting && o.Conflicts == Refuse,
			reason != 0 && reason != Conflicting && k.refuses():
			return &RefusedError{Reason: reason, Forbidden: reason == APIKeyUnknown && k.Unknown == Forbid}
		}
	}
	if o.Tokens != nil && (o.Conflicts == Refuse || o.BadTokens == Refuse) {
		q.verifyToken()
		switch reason := q.token.reason; {
		case reason == Conflicting && o.Conflicts == Refuse,
			reason != 0 && reason != Conflicting && o.BadTokens == Refuse:
			return &RefusedError{Reason: reason}
		}
	}
	return nil
}

// descriptor adds a descriptor if all of its preferences yield something.
func (q *request) descriptor(d *Descriptor) error {
	start, unverified := len(q.id.entries), q.id.Unverified
	for i := range d.Entries {
		if ok, err := q.preference(d.Entries[i]); err != nil {
			return err
		} else if !ok {
			q.id.entries, q.id.Unverified = q.id.entries[:start], unverified
			return nil
		}
	}
	q.id.ends = append(q.id.ends, len(q.id.entries))
	return nil
}

// preference adds the entries of the first combination that yields any.
func (q *request) preference(p Preference) (bool, error) {
	for _, c := range p {
		if ok, err := q.combination(c); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

func (q *request) combination(c Combination) (bool, error) {
	start, unverified := len(q.id.entries), q.id.Unverified
	for i := range c {
		value, ok, err := q.value(&c[i])
		if err != nil {
			return false, err
		}
		if !ok {
			q.id.entries, q.id.Unverified = q.id.entries[:start], unverified
			return false, nil
		}
		q.id.entries = append(q.id.entries, descriptor.Entry{Key: c[i].Key, Value: value})
	}
	return true, nil
}

// value returns the value of a source, and false where it has none.
func (q *request) value(s *Source) (value string, ok bool, err error) {
	switch s.Kind {
	case KindAPIKey:
		q.findAPIKey()
		if q.apiKey.unverified {
			q.id.Unverified = true
		}
		return q.apiKey.name, q.apiKey.name != "", nil
	case KindClaim:
		q.verifyToken()
		value, ok = q.id.Token.Claim(s.Name)
		if ok && s.Secret {
			value = q.e.o.Hasher.Hash(s.Key, value)
		}
		return value, ok, nil
	case KindHeader:
		if s.TrustedPeer && !q.e.o.ClientIP.PeerTrusted(q.r) {
			return "", false, nil
		}
		var f found
		f.header(q.r.Header, s.Name)
		return q.clientValue(s, f)
	case KindCookie:
		var f found
		f.cookie(q.r.Header, s.Name)
		return q.clientValue(s, f)
	case KindAddress:
		if q.id.Address, err = q.e.o.ClientIP.Addr(q.r); err != nil {
			return "", false, err
		}
		var text [64]byte
		return string(AppendNetwork(text[:0], q.id.Address, s.Prefixes)), true, nil
	case KindMethod:
		return Method(q.r.Method), true, nil
	case KindRoute:
		return q.template(), true, nil
	case KindEndpoint:
		return Method(q.r.Method) + " " + q.template(), true, nil
	}
	return s.Value, true, nil
}

// clientValue judges the value of a header or cookie.
func (q *request) clientValue(s *Source, f found) (string, bool, error) {
	limit := MaxValue
	if s.Secret {
		limit = MaxSecret
	}
	switch {
	case f.reason != 0:
		q.e.bad[f.reason].Add(1)
		if q.e.o.Conflicts == Refuse {
			return "", false, &RefusedError{Reason: f.reason}
		}
		return "", false, nil
	case f.value == "":
		return "", false, nil
	case len(f.value) > limit:
		q.e.tooLong.Add(1)
		return "", false, nil
	}
	if !s.TrustedPeer {
		q.id.Unverified = true
	}
	if s.Secret {
		return q.e.o.Hasher.Hash(s.Key, f.value), true, nil
	}
	return f.value, true, nil
}

func (q *request) template() string {
	if q.route == "" {
		q.route = Unmatched
		ok := false
		if q.r.URL != nil {
			q.route, ok = q.e.o.Templates.Match(q.r.URL.Path)
		}
		if !ok {
			q.e.unmatched.Add(1)
		}
	}
	return q.route
}

// findAPIKey looks for the API key in all of its places, and hashes it.
func (q *request) findAPIKey() {
	k := &q.apiKey
	if k.done {
		return
	}
	k.done = true
	o := q.e.o.APIKeys
	var f found
	for _, name := range q.e.headers {
		f.header(q.r.Header, name)
	}
	if o.Bearer {
		f.bearer(q.r.Header, q.e.isAPIKey)
	}
	if q.r.URL != nil {
		for _, name := range o.Query {
			f.query(q.r.URL.RawQuery, name)
		}
	}
	switch {
	case f.reason != 0:
		k.reason = f.reason
	case f.value == "":
		return
	case len(f.value) > MaxSecret:
		k.reason = APIKeyTooLong
	default:
		k.name = q.e.o.Hasher.APIKey(f.value)
		if o.Known == nil {
			k.unverified = true
		} else if known := o.Known(k.name); !known && o.Unsure != nil && o.Unsure(k.name) {
			k.unverified = true
		} else if !known {
			k.reason, k.unverified = APIKeyUnknown, true
			if o.Unknown != CountUnverified {
				k.name, k.unverified = "", false
			}
		}
	}
	if k.reason != 0 {
		q.e.bad[k.reason].Add(1)
	}
}

// verifyToken looks for the token in all of its places, and verifies it.
func (q *request) verifyToken() {
	if q.token.done {
		return
	}
	q.token.done = true
	places := &q.e.o.TokenPlaces
	var f found
	if places.Header != "" {
		f.header(q.r.Header, places.Header)
	}
	if places.Cookie != "" {
		f.cookie(q.r.Header, places.Cookie)
	}
	if places.Bearer {
		f.bearer(q.r.Header, q.e.isToken)
	}
	reason := f.reason
	if reason == 0 && f.value == "" {
		return
	}
	if reason == 0 {
		q.id.Token, reason = q.e.o.Tokens.Verify(f.value, q.now)
	}
	if q.token.reason = reason; reason != 0 {
		q.e.bad[reason].Add(1)
	}
}

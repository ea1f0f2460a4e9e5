package client

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/trace"
)

// wireCheck is one check of POST /v1/check, in either of its forms.
type wireCheck struct {
	Domain      string            `json:"domain,omitempty"`
	Descriptors []wireDescriptor  `json:"descriptors,omitempty"`
	Attributes  map[string]string `json:"attributes,omitempty"`
	ID          string            `json:"id,omitempty"`
	Hold        string            `json:"hold,omitempty"`
	ClientIP    string            `json:"client_ip,omitempty"`
	UserAgent   string            `json:"user_agent,omitempty"`

	Key       string `json:"key,omitempty"`
	Limit     *int64 `json:"limit,omitempty"`
	WindowMS  int64  `json:"window_ms,omitempty"`
	Hits      *int64 `json:"hits,omitempty"`
	Algorithm string `json:"algorithm,omitempty"`
	Burst     int64  `json:"burst,omitempty"`
	Op        string `json:"op,omitempty"`
}

// wireDescriptor has entries, or where they are not UTF-8 their text form.
type wireDescriptor struct {
	Entries []wireEntry `json:"entries,omitempty"`
	Text    *string     `json:"descriptor,omitempty"`
	Hits    *int64      `json:"hits,omitempty"`
	Op      string      `json:"op,omitempty"`
}

type wireEntry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// encodeChecks writes the body of one call; ids has the id of each request, or is empty. Its
// errors name a malformed request, or one that the wire cannot carry.
func encodeChecks(requests []headgate.Request, ids []string) ([]byte, error) {
	if len(requests) > MaxChecks {
		return nil, fmt.Errorf("remote check: %d requests; hint: at most %d in one call", len(requests), MaxChecks)
	}
	checks := make([]wireCheck, len(requests))
	for i := range requests {
		var err error
		if checks[i], err = encodeCheck(&requests[i]); err != nil {
			return nil, fmt.Errorf("remote check: request %d: %w", i, err)
		}
		if len(ids) > 0 {
			checks[i].ID = ids[i]
		}
	}
	var body []byte
	var err error
	if len(checks) == 1 {
		body, err = json.Marshal(&checks[0])
	} else {
		body, err = json.Marshal(struct {
			Checks []wireCheck `json:"checks"`
		}{checks})
	}
	if err != nil {
		return nil, fmt.Errorf("remote check: %w", err)
	}
	if len(body) > maxBody {
		return nil, fmt.Errorf("remote check: %d bytes; hint: at most %d in one call; send several, hash long values", len(body), maxBody)
	}
	return body, nil
}

func encodeCheck(r *headgate.Request) (wireCheck, error) {
	switch {
	case r.Domain == "":
		return wireCheck{}, fmt.Errorf("%w; hint: that of the rules, or %s for limits without rules", headgate.ErrNoDomain, headgate.CallerDomain)
	case len(r.Descriptors) == 0:
		return wireCheck{}, fmt.Errorf("%w; hint: name at least one thing that the request is limited on", headgate.ErrNoDescriptors)
	case len(r.Descriptors) > descriptor.MaxDescriptors:
		return wireCheck{}, fmt.Errorf("%w: %d descriptors; hint: at most %d in one request", headgate.ErrDescriptor, len(r.Descriptors), descriptor.MaxDescriptors)
	case !utf8.ValidString(r.Domain):
		return wireCheck{}, fmt.Errorf("domain %q is not UTF-8; hint: only the entries of descriptors may hold any bytes", r.Domain)
	case r.Hold > limit.MaxHold:
		return wireCheck{}, fmt.Errorf("%w: %d; hint: 1 to %d, as limit.NewHold draws, or 0", headgate.ErrHold, r.Hold, int64(limit.MaxHold))
	}
	for i := range r.Descriptors {
		if err := validate(&r.Descriptors[i]); err != nil {
			return wireCheck{}, fmt.Errorf("descriptor %d: %w", i, err)
		}
	}
	if r.Domain == headgate.CallerDomain {
		return encodeNamed(r)
	}
	c := wireCheck{
		Domain: r.Domain, Descriptors: make([]wireDescriptor, len(r.Descriptors)), Hold: holdText(r.Hold),
		ClientIP: addressText(r.Origin.ClientIP), UserAgent: agentText(r.Origin.UserAgent),
	}
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		if d.Limit != nil {
			return wireCheck{}, fmt.Errorf("descriptor %d: a limit of its own in domain %q; hint: over HTTP such limits are decided in domain %q only", i, r.Domain, headgate.CallerDomain)
		}
		c.Descriptors[i] = encodeDescriptor(d)
	}
	var err error
	c.Attributes, err = encodeAttributes(r.Attributes)
	return c, err
}

// encodeAttributes returns what is sent as attributes: of two with one key the first.
func encodeAttributes(list []descriptor.Entry) (map[string]string, error) {
	var attributes map[string]string
	for _, a := range list {
		if !utf8.ValidString(a.Key) || !utf8.ValidString(a.Value) {
			return nil, fmt.Errorf("attribute %q is not UTF-8", a.Key)
		}
		if attributes == nil {
			attributes = make(map[string]string, len(list))
		}
		if _, given := attributes[a.Key]; !given {
			attributes[a.Key] = a.Value
		}
	}
	return attributes, nil
}

// validate refuses what headgate.Limiter refuses, by the same errors.
func validate(d *headgate.Descriptor) error {
	if err := descriptor.Validate(d.Entries); err != nil {
		return fmt.Errorf("%w: %w", headgate.ErrDescriptor, err)
	}
	if d.Hits < 0 || d.Hits > limit.MaxQuota {
		return fmt.Errorf("%w: %d; hint: 0 (a peek) to %d", headgate.ErrHits, d.Hits, int64(limit.MaxQuota))
	}
	switch d.Op {
	case store.Hit, store.Refund, store.Reset, store.Charge:
	case store.Renew, store.Release:
		if d.Hits > maxInFlight {
			return fmt.Errorf("%w: %d ms in flight; hint: at most %d in one call", headgate.ErrHits, d.Hits, maxInFlight)
		}
	default:
		return fmt.Errorf("%w: unknown operation %d", headgate.ErrDescriptor, d.Op)
	}
	return nil
}

// maxInFlight is the longest time of a request that one call charges, in
// milliseconds, as the server has it.
const maxInFlight = int64(24 * time.Hour / time.Millisecond)

// opText returns what is sent as op: nothing for a hit.
func opText(op store.Op) string {
	if op == store.Hit {
		return ""
	}
	return op.String()
}

// holdText returns what is sent as hold: nothing for nobody.
func holdText(h limit.Hold) string {
	if h == 0 {
		return ""
	}
	return limit.HoldText(h)
}

// addressText returns what is sent as client_ip: nothing for nobody.
func addressText(addr netip.Addr) string {
	if !addr.IsValid() {
		return ""
	}
	return addr.WithZone("").String()
}

// maxUserAgent is how many bytes of a user agent are sent. Clients choose how long theirs
// is, and it must not fill the body.
const maxUserAgent = 256

// agentText returns what is sent as user_agent.
func agentText(agent string) string {
	return strings.ToValidUTF8(agent[:min(len(agent), maxUserAgent)], "")
}

// traceOf returns the trace of the first request that is part of one.
func traceOf(requests []headgate.Request) trace.Parent {
	for i := range requests {
		if trace := requests[i].Origin.Trace; !trace.IsZero() {
			return trace
		}
	}
	return trace.Parent{}
}

// hitsOf returns what is sent as hits: nothing for a reset, which takes none.
func hitsOf(d *headgate.Descriptor) *int64 {
	if d.Op == store.Reset {
		return nil
	}
	return &d.Hits
}

func encodeDescriptor(d *headgate.Descriptor) wireDescriptor {
	w := wireDescriptor{Hits: hitsOf(d), Op: opText(d.Op)}
	if len(d.Entries) == 0 || !areText(d.Entries) {
		text := descriptor.Format(d.Entries)
		w.Text = &text
		return w
	}
	w.Entries = make([]wireEntry, len(d.Entries))
	for i, e := range d.Entries {
		w.Entries[i] = wireEntry(e)
	}
	return w
}

func areText(entries []descriptor.Entry) bool {
	return !slices.ContainsFunc(entries, func(e descriptor.Entry) bool { return !utf8.ValidString(e.Key) || !utf8.ValidString(e.Value) })
}

// encodeNamed writes a check by a limit that the request names.
func encodeNamed(r *headgate.Request) (wireCheck, error) {
	if len(r.Descriptors) != 1 || r.Descriptors[0].Limit == nil {
		return wireCheck{}, fmt.Errorf("domain %q: hint: over HTTP it takes one descriptor, with a limit", r.Domain)
	}
	d := &r.Descriptors[0]
	l := d.Limit
	if l.Period%time.Millisecond != 0 || !isPlain(l) {
		return wireCheck{}, fmt.Errorf("limit of %s: %+v does not fit the wire; hint: algorithm, quota, burst and whole milliseconds of window", l.Algorithm, l.Spec)
	}
	c := wireCheck{
		Key: keyText(d.Entries, l.Period), Limit: &l.Quota, WindowMS: int64(l.Period / time.Millisecond),
		Hits: hitsOf(d), Algorithm: l.Algorithm.String(), Op: opText(d.Op), Hold: holdText(r.Hold),
		ClientIP: addressText(r.Origin.ClientIP), UserAgent: agentText(r.Origin.UserAgent),
	}
	if l.Algorithm == limit.TokenBucket || l.Algorithm == limit.GCRA {
		c.Burst = l.Burst
	}
	if c.Key == "" {
		return wireCheck{}, fmt.Errorf("%w: no entries; hint: all callers would share one bucket", headgate.ErrDescriptor)
	}
	return c, nil
}

// isPlain reports whether a limit is made of what the wire carries.
func isPlain(l *limit.Limit) bool {
	spec := limit.Spec{Algorithm: l.Algorithm, Quota: l.Quota, Period: l.Period}
	if l.Algorithm == limit.TokenBucket || l.Algorithm == limit.GCRA {
		spec.Burst = l.Burst
	}
	plain, err := limit.New(spec)
	return err == nil && plain.Spec == l.Spec
}

// keyText returns the key of a check for entries: that of the server's own pair
// {key, window_ms}, else the canonical text, which no other entries share.
func keyText(entries []descriptor.Entry, window time.Duration) string {
	if len(entries) == 2 && entries[0].Key == "key" && entries[0].Value != "" && utf8.ValidString(entries[0].Value) &&
		entries[1] == (descriptor.Entry{Key: "window_ms", Value: strconv.FormatInt(int64(window/time.Millisecond), 10)}) {
		return entries[0].Value
	}
	return descriptor.Format(entries)
}

package audit

import (
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/cut"
	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/trace"
	"github.com/headgate/headgate/verdict"
)

// What a request brings is cut to so many bytes in events; cutMark stands where. Keys
// have a bound of their own, keyname.MaxText.
const (
	maxUserAgent = 256
	maxDomain    = 255
	cutMark      = "…"
)

// maxAddress is the longest text of an address without a zone.
const maxAddress = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")

// addressEntries are the keys of descriptor entries that may hold the address of the
// client, the best first.
var addressEntries = [...]string{"remote_address", "remote_ip", "client_ip"}

// record is what is kept of a decision until its event is made. Nothing in it is memory
// of the request: text holds copies, and the strings are those of rules and tiers,
// which never change.
type record struct {
	id        trace.DecisionID
	at        time.Time
	took      time.Duration
	sampled   bool
	allowed   bool
	outcome   verdict.Outcome
	degraded  store.Reason
	clientIP  netip.Addr
	trace     [16]byte
	config    string
	rule      string
	limitName string
	tier      string
	role      rules.Role
	algorithm string
	hits      int64
	limit     int64
	// used and remaining are 0 where nothing was counted.
	used, remaining int64
	retryAfter      time.Duration
	// raised is by how many per cent limit is raised.
	raised int
	// notice is what the event is about where it is about no request; nil for all others.
	notice notice

	// text is the domain, the key and the user agent, one after the other.
	text              []byte
	domainEnd, keyEnd int
	domainCut         bool
	userAgentCut      bool

	// asked are the descriptors, and askedText their texts, one after the other.
	asked     []asked
	askedText []byte
	askedCut  bool
}

// fill makes r the record of a decision, but for id, at, sampled and config.
func (r *record) fill(req *headgate.Request, resp *headgate.Response, took time.Duration) {
	*r = record{text: r.text[:0], asked: r.asked, askedText: r.askedText, took: took, allowed: resp.Allowed, trace: req.Origin.Trace.ID, clientIP: clientIP(req)}
	var v *headgate.Verdict
	r.outcome, r.degraded = resp.Outcome(), resp.Degraded()
	if v = told(resp, r.outcome); v != nil {
		r.fillVerdict(v)
	}
	domain, agent := cut.Text(req.Domain, maxDomain), cut.Text(req.Origin.UserAgent, maxUserAgent)
	r.domainCut, r.userAgentCut = len(domain) < len(req.Domain), len(agent) < len(req.Origin.UserAgent)
	r.text = append(r.text, domain...)
	r.domainEnd = len(r.text)
	r.text = appendKey(r.text, req, v)
	r.keyEnd = len(r.text)
	r.text = append(r.text, agent...)
	r.fillAsked(req)
}

func (r *record) fillVerdict(v *headgate.Verdict) {
	r.limitName, r.tier, r.role, r.hits = v.Name, v.Tier, v.Role, v.Hits
	r.retryAfter, r.raised = v.Decision.RetryAfter, v.Raised
	if v.Rule != nil {
		r.rule = v.Rule.ID
	}
	if v.Limit != nil {
		r.algorithm = v.Limit.Algorithm.String()
	}
	if r.limit = v.Decision.Limit; v.Counted() {
		r.remaining = v.Decision.Remaining
		r.used = r.limit - r.remaining
		if !v.Decision.Allowed {
			// What would be used: 101 of 100 tells more than that nothing was left.
			r.used += v.Hits
		}
	}
}

// appendKey appends the text of what v counts by; without a verdict, of the first
// descriptor.
func appendKey(dst []byte, req *headgate.Request, v *headgate.Verdict) []byte {
	var room [8]descriptor.Entry
	switch {
	case v != nil:
		return keyname.AppendText(dst, v.Entries(room[:0], req))
	case len(req.Descriptors) > 0:
		return keyname.AppendText(dst, req.Descriptors[0].Entries)
	}
	return dst
}

// clientIP returns the address of the client: the one that the way in knows, else that of
// an entry that tells it.
func clientIP(req *headgate.Request) netip.Addr {
	if req.Origin.ClientIP.IsValid() {
		return req.Origin.ClientIP
	}
	for _, key := range addressEntries {
		for i := range req.Descriptors {
			for _, e := range req.Descriptors[i].Entries {
				if e.Key != key || len(e.Value) > maxAddress || strings.Contains(e.Value, "%") {
					continue
				}
				if ip, err := netip.ParseAddr(e.Value); err == nil {
					return ip
				}
			}
		}
	}
	return netip.Addr{}
}

// appendValid appends text as valid UTF-8, marked where it was cut.
func appendValid(dst, text []byte, cut bool) []byte {
	for len(text) > 0 {
		_, size := utf8.DecodeRune(text)
		if size == 1 && text[0] >= utf8.RuneSelf {
			dst = utf8.AppendRune(dst, utf8.RuneError)
		} else {
			dst = append(dst, text[:size]...)
		}
		text = text[size:]
	}
	if cut {
		dst = append(dst, cutMark...)
	}
	return dst
}

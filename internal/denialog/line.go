package denialog

import (
	"encoding/hex"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/cut"
	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// verdictOf returns the field verdict of v, which denies: a word of metrics. In shadow mode
// whoever decided is no matter.
func verdictOf(v *headgate.Verdict) verdict.Outcome {
	if !v.Enforced() {
		return verdict.ShadowDenied
	}
	return v.Outcome()
}

// Values of the field reason, beside those of store.Reason.
const (
	overLimit = "over_limit" // not now
	never     = "never_fits" // more than the limit ever admits at once
	noSlot    = "no_slot"    // too many in flight
	banned    = "banned"     // for earlier denials
)

func reasonOf(v *headgate.Verdict) string {
	switch {
	case v.Degraded != store.NoReason:
		return string(v.Degraded)
	case v.Role == rules.Banning:
		return banned
	case v.Role == rules.InFlight:
		return noSlot
	case v.Decision.Never:
		return never
	default:
		return overLimit
	}
}

// callerRule stands for limits that callers name, as in metrics.
const callerRule = "(caller)"

// line puts a line together. It keeps nothing of the request.
func (l *Log) line(req *headgate.Request, resp *headgate.Response, v *headgate.Verdict, suppressed uint64) slog.Record {
	r := slog.NewRecord(time.Now(), slog.LevelInfo, "denied", 0)
	rule := callerRule
	if v.Rule != nil {
		rule = v.Rule.ID
	}
	text := string(keyname.AppendText(nil, v.Entries(nil, req)))
	r.AddAttrs(
		slog.String("verdict", verdictOf(v).String()),
		slog.String("reason", reasonOf(v)),
		slog.String("domain", clean(req.Domain)),
		slog.String("rule", clean(rule)),
		slog.String("policy", clean(v.Name)),
		slog.String("key", l.hasher.Hash(req.Domain, text)),
		slog.Int64("hits", v.Hits),
	)
	if !v.Role.IsMain() {
		r.AddAttrs(slog.String("role", v.Role.String()))
	}
	if v.Limit != nil {
		r.AddAttrs(slog.String("algorithm", v.Limit.Algorithm.String()), slog.Int64("limit", v.Decision.Limit))
	}
	if d := &v.Decision; v.Counted() {
		r.AddAttrs(slog.Int64("remaining", d.Remaining), slog.Int64("used", d.Limit-d.Remaining))
	}
	if d := &v.Decision; !d.Never {
		r.AddAttrs(slog.Float64("retry_after", d.RetryAfter.Seconds()))
	}
	if trace := &req.Origin.Trace; !trace.IsZero() {
		r.AddAttrs(slog.String("trace_id", hex.EncodeToString(trace.ID[:])))
	}
	if !resp.ID.IsZero() {
		r.AddAttrs(slog.String("event_id", resp.ID.String()))
	}
	if l.configVersion != nil {
		r.AddAttrs(slog.String("config_version", clean(l.configVersion())))
	}
	r.AddAttrs(slog.Uint64("suppressed", suppressed))
	return r
}

// maxField bounds a field in bytes, before what is not printable is escaped.
const maxField = 256

// clean returns a copy of s that is printable, on one line, and bounded. It does not leave
// that to the handler: those of JSON let through what terminals obey.
func clean(s string) string {
	mark := ""
	if len(s) > maxField {
		s, mark = cut.Text(s, maxField), "…"
	}
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strings.Clone(s) + mark
	}
	quoted := strconv.Quote(s)
	return quoted[1:len(quoted)-1] + mark
}

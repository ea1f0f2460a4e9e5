package httpanswer

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// Header fields of soft limits.
const (
	// warningField tells a client that it has used so much of a limit that it
	// should slow down: a List of names of limits with the threshold,
	// "writes";percent=80.
	warningField = "X-RateLimit-Warning"
	// challengeField tells whatever serves a request what to ask of its client.
	challengeField = "X-RateLimit-Challenge"
)

// maxSoft bounds the soft limits that one answer tells of.
const maxSoft = 16

// softOf returns what the soft limit of v asks for, if this request, which passes,
// is above it and if that is action.
func softOf(v *headgate.Verdict, action rules.SoftAction) *rules.Soft {
	if v.Rule == nil || v.Rule.Soft == nil || v.Rule.Soft.Action != action {
		return nil
	}
	return v.Soft()
}

// writeWarning writes the soft limits that an allowed request is above.
func (w *Writer) writeWarning(verdicts []headgate.Verdict) {
	listed := 0
	for i := range verdicts {
		v := &verdicts[i]
		soft := softOf(v, rules.Warn)
		if soft == nil || listed == maxSoft {
			continue
		}
		if listed++; listed > 1 {
			w.text = append(w.text, ", "...)
		}
		w.quoted(nameOfLimit(v))
		w.text = append(w.text, ";percent="...)
		w.integer(int64(soft.Percent))
	}
	if listed > 0 {
		w.end(warning)
	}
}

// AppendWarning appends X-RateLimit-Warning alone, where an allowed request is
// above a soft limit that warns: for answers that have none of the other fields.
func AppendWarning(dst []Field, resp *headgate.Response) []Field {
	if !resp.Allowed {
		return dst
	}
	w := &Writer{}
	w.writeWarning(resp.Verdicts)
	return w.AppendFields(dst)
}

// AppendUpstream appends the header fields for whatever serves the request of an
// allowed answer, which ask it to do less (Degrade) or more (Challenge), and
// returns dst. Each name stands in it once: of equal names the first rule's value
// counts, and challenges are one list. Clients must not be able to send these
// fields themselves: see UpstreamNames.
func AppendUpstream(dst []Field, resp *headgate.Response) []Field {
	if !resp.Allowed {
		return dst
	}
	from := len(dst)
	for i := range resp.Verdicts {
		v := &resp.Verdicts[i]
		if len(dst)-from == maxSoft {
			break
		}
		if soft := softOf(v, rules.Degrade); soft != nil && !hasField(dst[from:], soft.Header) {
			dst = append(dst, Field{soft.Header, soft.Value})
		}
	}
	var challenges []string
	for i := range resp.Verdicts {
		soft := softOf(&resp.Verdicts[i], rules.Challenge)
		if soft == nil || len(challenges) == maxSoft || slices.Contains(challenges, soft.Challenge) {
			continue
		}
		if challenges = append(challenges, soft.Challenge); len(challenges) == 1 {
			dst = append(dst, Field{challengeField, soft.Challenge})
			continue
		}
		dst[len(dst)-1].Value += ", " + soft.Challenge
	}
	return dst
}

// hasField reports whether a field has that name, in whatever case.
func hasField(fields []Field, name string) bool {
	return slices.ContainsFunc(fields, func(f Field) bool { return strings.EqualFold(f.Name, name) })
}

// upstreamName returns the name of the header field by which a soft limit, reached
// or not, speaks to whatever serves the request; "" if it does not.
func upstreamName(soft *rules.Soft) string {
	switch {
	case soft == nil:
		return ""
	case soft.Action == rules.Degrade:
		return soft.Header
	case soft.Action == rules.Challenge:
		return challengeField
	}
	return ""
}

// UpstreamNames tells which header fields belong to soft limits, so that a front
// can remove them from what clients send: nobody may forge one, nor keep one from
// being set. Spell brings names into the form in which the front has them. It is
// safe for concurrent use.
type UpstreamNames struct {
	Spell func(string) string

	last atomic.Pointer[upstreamOf]
}

type upstreamOf struct {
	set   *rules.Set
	names []string
}

// Of returns the names that rules use, each once. Of rules that are not known, nil,
// that is challengeField alone.
func (u *UpstreamNames) Of(set *rules.Set) []string {
	if last := u.last.Load(); last != nil && last.set == set {
		return last.names
	}
	of := &upstreamOf{set: set}
	if set == nil {
		of.names = []string{u.Spell(challengeField)}
	} else {
		for _, r := range set.Rules() {
			name := u.Spell(upstreamName(r.Soft))
			if name != "" && !slices.Contains(of.names, name) {
				of.names = append(of.names, name)
			}
		}
	}
	u.last.Store(of)
	return of.names
}

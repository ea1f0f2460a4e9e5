package telemetry

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// requestOutcomes are those of whole requests, as headgate_requests_total has them: a
// request that only shadow mode let pass is allowed there.
var requestOutcomes = [...]verdict.Outcome{
	verdict.Allowed, verdict.Denied, verdict.DegradedAllowed, verdict.DegradedDenied, verdict.Unmatched, verdict.UnknownDomain,
}

// Decided implements headgate.Observer. It neither blocks nor allocates. Who renews
// or releases asks for no decision and is counted apart.
func (m *Metrics) Decided(req *headgate.Request, resp *headgate.Response, took time.Duration) {
	traced := req != nil && req.Origin.Trace.Sampled
	s := m.stripes.acquire()
	if took < 0 {
		s.untimed++
	} else {
		s.time(took, traced)
	}
	if call, ok := holdCallOf(req); ok {
		s.countHold(call, resp)
	} else {
		s.count(req, resp)
	}
	s.mu.Unlock()
	if m.detailed != nil {
		m.detailed.note(req, resp)
	}
	if m.exemplars != nil && traced {
		m.exemplars.note(req, resp, took)
	}
}

// time counts how long a call took that was timed. One that was timed stands for those before it that
// were not; but one that is timed because its trace is recorded stands for itself, because
// it was not chosen by chance.
func (s *stripe) time(took time.Duration, traced bool) {
	stands := uint64(1)
	if !traced {
		stands += s.untimed
		s.untimed = 0
	}
	s.took += took * time.Duration(stands)
	s.cells[cellOf(took)] += stands
}

// samples counts one more decision, and reports whether it is looked at. That is one of each group
// at another place, by a hash (the last steps of MurmurHash3), so that requests of some kinds that
// come in turn are all looked at.
func (s *stripe) samples() bool {
	s.decided++
	if s.decided%sampleEvery == 0 {
		h := s.decided / sampleEvery * 0x85EBCA6B
		h = (h ^ h>>13) * 0xC2B2AE35
		s.place = h >> 16 % sampleEvery
	}
	return s.decided%sampleEvery == s.place
}

// count counts a decision. req may be nil.
func (s *stripe) count(req *headgate.Request, resp *headgate.Response) {
	sampled := s.samples()
	usual, degraded := resp.Allowed && len(resp.Verdicts) > 0, store.NoReason
	for i := range resp.Verdicts {
		v := &resp.Verdicts[i]
		if row := s.usual(v); row != nil && !sampled {
			row.outcomes[verdict.Allowed]++
			continue
		}
		usual = false
		if s.countVerdict(req, v, resp.Allowed, sampled); v.Degraded != store.NoReason && v.Effect != verdict.Trial {
			degraded = v.Degraded
		}
	}
	if usual {
		s.requests[verdict.Allowed]++
		return
	}
	if degraded != store.NoReason {
		s.errors[reasonIndex(degraded)]++
	}
	s.countRequest(resp)
}

// usual returns the row of a limit that let pass and of which nothing but that is counted, as
// of most, and else nil.
func (s *stripe) usual(v *headgate.Verdict) *row {
	if v.Decision.Allowed && v.By == verdict.ByStore && v.Effect != verdict.Trial && v.Tier == "" && v.Rule != nil {
		if i := v.Rule.Index(); i < len(s.rows) && s.rows[i].plain == v.Rule {
			return &s.rows[i]
		}
	}
	return nil
}

// countVerdict counts what came of a limit.
func (s *stripe) countVerdict(req *headgate.Request, v *headgate.Verdict, passed, sampled bool) {
	if v.Effect == verdict.Trial {
		return // Limiter.Candidates tells what it would have done
	}
	row := s.row(v.Rule)
	o := v.Outcome()
	s.rows[row].outcomes[o]++
	if o != verdict.Allowed {
		s.rows[row].countBurst(o, v)
	}
	if o == verdict.DegradedAllowed && v.Degraded != store.NoReason {
		s.failOpen++
	}
	if passed && v.Rule != nil && v.Rule.Soft != nil {
		s.countSoft(v)
	}
	if s.hits != nil && v.Role == rules.Main && v.Limit != nil {
		s.hits[row].count(req, v, s.near)
	}
	if v.Tier != "" {
		s.countTier(o, v, sampled)
	}
	if sampled && v.Role.IsMain() && v.Counted() && v.Decision.Limit > 0 {
		s.look(row, &v.Decision)
	}
}

// countRequest counts what came of a request.
func (s *stripe) countRequest(resp *headgate.Response) {
	if !resp.Allowed {
		s.countDenial(resp)
	}
	outcome := resp.Outcome()
	if outcome == verdict.ShadowDenied {
		outcome = verdict.Allowed // in requestOutcomes
	}
	s.requests[outcome]++
}

// look counts the share of a limit that is left.
func (s *stripe) look(row int, d *limit.Decision) {
	left := float64(d.Remaining) / float64(d.Limit)
	s.rows[row].remaining, s.rows[row].looked = d.Remaining, s.looked.Add(1)
	s.rows[row].share(left)
	s.share(left)
}

// countBurst counts a denial by a limit that has a burst. Hits that are more than the
// burst would not pass an unused one either.
func (c *counts) countBurst(o verdict.Outcome, v *headgate.Verdict) {
	if (o == verdict.Denied || o == verdict.LocalDenied || o == verdict.OpenDenied) && hasBurst(v.Limit) && !v.Decision.Never {
		c.burst++
	}
}

// hasBurst reports whether l, which may be nil, is of a kind that takes a burst.
func hasBurst(l *limit.Limit) bool {
	return l != nil && (l.Algorithm == limit.TokenBucket || l.Algorithm == limit.GCRA)
}

// countSoft counts a soft limit that is reached.
func (s *stripe) countSoft(v *headgate.Verdict) {
	if soft := v.Soft(); soft != nil && int(soft.Action) < len(s.soft) {
		s.soft[soft.Action]++
	}
}

// countDenial counts a request that is denied: the role of the limit that spoke, unless
// failure mode did, and what the client is told to wait.
func (s *stripe) countDenial(resp *headgate.Response) {
	v := resp.Speaker()
	if v == nil {
		return
	}
	if !v.Guessed() && int(v.Role) < len(s.denials) {
		s.denials[v.Role]++
	}
	if wait := v.Decision.RetryAfter; wait > 0 {
		s.retryAfter(wait)
		s.rows[s.row(v.Rule)].retryAfter(wait)
	}
}

// holdCallOf returns which call for requests in flight req is, if it is one.
func holdCallOf(req *headgate.Request) (holdCall, bool) {
	if req == nil || len(req.Descriptors) == 0 {
		return 0, false
	}
	switch req.Descriptors[0].Op {
	case store.Renew:
		return renewed, true
	case store.Release:
		return released, true
	}
	return 0, false
}

// countHold counts a call for requests in flight.
func (s *stripe) countHold(call holdCall, resp *headgate.Response) {
	if reason := resp.Degraded(); reason != store.NoReason {
		s.errors[reasonIndex(reason)]++
		call++ // the same, degraded
	}
	s.holds[call]++
}

// Undecided returns how many requests the store could not decide so far, by
// reason; reasons of none are left out.
func (m *Metrics) Undecided() map[store.Reason]uint64 {
	counts := map[store.Reason]uint64{}
	for i, n := range m.stripes.total().errors {
		if n > 0 {
			counts[storeReasons[i]] = n
		}
	}
	return counts
}

package audit

import (
	"encoding/hex"
	"time"

	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/rules"
)

// maker makes events of records, one at a time.
type maker struct {
	node string
	// share is Options.Sample.
	share float64
	// room is where the texts of an event are put together.
	room []byte
}

// newMaker returns one for one goroutine at a time.
func (r *Recorder) newMaker() maker { return maker{node: r.o.Node, share: r.o.Sample} }

// event makes the event of r. All of its texts are in one string.
func (m *maker) event(r *record) view.Event {
	b := appendValid(m.room[:0], r.text[:r.domainEnd], r.domainCut)
	domain := len(b)
	b = append(b, r.text[r.domainEnd:r.keyEnd]...)
	key := len(b)
	b = appendValid(b, r.text[r.keyEnd:], r.userAgentCut)
	agent := len(b)
	b = r.id.AppendText(b)
	id := len(b)
	if r.clientIP.IsValid() {
		b = r.clientIP.Unmap().WithZone("").AppendTo(b)
	}
	ip := len(b)
	b = append(b, r.askedText...)
	described := len(b)
	if r.trace != [16]byte{} {
		b = hex.AppendEncode(b, r.trace[:])
	}
	m.room = b
	text := string(b)
	e := view.Event{
		Schema: view.EventSchema, TS: r.at.UnixMilli(), EventID: text[agent:id], Node: m.node,
		Domain: text[:domain], Key: text[domain:key], Rule: r.rule, LimitName: r.limitName, Algorithm: r.algorithm,
		Limit: r.limit, Used: r.used, Remaining: r.remaining, Hits: r.hits,
		Outcome: r.outcome.String(), Allowed: r.allowed, Degraded: string(r.degraded), Tier: r.tier,
		ClientIP: text[id:ip], UserAgent: text[key:agent], TraceID: text[described:],
		Descriptors: r.descriptors(text[ip:described]), DescriptorsCut: r.askedCut,
		Raise: r.raised, ConfigVersion: r.config, TookUS: max(r.took, 0).Microseconds(), SampleRate: 1,
		RetryAfterMS: int64((r.retryAfter + time.Millisecond - 1) / time.Millisecond),
	}
	if r.role != rules.Main {
		e.Role = r.role.String()
	}
	if r.sampled {
		e.SampleRate = 1 / m.share
	}
	if r.notice != nil {
		e = r.notice.event(e)
	}
	return e
}

package headgate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/ledger"
	"github.com/headgate/headgate/reservation"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/verdict"
)

// booking is what a reservation was asked for, as it is written and as a request, and what
// was charged for it. It is working memory.
type booking struct {
	claims  reservation.Claims
	charges []reservation.Charge
	// estimates are what takes of the request, of limits that count what it costs, would
	// be charged by the rules in force.
	estimates []estimate
	// notes are what the store is asked to note of it.
	notes ledger.Notes
	// paid are takes that others than quotas have paid, and ledger knows of those.
	paid   []ledger.Paid
	ledger ledger.Ledger
	payers []ledger.Payer // working memory
	// untold says that the store did not tell whether it was made, or who has paid.
	untold bool
	// partly says that some take was not charged though the request passed; uncharged are
	// those, once they were looked up.
	partly    bool
	uncharged []int
	// request has the descriptors below, and the entries and attributes of claims.
	request     Request
	descriptors []Descriptor
}

// ask fills in what req and o ask for. o has a TTL.
func (b *booking) ask(req *Request, o reservation.Options) {
	b.claims.Options, b.claims.Domain = o, req.Domain
	b.claims.Descriptors = b.claims.Descriptors[:0]
	for i := range req.Descriptors {
		d := &req.Descriptors[i]
		b.claims.Descriptors = append(b.claims.Descriptors, reservation.Descriptor{Entries: d.Entries, Hits: d.Hits})
	}
	b.claims.Attributes = append(b.claims.Attributes[:0], req.Attributes...)
}

// read fills in what r was asked for, as a request that charges it: who settles a
// reservation is not held back by limits any more.
func (b *booking) read(r reservation.Reservation) error {
	if err := r.ReadClaims(&b.claims); err != nil {
		return err
	}
	b.descriptors = b.descriptors[:0]
	for _, d := range b.claims.Descriptors {
		b.descriptors = append(b.descriptors, Descriptor{Entries: d.Entries, Hits: d.Hits, Op: store.Charge})
	}
	b.request = Request{Domain: b.claims.Domain, Descriptors: b.descriptors, Attributes: b.claims.Attributes}
	return nil
}

// clear lets go of all texts.
func (b *booking) clear() {
	b.claims.Clear()
	b.ledger.Empty()
	clear(b.descriptors)
	clear(b.payers)
	*b = booking{
		claims: b.claims, descriptors: b.descriptors[:0], charges: b.charges[:0], estimates: b.estimates[:0],
		notes: ledger.Notes{Claims: b.notes.Claims[:0]}, paid: b.paid[:0], uncharged: b.uncharged[:0],
		ledger: b.ledger, payers: b.payers[:0],
	}
}

// reservable refuses requests for which nothing can be reserved.
func (r *Request) reservable() error {
	if err := r.validate(); err != nil {
		return err
	}
	for i := range r.Descriptors {
		switch d := &r.Descriptors[i]; {
		case d.Op != store.Hit:
			return fmt.Errorf("descriptor %d: %w: only hits can be reserved; hint: ask for refunds, resets and the like by Check", i, reservation.ErrMalformed)
		case d.Limit != nil:
			return fmt.Errorf("descriptor %d: %w: a limit named by the caller; hint: limits of rules can be reserved", i, reservation.ErrMalformed)
		}
	}
	return nil
}

// Reserve is Check for one request whose cost is known only afterwards. Its hits are
// an estimate; when it passes they are charged like any, and the reservation that is
// returned settles them: Commit by what was really used, Cancel by nothing. A
// reservation that is not settled in time stays charged. One that is denied charges
// nothing, whatever the consumption of its domain, and the reservation is the zero
// value.
//
// What counts hits is reserved and settled: main and secondary limits, and the quotas
// and candidates in their place. Slots are taken as Check does, and released by
// themselves.
//
// An error names a malformed request, or one too long for a reservation, and means
// that nothing was charged. Where the store does not answer, the failure mode does,
// and Commit asks the store whether it was reserved all the same: if not, it charges the whole.
//
// resp must not be nil; with an error it is not Allowed.
func (l *Limiter) Reserve(ctx context.Context, req *Request, o reservation.Options, resp *Response) (reservation.Reservation, error) {
	o, err := req.reservationOptions(o)
	if err != nil {
		resp.empty()
		return reservation.Reservation{}, fmt.Errorf("reserve: %w", err)
	}
	responses := [1]Response{{Verdicts: resp.Verdicts[:0]}}
	r, took, err := l.reserve(ctx, req, &o, responses[:])
	*resp = responses[0]
	if err != nil {
		resp.empty()
		return reservation.Reservation{}, fmt.Errorf("reserve: %w", err)
	}
	l.reserved.answered(resp.Allowed)
	l.tell(req, resp, took)
	return r, nil
}

// reservationOptions returns o in whole, and what is wrong with it or with reserving for r.
func (r *Request) reservationOptions(o reservation.Options) (reservation.Options, error) {
	if err := o.Validate(); err != nil {
		return o, err
	}
	o.TTL = cmp.Or(o.TTL, reservation.DefaultTTL)
	return o, r.reservable()
}

// Reservation returns the reservation that Reserve makes of r and o, for those who settle
// it without having kept it; o.ID is required. What it has charged is taken from the rules
// in force then; when the store does not remember it, nothing is settled.
func (r *Request) Reservation(o reservation.Options) (reservation.Reservation, error) {
	o, err := r.reservationOptions(o)
	if err == nil && o.ID == "" {
		err = fmt.Errorf("%w: no id", reservation.ErrMalformed)
	}
	if err != nil {
		return reservation.Reservation{}, fmt.Errorf("reservation of a request: %w", err)
	}
	var b booking
	b.ask(r, o)
	return reservation.Of(&b.claims), nil
}

func (l *Limiter) reserve(ctx context.Context, req *Request, o *reservation.Options, responses []Response) (r reservation.Reservation, took time.Duration, err error) {
	p, b := l.begin(l.switches.Load()), l.bookings.Get().(*booking)
	defer l.finish(p, responses)
	defer l.unbook(b)
	if l.isWatched() {
		p.watch.Start(req.Origin.Trace.Sampled)
	}
	defer func() { took = p.watch.Stop() }() // whatever is returned
	resp := &responses[0]
	p.addRequest(req, resp)
	takes := len(p.takes)
	b.ask(req, *o)
	b.notes = ledger.Notes{Domain: req.Domain, Claims: b.claims.Append(b.notes.Claims[:0]), Limit: l.marks.Limit(o.TTL)}
	if err := reservation.Fits(len(b.notes.Claims), max(takes, 1)); err != nil {
		return reservation.Reservation{}, NotTimed, err
	}
	var repeated repetition
	expires := l.now().Add(o.TTL)
	if takes > 0 {
		repeated = l.takeReserved(ctx, p, b, req, responses)
		if repeated.known {
			expires = l.now().Add(min(o.TTL, repeated.lasts))
		}
	} else {
		resp.merge()
	}
	if !resp.Allowed {
		return reservation.Reservation{}, NotTimed, nil
	}
	if !repeated.known {
		l.noteUncharged(ctx, p, b, takes, resp)
	}
	b.addCharges(&p.batch, takes, resp, repeated.known)
	return reservation.Made(b.notes.Claims, b.charges, expires), NotTimed, nil
}

// unbook puts b back where it came from.
func (l *Limiter) unbook(b *booking) {
	if b.ledger.IsHuge() {
		return
	}
	b.clear()
	l.bookings.Put(b)
}

// repetition says whether a reservation was made before, and for how long the store
// remembers it.
type repetition struct {
	known bool
	lasts time.Duration
}

// takeReserved charges the takes of p together with the mark that the reservation was
// made, which stands with them or falls: where it is there already, the request was
// let in before and nothing is charged. It fills in resp.
func (l *Limiter) takeReserved(ctx context.Context, p *plan, b *booking, req *Request, responses []Response) repetition {
	mark := p.addMark(b, reservation.MarkMade)
	p.spans[0].takes.to++
	p.bindKeys()
	fellBack := l.exchange(ctx, l.store, &p.batch)
	p.answer(&responses[0], p.spans[0].verdicts)
	if !p.wasMade(mark) {
		requests := [1]Request{*req}
		l.coverDenials(ctx, p, requests[:], responses, b)
	}
	made, before := p.results[mark], p.wasMade(mark)
	if b.claims.ID != "" && made.Err == nil && made.Skipped {
		// A remembered denial has answered, and nobody looked at the mark.
		made = l.peek(ctx, &p.takes[mark])
		before = ledger.IsMarked(&made)
	}
	if before {
		l.answerRepeated(ctx, p, b, req, &responses[0])
		return repetition{true, made.ResetAfter}
	}
	b.untold = made.Err != nil
	l.compensate(ctx, p, responses, fellBack, true)
	return repetition{}
}

// wasMade reports whether take t, a mark, was there before.
func (b *batch) wasMade(t int) bool {
	r := &b.results[t]
	return r.Err == nil && !r.Skipped && !r.Allowed
}

// answerRepeated answers a request that was let in before, by whoever paid for it.
func (l *Limiter) answerRepeated(ctx context.Context, p *plan, b *booking, req *Request, resp *Response) {
	b.collect(p, req, resp)
	switch {
	case !b.ledger.HasQuotas():
	case l.look(ctx, p, b, true).Err != nil:
		b.untold = true
	default:
		b.paid = b.ledger.AppendPaid(b.paid)
		b.answer(p, resp, p.againResults)
	}
	resp.letIn()
}

// maxPayers bounds the top-ups that are looked at when a reservation is settled, for each
// quota, the soonest to expire first: those of maxGrants, and some that were sold since.
const maxPayers = 4 * maxGrants

// collect tells the ledger of the takes of the one request of p that count towards quotas of
// tenants, and of what these have beyond them.
func (b *booking) collect(p *plan, req *Request, resp *Response) {
	g := &b.ledger
	g.PayOnce(p.path)
	for i := range resp.Verdicts {
		v, t := &resp.Verdicts[i], p.verdictTake[i]
		if t < 0 || v.Tenant == 0 || !v.Role.IsMain() || g.HasQuota(t) {
			continue
		}
		offer, known := g.Offer(v.Descriptor, v.Depth)
		if !known {
			b.payers = p.appendPayers(b.payers[:0], req, v, maxPayers)
			for _, payer := range b.payers {
				g.AddPayer(payer, keyOf(req, v.Descriptor, payer.Share()))
			}
		}
		g.AddQuota(p.takes, t, offer)
	}
}

// look asks the store whether the reservation of b was made, and with all what the ledger
// needs to know.
func (l *Limiter) look(ctx context.Context, p *plan, b *booking, all bool) (made store.Result) {
	p.clearAgain()
	p.again = b.ledger.AppendLookup(p.again, p.takes, &b.notes, all)
	l.takeAgain(ctx, l.store, &p.batch)
	made, b.partly = b.ledger.Read(p.againResults)
	return made
}

// answer fills in resp. Those who have paid in place of quotas speak for them; results are
// what the store has said of these.
func (b *booking) answer(p *plan, resp *Response, results []store.Result) {
	now := p.instant()
	for i := range resp.Verdicts {
		t := p.verdictTake[i]
		if t < 0 {
			continue
		}
		said, r, ok := b.ledger.Speaker(t, results, now)
		if !ok {
			continue
		}
		if r.Err == nil {
			resp.Verdicts[i].say(&said)
		}
		p.results[t] = r
	}
	p.answer(resp, p.spans[0].verdicts)
}

// letIn answers a request that has passed already.
func (r *Response) letIn() {
	for i := range r.Verdicts {
		answerTo(&r.Verdicts[i].Decision, store.Refund)
	}
	r.merge()
}

// addMark makes all takes of b one group, of which the last is a mark on a reservation, and
// returns its index.
func (b *batch) addMark(on *booking, mark reservation.Mark) int {
	b.keys = on.notes.AppendKey(b.keys, mark)
	b.ends = append(b.ends, len(b.keys))
	take := b.newTake()
	take.Limit, take.Hits = on.notes.Limit, 1
	b.addTake(verdict.ByStore)
	for i := range b.takes {
		b.takes[i].Group = 1
	}
	return len(b.takes) - 1
}

// noteUncharged has the store note which of the first so many takes, which are those of a
// reservation that has passed, were not charged because their limits only watch and were
// over. So nobody who settles it is believed that they were.
func (l *Limiter) noteUncharged(ctx context.Context, p *plan, b *booking, takes int, resp *Response) {
	p.clearAgain()
	note := func(of ...descriptor.Entry) {
		p.addAgain(-1, store.Take{Key: b.notes.AppendKey(nil, reservation.MarkUncharged, of...), Limit: b.notes.Limit, Hits: 1, Shadow: true})
	}
	for t := range takes {
		take, r := &p.takes[t], &p.results[t]
		if take.Hits > 0 && take.Shadow && r.Err == nil && (!r.Allowed || r.Skipped) && p.countsCost(resp, t) {
			note(ledger.NameOf(p.takes, t))
		}
	}
	if len(p.again) > 0 {
		note()
		l.takeAgain(ctx, l.store, &p.batch)
	}
}

// lookUncharged fills in which of the takes that were to be charged were not.
func (l *Limiter) lookUncharged(ctx context.Context, p *plan, b *booking) {
	p.clearAgain()
	for _, e := range b.estimates {
		p.addAgain(-1, store.Take{Key: b.notes.AppendKey(nil, reservation.MarkUncharged, ledger.NameOf(p.takes, e.take)), Limit: b.notes.Limit})
	}
	l.takeAgain(ctx, l.store, &p.batch)
	for i, e := range b.estimates {
		if r := &p.againResults[i]; r.Err != nil || ledger.IsMarked(r) {
			b.uncharged = append(b.uncharged, e.take)
		}
	}
}

// peek asks the store what it has in the bucket of t.
func (l *Limiter) peek(ctx context.Context, t *store.Take) store.Result {
	takes := [1]store.Take{{Key: t.Key, Limit: t.Limit}}
	var results [1]store.Result
	l.take(ctx, l.store, takes[:], results[:])
	return results[0]
}

// addCharges fills in what the first so many takes of a batch, which are those of its one
// request, were charged, or others in their place, as far as limits count what it costs;
// all that was asked where the request was let in before.
func (b *booking) addCharges(p *batch, takes int, resp *Response, before bool) {
	b.charges = b.charges[:0]
	if b.untold {
		b.charges = append(b.charges, reservation.Untold)
		return
	}
	for t := range takes {
		take, r := &p.takes[t], &p.results[t]
		if take.Hits == 0 || !p.countsCost(resp, t) || !before && (r.Err != nil || !r.Allowed || r.Skipped) {
			continue
		}
		bucket := reservation.Bucket(take.Key)
		if i := slices.IndexFunc(b.paid, func(one ledger.Paid) bool { return one.Take == t }); i >= 0 {
			if bucket = b.paid[i].By; bucket == [4]byte{} {
				continue
			}
		}
		b.charges = append(b.charges, reservation.Charge{Bucket: bucket, Hits: take.Hits})
	}
}

// countsCost reports whether take t of the first request is of a limit that counts what
// requests cost. One of which no verdict tells does: see plan.addHome.
func (b *batch) countsCost(resp *Response, t int) bool {
	i := slices.Index(b.verdictTake, t)
	return i < 0 || countsHits(resp.Verdicts[i].Role)
}

// Reservations returns what was reserved and settled so far.
func (l *Limiter) Reservations() reservation.Counts {
	c := reservation.Counts{Made: l.reserved.made.Load(), Denied: l.reserved.denied.Load()}
	for outcome := range c.Commits {
		c.Commits[outcome], c.Cancels[outcome] = l.reserved.commits[outcome].Load(), l.reserved.cancels[outcome].Load()
	}
	return c
}

// reservationCounters count what reservation.Counts tells.
type reservationCounters struct {
	made, denied     atomic.Uint64
	commits, cancels [reservation.Unknown + 1]atomic.Uint64
}

// answered counts a reservation that was granted or denied.
func (c *reservationCounters) answered(granted bool) {
	if granted {
		c.made.Add(1)
	} else {
		c.denied.Add(1)
	}
}

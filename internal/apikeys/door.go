package apikeys

import (
	"context"
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/reservation"
)

// Door is a headgate.Door for callers who send API keys as they are. It puts names into
// the requests themselves, so that whoever answers shows no key either. Ask once with a
// request.
type Door struct {
	*headgate.Door
	names *Names
	veil  *Veil
}

// Doors makes Doors.
type Doors struct {
	// Names are put in the place of keys before anything is decided; nil for none.
	Names *Names
	// Veil hides keys when it was decided, where there are no Names; nil for none.
	Veil *Veil
}

// Door returns a Door that asks through d.
func (o Doors) Door(d *headgate.Door) *Door { return &Door{d, o.Names, o.Veil} }

// Check is headgate.Door's.
func (d *Door) Check(ctx context.Context, requests []headgate.Request, responses []headgate.Response) error {
	d.names.Put(requests)
	defer d.veil.hide(requests)
	return d.Door.Check(ctx, requests, responses)
}

// CheckOnce is headgate.Door's.
func (d *Door) CheckOnce(ctx context.Context, requests []headgate.Request, ids []string, responses []headgate.Response) error {
	d.names.Put(requests)
	defer d.veil.hide(requests)
	return d.Door.CheckOnce(ctx, requests, ids, responses)
}

// Reserve is headgate.Door's. The reservation knows names alone, so that what settles it
// needs none.
func (d *Door) Reserve(ctx context.Context, req *headgate.Request, o reservation.Options, resp *headgate.Response) (reservation.Reservation, error) {
	one := []headgate.Request{*req}
	d.names.Put(one)
	defer d.veil.hide(one)
	return d.Door.Reserve(ctx, req, o, resp)
}

// Permit is headgate.Door's. It leaves requests as they are: they are asked about later.
func (d *Door) Permit(requests []headgate.Request) error {
	return d.Door.Permit(d.names.copied(requests))
}

// DryRun is headgate.Door's. It puts names into req itself, so that what is explained
// shows no key.
func (d *Door) DryRun(ctx context.Context, req *headgate.Request, before, after *headgate.Response) error {
	one := []headgate.Request{*req}
	d.names.Put(one)
	return d.Door.DryRun(ctx, req, before, after)
}

// copied returns requests with names, in memory of their own.
func (n *Names) copied(requests []headgate.Request) []headgate.Request {
	if n == nil {
		return requests
	}
	requests = slices.Clone(requests)
	for i := range requests {
		r := &requests[i]
		r.Descriptors = slices.Clone(r.Descriptors)
		for j := range r.Descriptors {
			r.Descriptors[j].Entries = slices.Clone(r.Descriptors[j].Entries)
		}
	}
	n.Put(requests)
	return requests
}

// Limiter is a headgate.Limiter for dry runs of requests that hold API keys as they are.
type Limiter struct {
	*headgate.Limiter
	names *Names
}

// Limiter returns a Limiter that asks l. n may be nil.
func (n *Names) Limiter(l *headgate.Limiter) *Limiter { return &Limiter{l, n} }

// DryRun is headgate.Limiter's. It puts names into req itself, so that what is explained
// shows no key.
func (l *Limiter) DryRun(ctx context.Context, req *headgate.Request, before, after *headgate.Response) error {
	one := []headgate.Request{*req}
	l.names.Put(one)
	return l.Limiter.DryRun(ctx, req, before, after)
}

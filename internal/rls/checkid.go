package rls

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/repeat"
)

// Where a call carries its id, by which it is decided and charged once: a descriptor entry,
// for proxies that can send entries and nothing else, or a header of the call. The entry
// takes no part in matching nor in any key, whatever the rules are.
const (
	checkIDEntry  = "headgate_check_id"
	checkIDHeader = "headgate-check-id"
)

// Repeater is a Checker that also decides checks with an id once. Without one, calls with an
// id are refused.
type Repeater interface {
	CheckOnce(ctx context.Context, requests []headgate.Request, ids []string, responses []headgate.Response) error
}

var _ Repeater = (*headgate.Limiter)(nil)

// takeID takes the id out of descriptor i.
func (c *call) takeID(i int, d *headgate.Descriptor) error {
	at := slices.IndexFunc(d.Entries, isID)
	if at < 0 {
		return nil
	}
	for _, e := range d.Entries[at:] {
		if !isID(e) || e.Value == "" {
			continue
		}
		if c.id != "" && c.id != e.Value {
			return fmt.Errorf("two values of %s; hint: a call has one id", checkIDEntry)
		}
		c.id = e.Value
	}
	kept := slices.DeleteFunc(d.Entries, isID)
	if len(kept) == 0 {
		return fmt.Errorf("nothing but %s; hint: it stands beside the entries that are limited on", checkIDEntry)
	}
	w := &c.message.descriptors[i]
	w.to = w.from + len(kept)
	d.Entries = kept[:len(kept):len(kept)]
	return nil
}

func isID(e descriptor.Entry) bool { return e.Key == checkIDEntry }

// errBookedID refuses ids beside reservations.
var errBookedID = errors.New("an id of the call beside descriptors that reserve or settle; hint: reservations have their own, " + idEntry)

// findID adds the id in the header of the call.
func (c *call) findID() error {
	if values := c.from.values(checkIDHeader); len(values) > 0 {
		if len(values) > 1 || c.id != "" && c.id != values[0] {
			return malformed(errors.New("two ids; hint: one header " + checkIDHeader + ", or one value of " + checkIDEntry))
		}
		c.id = values[0]
	}
	if c.id == "" {
		return nil
	}
	if len(c.bookings) > 0 {
		return malformed(errBookedID)
	}
	if err := repeat.ValidateID(c.id); err != nil {
		return malformed(err)
	}
	return nil
}

// check decides a call that reserves nothing.
func (c *call) check(ctx context.Context) error {
	if c.id == "" {
		return c.checker.Check(ctx, c.requests[:], c.responses[:])
	}
	repeater, ok := c.checker.(Repeater)
	if !ok {
		return repeat.ErrNoStore
	}
	return repeater.CheckOnce(ctx, c.requests[:], []string{c.id}, c.responses[:])
}

// refusedID answers an error about ids, nil for others.
func refusedID(err error) error {
	switch {
	case errors.Is(err, repeat.ErrConflict):
		return status.Error(codes.AlreadyExists, err.Error())
	case errors.Is(err, repeat.ErrNoStore):
		return status.Error(codes.Unimplemented, err.Error())
	}
	return nil
}

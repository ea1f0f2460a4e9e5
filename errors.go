package headgate

import (
	"errors"
	"fmt"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store"
)

// Malformed requests. Check wraps them with the place at fault.
var (
	ErrNoDomain      = errors.New("rate limit domain must not be empty")
	ErrNoDescriptors = errors.New("rate limit descriptor list must not be empty")
	ErrDescriptor    = errors.New("malformed descriptor")
	ErrHits          = errors.New("hits out of range")
	ErrHold          = errors.New("hold out of range")
)

// ErrQueueFull is returned by Wait when too many calls are waiting already.
var ErrQueueFull = errors.New("wait: too many calls are being held back; hint: raise Options.MaxWaiting or lower max_delay of the rule")

// validate refuses what must not reach the rules or the store.
func (r *Request) validate() error {
	if r.Domain == "" {
		return ErrNoDomain
	}
	if len(r.Descriptors) == 0 {
		return ErrNoDescriptors
	}
	if len(r.Descriptors) > descriptor.MaxDescriptors {
		return fmt.Errorf("%w: %d descriptors; hint: at most %d in one request", ErrDescriptor, len(r.Descriptors), descriptor.MaxDescriptors)
	}
	if r.Hold > limit.MaxHold {
		return fmt.Errorf("%w: %d; hint: 1 to %d, as limit.NewHold draws, or 0", ErrHold, r.Hold, int64(limit.MaxHold))
	}
	for i := range r.Descriptors {
		if err := r.Descriptors[i].validate(); err != nil {
			return fmt.Errorf("descriptor %d: %w", i, err)
		}
	}
	return nil
}

func (d *Descriptor) validate() error {
	if err := descriptor.Validate(d.Entries); err != nil {
		return fmt.Errorf("%w: %w", ErrDescriptor, err)
	}
	if d.Hits < 0 || d.Hits > limit.MaxQuota {
		return fmt.Errorf("%w: %d; hint: 0 (a peek) to %d", ErrHits, d.Hits, int64(limit.MaxQuota))
	}
	switch d.Op {
	case store.Hit, store.Refund, store.Reset, store.Charge, store.Renew, store.Release:
		return nil
	}
	return fmt.Errorf("%w: unknown operation %d", ErrDescriptor, d.Op)
}

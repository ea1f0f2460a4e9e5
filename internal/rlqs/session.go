package rlqs

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"time"

	rlqspb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/internal/shares"
	"github.com/headgate/headgate/limit"
)

// session is one stream.
type session struct {
	service *Service
	domain  string
	leases  map[string]*lease // by the keys of buckets; the ledger guards it
}

// said is what a message says of a bucket.
type said struct {
	entries []descriptor.Entry
	key     string
	usage   usage
}

// run answers a stream until it ends.
func (s *session) run(stream rlqspb.RateLimitQuotaService_StreamRateLimitQuotasServer) error {
	ctx := stream.Context()
	messages := shares.Ahead(ctx, stream.Recv)
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for {
		s.setAlarm(alarm)
		var told []action
		select {
		case m := <-messages:
			switch {
			case errors.Is(m.Err, io.EOF):
				return nil
			case m.Err != nil:
				return m.Err
			}
			// A credential may have ended since, or have been taken back.
			err := s.service.options.Enter(ctx)
			if err != nil {
				return err
			}
			if told, err = s.report(ctx, m.Message); err != nil {
				return err
			}
		case <-alarm.C:
			if err := s.service.options.Enter(ctx); err != nil {
				return err
			}
			told = s.service.ledger.wake(unending(ctx), s, now())
		case <-s.service.ending:
			return nil
		case <-ctx.Done(): // a client that has gone: of that messages do not always tell
			return status.FromContextError(ctx.Err()).Err()
		}
		if len(told) > 0 {
			if err := s.send(stream, response(told)); err != nil {
				return err
			}
		}
	}
}

// unreadFor is how long a client may leave an assignment unread, and with it its leases in use.
const unreadFor = 10 * time.Second

var errUnread = status.Errorf(codes.ResourceExhausted, "the assignments of this stream were not read for %v", unreadFor)

// send sends a message. When it cannot for long, it ends the stream, because of which sending ends.
func (s *session) send(stream rlqspb.RateLimitQuotaService_StreamRateLimitQuotasServer, m *rlqspb.RateLimitQuotaResponse) error {
	sent := make(chan error, 1)
	go func() { sent <- stream.Send(m) }()
	late := time.NewTimer(unreadFor)
	defer late.Stop()
	select {
	case err := <-sent:
		return err
	case <-late.C:
		return errUnread
	}
}

// unending is ctx without its end: what is settled in part is settled wrongly, and the store
// bounds the time that it takes.
func unending(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

// setAlarm sets t to when a bucket is to be looked at though nothing was reported.
func (s *session) setAlarm(t *time.Timer) {
	l := s.service.ledger
	l.mu.Lock()
	var first time.Time
	for _, le := range s.leases {
		if !le.wake.IsZero() && (first.IsZero() || le.wake.Before(first)) {
			first = le.wake
		}
	}
	l.mu.Unlock()
	t.Stop()
	if !first.IsZero() {
		t.Reset(max(first.Sub(now()), nap))
	}
}

// report takes a message, and returns what the stream is to be told.
func (s *session) report(ctx context.Context, m *rlqspb.RateLimitQuotaUsageReports) ([]action, error) {
	switch {
	case m.GetDomain() == "" && s.domain == "":
		return nil, status.Error(codes.InvalidArgument, "the first report of a stream names no domain")
	case s.domain == "":
		s.domain = m.GetDomain()
	case m.GetDomain() != "" && m.GetDomain() != s.domain:
		return nil, status.Error(codes.InvalidArgument, "a report names another domain than the first one of its stream")
	}
	s.service.counts.reports.Add(1)
	return s.service.ledger.report(unending(ctx), s, s.read(m), now()), nil
}

// read returns what a message says of each bucket, in the order of their keys.
func (s *session) read(m *rlqspb.RateLimitQuotaUsageReports) []said {
	all := make([]said, 0, len(m.GetBucketQuotaUsages()))
	c := &s.service.counts
	for _, u := range m.GetBucketQuotaUsages() {
		entries, key, err := readID(s.domain, u.GetBucketId())
		if err != nil {
			c.ignored.Add(1)
			continue
		}
		used := usage{
			elapsed: max(u.GetTimeElapsed().AsDuration(), 0),
			allowed: count(u.GetNumRequestsAllowed()),
			denied:  count(u.GetNumRequestsDenied()),
		}
		c.allowed.Add(uint64(used.allowed)) // what is charged: a number as it came could turn the counter back
		c.denied.Add(uint64(used.denied))
		all = append(all, said{entries, key, used})
	}
	slices.SortStableFunc(all, func(a, b said) int { return cmp.Compare(a.key, b.key) })
	merged := all[:0]
	for _, r := range all {
		if n := len(merged); n > 0 && merged[n-1].key == r.key {
			merged[n-1].usage.add(r.usage)
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

// count is n, at most as many hits as are counted at once.
func count(n uint64) int64 { return int64(min(n, limit.MaxQuota, math.MaxInt64)) }

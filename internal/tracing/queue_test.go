package tracing

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// exporter is a collector in the same process: export decides what becomes of a batch.
type exporter struct {
	export func(context.Context, int) error
	mu     sync.Mutex
	sizes  []int
}

func (e *exporter) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	e.mu.Lock()
	e.sizes = append(e.sizes, len(batch))
	e.mu.Unlock()
	return e.export(ctx, len(batch))
}

// batches returns the sizes of those that were sent.
func (e *exporter) batches() []int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.sizes)
}

func (e *exporter) Shutdown(context.Context) error { return nil }

func testQueue(t *testing.T, e *exporter, onError func(error)) *queue {
	to, err := endpointOf("http://collector:4318")
	if err != nil {
		t.Fatal(err)
	}
	return newQueue(e, to, onError)
}

func (q *queue) offer(n int) {
	span := tracetest.SpanStub{Name: "s"}.Snapshot()
	for range n {
		q.OnEnd(span)
	}
}

func (q *queue) stats() Stats { return (&Tracer{queue: q}).Stats() }

// A batch waits a second for more, and goes when it is full.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &exporter{export: func(context.Context, int) error { return nil }}
		q := testQueue(t, e, nil)
		q.offer(3)
		time.Sleep(batchDelay / 2)
		q.offer(2)
		synctest.Wait()
		if got := e.batches(); len(got) != 0 {
			t.Errorf("%v before it was due", got)
		}
		time.Sleep(batchDelay / 2)
		synctest.Wait()
		if got := e.batches(); !slices.Equal(got, []int{5}) {
			t.Errorf("%v when it was due", got)
		}
		q.offer(maxBatch + 1)
		synctest.Wait()
		if got := e.batches(); !slices.Equal(got, []int{5, maxBatch}) {
			t.Errorf("%v of a full one", got)
		}
		if err := q.Shutdown(t.Context()); err != nil || !slices.Equal(e.batches(), []int{5, maxBatch, 1}) {
			t.Errorf("%v, %v at the end", e.batches(), err)
		}
		q.offer(1)
		if s := q.stats(); s != (Stats{Started: maxBatch + 7, Exported: maxBatch + 6, Dropped: 1}) {
			t.Errorf("%+v", s)
		}
		if err := q.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// While a collector is stuck nothing waits for it, and what does not fit is counted.
func TestCollectorThatIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		e := &exporter{export: func(context.Context, int) error { <-free; return nil }}
		q := testQueue(t, e, nil)
		q.offer(maxBatch)
		synctest.Wait() // they are being sent
		q.offer(maxWaiting + 10)
		if s := q.stats(); s != (Stats{Started: maxBatch + maxWaiting + 10, Dropped: 10}) {
			t.Errorf("%+v", s)
		}
		close(free)
		if err := q.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if s := q.stats(); s.Exported != maxBatch+maxWaiting || s.Started != s.Exported+s.Dropped {
			t.Errorf("%+v", s)
		}
	})
}

// Errors are told once a minute.
func TestErrorsAreToldRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &exporter{export: func(context.Context, int) error { return errors.New("no") }}
		var told []string // read when the queue is closed
		q := testQueue(t, e, func(err error) { told = append(told, err.Error()) })
		for range 150 { // for 150 seconds
			q.offer(2)
			time.Sleep(batchDelay + time.Millisecond) // a batch each
		}
		if err := q.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if len(told) != 3 || told[0] != "send traces to collector:4318: no; 2 spans lost so far" || !strings.Contains(told[2], "242 spans") {
			t.Errorf("%q", told)
		}
	})
}

// When the time to close is over, what is being sent is given up, and the rest too.
func TestShutdownGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &exporter{export: func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }}
		q := testQueue(t, e, nil)
		q.offer(maxBatch + 5)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.Shutdown(ctx); err == nil || err.Error() != "close traces: the collector has not taken the last 517 spans" {
			t.Error(err)
		}
		if s := q.stats(); s != (Stats{Started: maxBatch + 5, Failed: maxBatch + 5}) {
			t.Errorf("%+v", s)
		}
	})
}

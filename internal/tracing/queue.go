package tracing

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/headgate/headgate/internal/otlp"
)

const (
	// maxWaiting bounds the spans that wait, each of about 1 KiB.
	maxWaiting = 4096
	// maxBatch bounds the spans of one message to the collector.
	maxBatch = 512
	// batchDelay is how long the first span of a batch waits for more.
	batchDelay = time.Second
	// tellEvery is how often OnError is called at most.
	tellEvery = time.Minute
)

// queue is a sdktrace.SpanProcessor that keeps spans for one goroutine to send. In place
// of the SDK's it says what becomes of each, and tells errors to its owner alone.
type queue struct {
	exporter sdktrace.SpanExporter
	to       *otlp.Endpoint
	onError  func(error)

	spans chan sdktrace.ReadOnlySpan
	// adding is held to read while a span is added, and to write when the queue closes:
	// no span is added after the last look.
	adding sync.RWMutex
	closed bool

	closing, done chan struct{}
	// stop ends what is being sent.
	stop context.CancelFunc

	started, exported, failed, dropped atomic.Uint64

	lastTold time.Time // of the goroutine
}

var _ sdktrace.SpanProcessor = (*queue)(nil)

func newQueue(exporter sdktrace.SpanExporter, to *otlp.Endpoint, onError func(error)) *queue {
	if onError == nil {
		onError = func(error) {}
	}
	ctx, stop := context.WithCancel(context.Background())
	q := &queue{
		exporter: exporter, to: to, onError: onError, stop: stop,
		spans:   make(chan sdktrace.ReadOnlySpan, maxWaiting),
		closing: make(chan struct{}), done: make(chan struct{}),
	}
	go q.run(ctx)
	return q
}

// OnStart implements sdktrace.SpanProcessor.
func (q *queue) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd implements sdktrace.SpanProcessor. It does not wait.
func (q *queue) OnEnd(span sdktrace.ReadOnlySpan) {
	q.adding.RLock()
	defer q.adding.RUnlock()
	q.started.Add(1)
	if q.closed {
		q.dropped.Add(1)
		return
	}
	select {
	case q.spans <- span:
	default:
		q.dropped.Add(1)
	}
}

// ForceFlush implements sdktrace.SpanProcessor; nobody asks for it.
func (q *queue) ForceFlush(context.Context) error { return nil }

// Shutdown implements sdktrace.SpanProcessor: it sends what waits until ctx ends.
func (q *queue) Shutdown(ctx context.Context) error {
	q.adding.Lock()
	first := !q.closed
	q.closed = true
	q.adding.Unlock()
	lost := q.failed.Load() // before anything more is sent
	if first {
		close(q.closing)
	}
	select {
	case <-q.done:
	case <-ctx.Done():
		q.stop()
		<-q.done
	}
	_ = q.exporter.Shutdown(ctx) // has nothing left to do
	q.to.Client.CloseIdleConnections()
	if lost = q.failed.Load() - lost; lost > 0 {
		return fmt.Errorf("close traces: the collector has not taken the last %d spans", lost)
	}
	return nil
}

// run sends batches until the queue closes, and then what is left.
func (q *queue) run(ctx context.Context) {
	defer close(q.done)
	defer q.stop()
	batch := make([]sdktrace.ReadOnlySpan, 0, maxBatch)
	var due <-chan time.Time // of the batch; nil while it is empty
	for {
		select {
		case span := <-q.spans:
			if batch = append(batch, span); len(batch) == 1 {
				due = time.After(batchDelay)
			}
			if len(batch) < maxBatch {
				continue
			}
		case <-due:
		case <-q.closing:
			q.drain(ctx, batch)
			return
		}
		batch, due = q.send(ctx, batch), nil
	}
}

// drain sends what is left.
func (q *queue) drain(ctx context.Context, batch []sdktrace.ReadOnlySpan) {
	for {
		select {
		case span := <-q.spans:
			if batch = append(batch, span); len(batch) == maxBatch {
				batch = q.send(ctx, batch)
			}
		default:
			q.send(ctx, batch)
			return
		}
	}
}

// send sends a batch, and returns an empty one.
func (q *queue) send(ctx context.Context, batch []sdktrace.ReadOnlySpan) []sdktrace.ReadOnlySpan {
	if len(batch) > 0 {
		if err := q.exporter.ExportSpans(ctx, batch); err != nil {
			q.failed.Add(uint64(len(batch)))
			q.tell(err)
		} else {
			q.exported.Add(uint64(len(batch)))
		}
	}
	clear(batch)
	return batch[:0]
}

// tell tells why spans are lost, now and then.
func (q *queue) tell(err error) {
	if now := time.Now(); q.lastTold.IsZero() || now.Sub(q.lastTold) >= tellEvery {
		q.lastTold = now
		q.onError(fmt.Errorf("send traces to %s: %w; %d spans lost so far", q.to.Host(), q.to.Told(err), q.failed.Load()+q.dropped.Load()))
	}
}

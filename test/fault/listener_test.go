package fault

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/headgate/headgate/store"
)

// mostTexts bounds the errors that a listener keeps for each reason, mostBytes
// the length of each.
const mostTexts, mostBytes = 2, 400

// listener notes why stores do not decide. The zero value is ready.
type listener struct {
	mu      sync.Mutex
	reasons map[store.Reason]*reason
}

// reason is how often a reason was heard, and its first texts.
type reason struct {
	count int64
	texts []string
}

// overheard is a store whose errors a listener hears.
type overheard struct {
	store.Leaser
	listener *listener
}

// Take implements store.Store.
func (o *overheard) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	o.Leaser.Take(ctx, takes, results)
	for i := range results {
		if results[i].Err != nil {
			o.listener.hear(results[i].Err)
		}
	}
}

func (l *listener) hear(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reasons == nil {
		l.reasons = map[store.Reason]*reason{}
	}
	name := store.ReasonOf(err)
	r := l.reasons[name]
	if r == nil {
		r = &reason{}
		l.reasons[name] = r
	}
	r.count++
	text := err.Error()
	if text = text[:min(len(text), mostBytes)]; len(r.texts) < mostTexts && !slices.Contains(r.texts, text) {
		r.texts = append(r.texts, text)
	}
}

// String lists the reasons.
func (l *listener) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	for name, r := range l.reasons {
		lines = append(lines, fmt.Sprintf("%d %s %q", r.count, name, r.texts))
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

// counts lists the reasons and how often each was heard.
func (l *listener) counts() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var words []string
	for name, r := range l.reasons {
		words = append(words, fmt.Sprintf("%s %d", name, r.count))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

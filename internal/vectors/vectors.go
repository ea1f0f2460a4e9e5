package vectors

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/headgate/headgate/limit"
)

//go:embed testdata/*.txt
var embedded embed.FS

// Scenario is the life of one bucket.
type Scenario struct {
	// File and Line say where it begins.
	File string
	Line int
	// Name is unique in its file.
	Name  string
	Steps []Step
}

// Op is what a step does.
type Op uint8

const (
	// Hit charges hits, or peeks when there are none.
	Hit Op = iota
	// Refund gives hits back.
	Refund
	// Reset forgets the bucket.
	Reset
	// Charge charges hits whether they fit or not.
	Charge
	// Acquire takes a slot for a hold. In a store it is one hit by the hold.
	Acquire
	// Renew keeps the slot of a hold.
	Renew
	// Release frees the slot of a hold.
	Release
)

// ops are the words of the language.
var ops = [...]string{
	Hit: "hits", Refund: "refund", Reset: "reset", Charge: "charge",
	Acquire: "acquire", Renew: "renew", Release: "release",
}

// Step is one take of a scenario.
type Step struct {
	// Line is where it stands in the file of its scenario.
	Line int
	// Limit is the limit to decide by.
	Limit *limit.Limit
	// Now is the instant of the take. It may be before that of the last step.
	Now limit.Micros
	Op  Op
	// Hits is the number of hits charged or given back: 1 for Acquire, 0 for
	// Reset, Renew and Release.
	Hits int64
	// Hold is who acquires, renews and releases.
	Hold limit.Hold
	// Want is the decision to demand, all of it. It is nil when nothing has
	// been recorded yet, and for Reset.
	Want *limit.Decision
}

// Take makes the decision of a step, on a bucket that it remembers from step to
// step; it is what is being tested.
type Take func(Step) (limit.Decision, error)

// All returns the scenarios that come with this package. It panics if they
// cannot be read, which the tests of this package rule out.
func All() []Scenario {
	scenarios, err := Load(embedded)
	if err != nil {
		panic(err)
	}
	return scenarios
}

// Load reads the scenarios of all files of fsys that end in .txt, in the order
// of their paths.
func Load(fsys fs.FS) ([]Scenario, error) {
	var scenarios []Scenario
	err := fs.WalkDir(fsys, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".txt") {
			return err
		}
		text, err := fs.ReadFile(fsys, path)
		if err != nil {
			return err
		}
		more, err := Parse(path, string(text))
		scenarios = append(scenarios, more...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load vectors: %w", err)
	}
	return scenarios, nil
}

// Replay takes all steps of the scenario and returns the first error: one of
// take, or a decision that is not the wanted one.
func (s Scenario) Replay(take Take) error {
	for _, step := range s.Steps {
		got, err := take(step)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", s.File, step.Line, err)
		}
		if err := step.Check(got); err != nil {
			return fmt.Errorf("%s:%d: %w", s.File, step.Line, err)
		}
	}
	return nil
}

// Check returns an error that shows both when got is not what the step wants.
func (s Step) Check(got limit.Decision) error {
	if s.Want == nil || *s.Want == got {
		return nil
	}
	return fmt.Errorf("scenario step %v hits=%d hold=%d: got %q, want %q",
		s.Op, s.Hits, s.Hold, formatDecision(s.Limit, got), formatDecision(s.Limit, *s.Want))
}

// String returns the word of the language, such as "hits".
func (o Op) String() string {
	if int(o) < len(ops) {
		return ops[o]
	}
	return fmt.Sprintf("op(%d)", uint8(o))
}

// Bucket remembers the state of one bucket and makes the decisions of package
// limit. Its zero value is unused. Its Take is the Take by which vectors are
// recorded, and what other implementations are compared with.
type Bucket struct{ State limit.State }

// Take implements Take.
func (b *Bucket) Take(s Step) (limit.Decision, error) {
	var d limit.Decision
	switch s.Op {
	case Hit:
		b.State, d = limit.Decide(s.Limit, b.State, s.Now, s.Hits)
	case Refund:
		b.State, d = limit.Refund(s.Limit, b.State, s.Now, s.Hits)
	case Charge:
		b.State, d = limit.Charge(s.Limit, b.State, s.Now, s.Hits)
	case Acquire:
		b.State, d = limit.Acquire(s.Limit, b.State, s.Now, s.Hold)
	case Renew:
		b.State, d = limit.Renew(s.Limit, b.State, s.Now, s.Hold)
	case Release:
		b.State, d = limit.Release(s.Limit, b.State, s.Now, s.Hold)
	case Reset:
		b.State = limit.State{}
	default:
		return d, fmt.Errorf("unknown %v", s.Op)
	}
	return d, nil
}

// formatDecision writes d in the language; l is the limit it was made by.
func formatDecision(l *limit.Limit, d limit.Decision) string {
	var b strings.Builder
	switch {
	case d.Allowed:
		b.WriteString("allow")
	case d.Never:
		b.WriteString("never")
	default:
		b.WriteString("deny")
	}
	if d.Limit != l.Quota {
		fmt.Fprintf(&b, " limit=%d", d.Limit)
	}
	fmt.Fprintf(&b, " remaining=%d", d.Remaining)
	for _, part := range [...]struct {
		name  string
		value time.Duration
	}{{"reset", d.ResetAfter}, {"retry", d.RetryAfter}, {"delay", d.Delay}} {
		if part.value != 0 {
			fmt.Fprintf(&b, " %s=%s", part.name, formatDuration(part.value))
		}
	}
	return b.String()
}

// formatDuration is Duration.String without trailing units of 0.
func formatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

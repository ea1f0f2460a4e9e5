package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/sleep"
)

const (
	// maxServerEvent bounds one line of a stream, in bytes: an overview of a node with
	// many rules.
	maxServerEvent = 4 << 20
	// silence is how long nothing may come before a stream counts as lost; the API says
	// that it is there every 15 seconds.
	silence = 45 * time.Second
	// opening bounds how long a stream may take to open.
	opening = 15 * time.Second
	// minReconnect and maxReconnect are the pauses before a stream is opened again.
	minReconnect, maxReconnect = time.Second, 30 * time.Second
)

// serverEvent is one event of a stream of the admin API.
type serverEvent struct {
	name string
	data []byte // until the next one is read
	id   string // "" where it has none
}

// eventReader reads server-sent events, of those that the admin API sends: each has its
// data on one line.
type eventReader struct {
	lines *bufio.Scanner
	// heard, when not nil, is called for every line.
	heard func()
}

func newEventReader(r io.Reader) *eventReader {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxServerEvent)
	return &eventReader{lines: lines}
}

// next returns the next event; io.EOF after the last.
func (r *eventReader) next() (e serverEvent, err error) {
	for r.lines.Scan() {
		if r.heard != nil {
			r.heard()
		}
		line := r.lines.Text()
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && e.data != nil:
			return e, nil
		case line == "":
			e = serverEvent{}
		case name == "event":
			e.name = value
		case name == "id":
			e.id = value
		case name == "data":
			e.data = []byte(value)
		}
	}
	if err := r.lines.Err(); err != nil {
		return serverEvent{}, err
	}
	return serverEvent{}, io.EOF
}

// watching is a stream of the admin API that is opened again when it ends.
type watching struct {
	from *adminAddress
	path string
	// event is told what comes, and ended why the stream has, and in how long it is
	// opened again. An error of event ends the watching.
	event func(serverEvent) error
	ended func(err error, pause time.Duration)
	// patient watching goes on where the stream cannot be opened at first either.
	patient bool
}

// refusal is an answer of the admin API after which it makes no sense to ask again.
type refusal struct{ error }

// Unwrap returns the cause.
func (r refusal) Unwrap() error { return r.error }

// run watches until ctx ends, event returns an error, the API refuses, or the stream
// cannot be opened at first and the watching is not patient.
func (w *watching) run(ctx context.Context) error {
	pause := minReconnect
	for opened := false; ; {
		began, err := w.once(ctx)
		var no refusal
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &no):
			return no.error
		case !began && !opened && !w.patient:
			return err
		case began:
			opened, pause = true, minReconnect
		}
		drawn := pause/2 + rand.N(pause/2+1)
		w.ended(err, drawn)
		if sleep.For(ctx, drawn) != nil {
			return nil
		}
		pause = min(2*pause, maxReconnect)
	}
}

// once watches one stream. began reports whether anything has come.
func (w *watching) once(ctx context.Context) (began bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lost := time.AfterFunc(opening, func() { cancel(fmt.Errorf("nothing was heard for %v", opening)) })
	defer lost.Stop()
	response, done, err := w.from.open(ctx, http.MethodGet, w.path, http.Header{}, nil)
	if err != nil {
		return false, causeOf(ctx, err)
	}
	defer done()
	if response.StatusCode != http.StatusOK {
		return false, refusalOf(response)
	}
	lost.Stop()
	lost = time.AfterFunc(silence, func() { cancel(fmt.Errorf("nothing was heard for %v", silence)) })
	defer lost.Stop()
	events := newEventReader(response.Body)
	events.heard = func() { began = true; lost.Reset(silence) }
	for {
		e, err := events.next()
		if err != nil {
			return began, causeOf(ctx, err)
		}
		if err := w.event(e); err != nil {
			return began, refusal{err}
		}
	}
}

// causeOf returns why ctx has ended in place of what came of it.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the admin API has ended the stream")
	}
	return err
}

// againIn says on one line why a stream has ended, and in how long it is opened again.
func againIn(err error, pause time.Duration) string {
	return fmt.Sprintf("%s; asking again in %v", whatIsWrong(err), pause.Round(100*time.Millisecond))
}

// refusalOf makes an error of an answer that is no stream.
func refusalOf(response *http.Response) error {
	raw, _ := io.ReadAll(io.LimitReader(response.Body, maxAdminAnswer))
	err := adminProblem(response.StatusCode, raw)
	if response.StatusCode/100 == 4 && response.StatusCode != http.StatusTooManyRequests {
		return refusal{err}
	}
	return err
}

// unanswered makes err one of a question that could not be asked, unless it says what it is.
func unanswered(err error) error {
	var coded *codeError
	if err == nil || errors.As(err, &coded) {
		return err
	}
	return &codeError{exitUsage, err}
}

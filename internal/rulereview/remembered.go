package rulereview

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/headgate/headgate/internal/replay"
	"github.com/headgate/headgate/internal/view"
)

const (
	// Lookback is how far back events are asked about anew.
	Lookback = time.Hour
	// MaxEvents bounds those events: the latest are taken.
	MaxEvents = 20_000
)

// Remembered is what nodes remember of the last hour.
type Remembered struct {
	// Node is the name of this node, and Others is what other nodes remember.
	Node   string
	Others []NodeEvents
	// Recent returns a page of events that this node remembers, the latest first.
	Recent func(cursor string) (view.Events, error)
	// At is the end of the time that is looked at.
	At time.Time
}

// Recalled is what nodes remember, to be read as events of a file are.
type Recalled struct {
	// Input has the events, the oldest first, and can be opened again. Events is how many they are.
	Input  replay.Input
	Events int
	// Nodes are those whose events were asked for, with how many of them are in it.
	Nodes []EffectNode
	// Cut says that nodes remember more of the hour: it is of the time of which all have told.
	Cut bool
}

// Recall puts together what this node remembers of the last hour and what others have told, the latest MaxEvents
// at most.
func (r *Remembered) Recall(ctx context.Context) (Recalled, error) {
	own, cut, err := Collect(ctx, r.Recent, r.At.Add(-Lookback), MaxEvents)
	if err != nil {
		return Recalled{}, err
	}
	events, nodes, cut := together(append([]NodeEvents{{Node: r.Node, Events: own, Cut: cut}}, r.Others...))
	var text bytes.Buffer
	lines := json.NewEncoder(&text)
	for i := len(events) - 1; i >= 0; i-- {
		if err := lines.Encode(&events[i]); err != nil {
			return Recalled{}, err
		}
	}
	return Recalled{
		Input: replay.Input{
			Name:    "events",
			Open:    func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Bytes())), nil },
			Decoder: func() (replay.Decoder, error) { return replay.Events(nil), nil },
			Again:   true,
		},
		Events: len(events), Nodes: nodes, Cut: cut,
	}, ctx.Err()
}

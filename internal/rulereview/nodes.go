package rulereview

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/headgate/headgate/internal/view"
)

// NodeEvents is what a node remembers of the last hour.
type NodeEvents struct {
	Node string
	// Events are the latest first, and Cut says that the node remembers more.
	Events []view.Event
	Cut    bool
	// Unknown says why the node has not told; "": it has.
	Unknown string
}

// EffectNode is a node whose events were asked for.
type EffectNode struct {
	Node string `json:"node"`
	// Events is how many of its events were asked about.
	Events int `json:"events"`
	// Unknown says why nothing of the node is in the effect, "" where it is.
	Unknown string `json:"unknown,omitempty"`
}

// Collect returns the events since an instant, the latest first, at most most of them, and whether there are
// more.
func Collect(ctx context.Context, recent func(cursor string) (view.Events, error), since time.Time, most int) (events []view.Event, cut bool, err error) {
	for cursor := ""; ; {
		page, err := recent(cursor)
		if err != nil {
			return nil, false, err
		}
		for i := range page.Events {
			if page.Events[i].TS < since.UnixMilli() {
				return events, false, ctx.Err()
			}
			if len(events) == most {
				return events, true, ctx.Err()
			}
			events = append(events, page.Events[i])
		}
		if cursor = page.NextCursor; cursor == "" || ctx.Err() != nil {
			return events, false, ctx.Err()
		}
	}
}

// together returns the events of all nodes, the latest first and MaxEvents at most, of the time of which all
// have told that have told anything.
func together(told []NodeEvents) (events []view.Event, nodes []EffectNode, cut bool) {
	since := int64(0)
	for i := range told {
		if t := &told[i]; t.Cut && len(t.Events) > 0 {
			since, cut = max(since, t.Events[len(t.Events)-1].TS), true
		}
	}
	type from struct {
		node int
		view.Event
	}
	var all []from
	for i := range told {
		for j := range told[i].Events {
			if e := told[i].Events[j]; e.TS >= since {
				all = append(all, from{i, e})
			}
		}
		nodes = append(nodes, EffectNode{Node: told[i].Node, Unknown: told[i].Unknown})
	}
	slices.SortStableFunc(all, func(a, b from) int { return cmp.Compare(b.TS, a.TS) })
	if len(all) > MaxEvents {
		all, cut = all[:MaxEvents], true
	}
	for i := range all {
		nodes[all[i].node].Events++
		events = append(events, all[i].Event)
	}
	return events, nodes, cut
}

// maxUnpacked bounds in bytes what the events of a node may have that come packed, and maxLine one of them.
const maxUnpacked, maxLine = 64 << 20, 1 << 20

// packedHead is the first line of events that are packed.
type packedHead struct {
	Cut bool `json:"cut"`
}

// Pack returns as many of the latest events of a node as have room in so many bytes: a line that says whether
// there are more, and one for each event, compressed by gzip.
func Pack(events []view.Event, cut bool, room int) ([]byte, error) {
	for n := len(events); ; {
		data, err := pack(events[:n], cut || n < len(events))
		if err != nil || len(data) <= room {
			return data, err
		}
		if n == 0 {
			return nil, errors.New("pack events: there is no room")
		}
		// A little less than would be in proportion: what is left compresses worse.
		n = min(n-1, int(float64(n)*0.9*float64(room)/float64(len(data))))
	}
}

func pack(events []view.Event, cut bool) ([]byte, error) {
	var data bytes.Buffer
	z := gzip.NewWriter(&data)
	lines := json.NewEncoder(z)
	if err := lines.Encode(packedHead{cut}); err != nil {
		return nil, fmt.Errorf("pack events: %w", err)
	}
	for i := range events {
		if err := lines.Encode(&events[i]); err != nil {
			return nil, fmt.Errorf("pack events: %w", err)
		}
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("pack events: %w", err)
	}
	return data.Bytes(), nil
}

// errPacked is of what Pack has not returned.
var errPacked = errors.New("the events are not as this version of Headgate tells them")

// Unpack reads what Pack has returned, at most most events.
func Unpack(data []byte, most int) (events []view.Event, cut bool, err error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, false, errPacked
	}
	lines := bufio.NewScanner(io.LimitReader(z, maxUnpacked))
	lines.Buffer(nil, maxLine)
	var head packedHead
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &head) != nil {
		return nil, false, errPacked
	}
	for lines.Scan() {
		var e view.Event
		if json.Unmarshal(lines.Bytes(), &e) != nil || len(events) == most {
			return nil, false, errPacked
		}
		events = append(events, e)
	}
	if lines.Err() != nil {
		return nil, false, errPacked
	}
	return events, head.Cut, nil
}

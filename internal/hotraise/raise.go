// Package hotraise raises the limits of keys that become hot, where their rules say so, for
// a time: at most once in that time and its pause, and alike on all nodes.
//
// The node that finds a key hot writes its raise into a register of the store that nodes
// share; the first to write is the one that raises. All nodes read it once a second, and
// obey. What is written once is never changed, so that a raise neither grows nor renews
// itself; it ends by the clock of each node.
package hotraise

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/strictjson"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/hotkey"
)

const (
	// MaxKeys bounds the keys that are raised or pause at one time, over all rules and
	// nodes. Beyond, no key is raised until the pause of one of them is over.
	MaxKeys = 256
	// maxAhead is how far the clocks of two nodes may be apart: what begins later than
	// that is taken for garbage.
	maxAhead = time.Hour
	// maxRule and maxNode bound names, in bytes, so that MaxKeys raises fit into
	// store.MaxRegister. Keys of rules with longer IDs are not raised.
	maxRule, maxNode = 512, 128
	// format is that of texts which are written now.
	format = 1
)

// Key names a bucket: the first half of the SHA-256 of its key in the store.
type Key = hotkey.Key

// Raise is one raise of one key. It never changes.
type Raise struct {
	Key  Key
	Rule string
	// By is by how many per cent of the limit.
	By int
	// The limit is raised in [From, Until), and the key not raised again before Again.
	From, Until, Again time.Time
	// Node is the name of the node that found the key hot.
	Node string
}

// newRaise returns the raise of a key of a rule that begins now.
func newRaise(r *rules.Rule, key Key, node string, now time.Time) Raise {
	from := now.UTC().Truncate(time.Millisecond)
	until := from.Add(r.HotRaise.For)
	return Raise{Key: key, Rule: r.ID, By: r.HotRaise.By, From: from, Until: until, Again: until.Add(r.HotRaise.Rest()), Node: cut(node)}
}

// cut bounds a name.
func cut(name string) string { return strings.ToValidUTF8(name[:min(len(name), maxNode)], "") }

// inForce reports whether the limit is raised at now.
func (r *Raise) inForce(now time.Time) bool { return !now.Before(r.From) && now.Before(r.Until) }

// raises are those that are known, by their keys.
type raises map[Key]Raise

// merge adds those of others that are newer, and leaves out those whose pause is over at
// now. Of two that begin at one time all nodes keep the same.
func (all raises) merge(others raises, now time.Time) raises {
	merged := raises{}
	for _, list := range []raises{all, others} {
		for key, r := range list {
			if have, ok := merged[key]; now.Before(r.Again) && (!ok || r.newer(&have)) {
				merged[key] = r
			}
		}
	}
	return merged
}

func (r *Raise) newer(o *Raise) bool {
	return cmp.Or(r.From.Compare(o.From), r.Until.Compare(o.Until), r.Again.Compare(o.Again), cmp.Compare(r.By, o.By),
		strings.Compare(r.Rule, o.Rule), strings.Compare(r.Node, o.Node)) > 0
}

// within leaves out the latest of more than MaxKeys.
func (all raises) within() raises {
	if len(all) <= MaxKeys {
		return all
	}
	kept := raises{}
	for _, r := range all.sorted()[:MaxKeys] {
		kept[r.Key] = r
	}
	return kept
}

// sorted returns all, the oldest first.
func (all raises) sorted() []Raise {
	return slices.SortedFunc(maps.Values(all), func(a, b Raise) int {
		return cmp.Or(a.From.Compare(b.From), strings.Compare(a.Rule, b.Rule), slices.Compare(a.Key[:], b.Key[:]))
	})
}

// text is what the register holds.
type text struct {
	Format int     `json:"format"`
	Raises []entry `json:"raises"`
}

type entry struct {
	Key   string `json:"key"`
	Rule  string `json:"rule"`
	By    int    `json:"by"`
	From  int64  `json:"from_ms"`
	Until int64  `json:"until_ms"`
	Again int64  `json:"again_ms"`
	Node  string `json:"node"`
}

func (all raises) encode() ([]byte, error) {
	t := text{Format: format, Raises: []entry{}}
	for _, r := range all.sorted() {
		t.Raises = append(t.Raises, entry{hex.EncodeToString(r.Key[:]), r.Rule, r.By, r.From.UnixMilli(), r.Until.UnixMilli(), r.Again.UnixMilli(), r.Node})
	}
	return json.Marshal(t)
}

// decode reads a text. Nothing of one that is not whole counts.
func decode(data []byte, now time.Time) (raises, error) {
	if len(data) > store.MaxRegister {
		return nil, fmt.Errorf("%d bytes; hint: at most %d", len(data), store.MaxRegister)
	}
	var t text
	if err := strictjson.Decode(data, &t); err != nil {
		return nil, err
	}
	if t.Format != format {
		return nil, fmt.Errorf("format %d is not known; hint: another version of Headgate has written it", t.Format)
	}
	if len(t.Raises) > MaxKeys {
		return nil, fmt.Errorf("%d of them; hint: at most %d", len(t.Raises), MaxKeys)
	}
	all := raises{}
	for i := range t.Raises {
		r, err := t.Raises[i].raise()
		if err != nil {
			return nil, fmt.Errorf("raise %d: %w", i, err)
		}
		if r.From.Before(now.Add(maxAhead)) {
			all[r.Key] = r
		}
	}
	return all, nil
}

var errEntry = errors.New("it is none that a node would write")

func (e *entry) raise() (Raise, error) {
	r := Raise{
		Rule: e.Rule, By: e.By, Node: e.Node,
		From: time.UnixMilli(e.From).UTC(), Until: time.UnixMilli(e.Until).UTC(), Again: time.UnixMilli(e.Again).UTC(),
	}
	n, err := hex.Decode(r.Key[:], []byte(e.Key[:min(len(e.Key), 2*len(r.Key))]))
	lasts, rests := r.Until.Sub(r.From), r.Again.Sub(r.Until)
	if err != nil || n != len(r.Key) || len(e.Key) != 2*n || e.Rule == "" || len(e.Rule) > maxRule || len(e.Node) > maxNode || e.By < 1 || e.By > rules.MaxRaise ||
		lasts < rules.MinHotRaise || lasts > rules.MaxHotRaise || rests < rules.MinHotRaise || rests > rules.MaxHotRaise {
		return r, errEntry
	}
	return r, nil
}

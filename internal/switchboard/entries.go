package switchboard

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate/internal/strictjson"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/switches"
	"github.com/headgate/headgate/tenant/sqltenant"
)

const (
	// format is that of texts which are written now.
	format = 1
	// maxName and maxActor bound the name and the actor of an entry, in bytes.
	maxName, maxActor = 600, 256
	// clearedFor is how long it is remembered that a switch was cleared. A node that
	// comes back after a longer time switches again what was cleared meanwhile.
	clearedFor = 90 * 24 * time.Hour
)

// entry is what was last said of one target: a switch, or that there is none.
type entry struct {
	Name string `json:"name"`
	// Text is the switch as JSON, "" where it was cleared.
	Text string `json:"text,omitempty"`
	// Version orders what was said of a target: the time at which it was said, in
	// microseconds, or more. From 1 to store.MaxRegisterVersion.
	Version   int64  `json:"version"`
	UpdatedAt int64  `json:"updated_at_us"`
	UpdatedBy string `json:"updated_by"`
}

// entries are what was last said, by name. Copies of them on nodes and in the store are
// merged: of each target the newest counts.
type entries map[string]entry

// document is e as the admin API and the command line show it.
func (e *entry) document() sqltenant.Document {
	d := sqltenant.Document{Kind: sqltenant.SwitchDocument, Name: e.Name}
	if e.Text != "" {
		d.Text, d.Version, d.UpdatedAt, d.UpdatedBy = e.Text, e.Version, time.UnixMicro(e.UpdatedAt).UTC(), e.UpdatedBy
	}
	return d
}

// documents returns the switches, in the order of their names.
func (all entries) documents() []sqltenant.Document {
	list := []sqltenant.Document{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if e := all[name]; e.Text != "" {
			list = append(list, e.document())
		}
	}
	return list
}

// version is the newest of all.
func (all entries) version() (newest int64) {
	for _, e := range all {
		newest = max(newest, e.Version)
	}
	return newest
}

// newer reports whether e counts before o. Two of one version, which writers of two
// copies may have made, are told apart by what they say, so that all copies agree.
func (e *entry) newer(o *entry) bool {
	return cmp.Or(cmp.Compare(e.Version, o.Version), strings.Compare(e.Text, o.Text), strings.Compare(e.UpdatedBy, o.UpdatedBy),
		cmp.Compare(e.UpdatedAt, o.UpdatedAt)) > 0
}

// merge returns what two copies say together.
func merge(a, b entries) entries {
	all := maps.Clone(a)
	if all == nil {
		all = entries{}
	}
	for name, e := range b {
		if have, ok := all[name]; !ok || e.newer(&have) {
			all[name] = e
		}
	}
	return all
}

// text is one copy as it is kept.
type text struct {
	Format  int     `json:"format"`
	Entries []entry `json:"entries"`
}

// encode returns all as text, without what was cleared long before now. Of what was cleared
// the oldest is left out, too, where there is no room; the error says that there is none
// even so.
func (all entries) encode(now time.Time) ([]byte, error) {
	var kept []entry
	var cleared []entry
	for _, e := range all {
		switch {
		case e.Text != "":
			kept = append(kept, e)
		case now.Sub(time.UnixMicro(e.UpdatedAt)) < clearedFor:
			cleared = append(cleared, e)
		}
	}
	if len(kept) > switches.MaxSwitches {
		return nil, fmt.Errorf("%w: %d switches; hint: at most %d; clear some", sqltenant.ErrInvalid, len(kept), switches.MaxSwitches)
	}
	slices.SortFunc(cleared, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.Version, a.Version), strings.Compare(a.Name, b.Name))
	})
	cleared = cleared[:min(len(cleared), switches.MaxSwitches)]
	for {
		list := append(kept[:len(kept):len(kept)], cleared...)
		slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.Name, b.Name) })
		data, err := json.Marshal(text{format, list})
		switch {
		case err != nil:
			return nil, err
		case len(data) <= store.MaxRegister:
			return data, nil
		case len(cleared) == 0:
			return nil, fmt.Errorf("%w: switches of %d bytes; hint: the store keeps %d of them: clear some, name fewer tenants, or keep them in a database (--tenants)",
				sqltenant.ErrInvalid, len(data), store.MaxRegister)
		}
		cleared = cleared[:len(cleared)/2]
	}
}

// decode reads a text. One that is not whole is refused: a switch that is missing in it
// would be taken for one that there never was.
func decode(data []byte) (entries, error) {
	if len(data) > store.MaxRegister {
		return nil, fmt.Errorf("switches of %d bytes; hint: at most %d", len(data), store.MaxRegister)
	}
	var t text
	if err := strictjson.Decode(data, &t); err != nil {
		return nil, err
	}
	if t.Format != format {
		return nil, fmt.Errorf("format %d of switches is not known; hint: another version of Headgate has written it", t.Format)
	}
	if len(t.Entries) > 2*switches.MaxSwitches {
		return nil, fmt.Errorf("%d switches; hint: at most %d", len(t.Entries), switches.MaxSwitches)
	}
	all := make(entries, len(t.Entries))
	for _, e := range t.Entries {
		if _, twice := all[e.Name]; twice {
			return nil, fmt.Errorf("switch %.80q is there twice", e.Name)
		}
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("switch %.80q: %w", e.Name, err)
		}
		all[e.Name] = e
	}
	return all, nil
}

// lastInstant is the end of what RFC 3339 can show.
var lastInstant = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

func (e *entry) check() error {
	switch {
	case e.Name == "" || len(e.Name) > maxName || !utf8.ValidString(e.Name):
		return fmt.Errorf("its name is none of 1 to %d bytes", maxName)
	case e.Version < 1 || e.Version > store.MaxRegisterVersion:
		return fmt.Errorf("version %d is none", e.Version)
	case e.UpdatedAt < 0 || e.UpdatedAt >= lastInstant:
		return errors.New("the time at which it was changed is none")
	case len(e.UpdatedBy) > maxActor:
		return fmt.Errorf("a name of more than %d bytes", maxActor)
	case len(e.Text) > switches.MaxDocument:
		return fmt.Errorf("more than %d bytes", switches.MaxDocument)
	}
	return nil
}

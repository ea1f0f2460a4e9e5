package drill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Fault is what is rehearsed.
type Fault string

// String returns the word of f.
func (f Fault) String() string { return string(f) }

// The faults that a node can rehearse at its own door to what it leans on.
const (
	// StoreDown: connections to a store are refused, and those that there are break.
	StoreDown Fault = "store-down"
	// StoreSlow: each exchange with a store takes longer.
	StoreSlow Fault = "store-slow"
	// ShardDown: StoreDown for one server of a store.
	ShardDown Fault = "shard-down"
	// DatabaseDown: StoreDown for the database of tenants.
	DatabaseDown Fault = "database-down"
	// BrokerDown: StoreDown for the brokers that events go to.
	BrokerDown Fault = "broker-down"
	// RegionCut: StoreDown for the homes of rules that are leased over regions.
	RegionCut Fault = "region-cut"
	// ClockSkew: the wall clock by which a node decides is ahead or behind.
	ClockSkew Fault = "clock-skew"
)

// Faults are all of them, in the order in which people read them.
func Faults() []Fault {
	return []Fault{StoreDown, StoreSlow, ShardDown, DatabaseDown, BrokerDown, RegionCut, ClockSkew}
}

// Bounds of an Order.
const (
	// MinLasts and MaxLasts bound how long a drill lasts; DefaultLasts is what is taken
	// where nothing is said.
	MinLasts, MaxLasts, DefaultLasts = time.Second, time.Hour, 5 * time.Minute
	// MaxDelay bounds the extra time of StoreSlow, DefaultDelay is what is taken where
	// nothing is said.
	MaxDelay, DefaultDelay = 10 * time.Second, 50 * time.Millisecond
	// MaxSkew bounds by how much a clock of ClockSkew is ahead or behind, DefaultSkew is what
	// is taken where nothing is said.
	MaxSkew, DefaultSkew = 366 * 24 * time.Hour, 30 * time.Second
	// DefaultAbortAbove is the share of errors above which a drill ends by itself.
	DefaultAbortAbove = 0.01
	// MaxReason, MaxActor and MaxName bound texts, in bytes.
	MaxReason, MaxActor, MaxName = 500, 256, 256
	// MaxOrder bounds an order as JSON, in bytes.
	MaxOrder = 8 << 10
)

// Order asks the nodes of a fleet for a drill. Valid says whether it can be.
type Order struct {
	// ID tells drills apart: 1 to MaxName bytes.
	ID    string `json:"id"`
	Fault Fault  `json:"fault"`
	// Store is the name of the store that the fault is of, "" for all.
	Store string `json:"store,omitempty"`
	// Shard is the address of the server of ShardDown, "" for other faults.
	Shard string `json:"shard,omitempty"`
	// DelayMS is the extra time of StoreSlow in milliseconds, 0 for other faults.
	DelayMS int64 `json:"delay_ms,omitempty"`
	// SkewMS is by how much the clock of ClockSkew is ahead, in milliseconds; a negative one
	// is behind. 0 for other faults.
	SkewMS int64 `json:"skew_ms,omitempty"`
	// Node is the name of the node that ClockSkew is of, "" for all, and for other faults.
	Node string `json:"node,omitempty"`
	// LastsMS is how long it lasts, in milliseconds.
	LastsMS int64 `json:"lasts_ms"`
	// AbortAbove is the share of errors above which the nodes end it, from 0 to 1. At 1
	// none does.
	AbortAbove float64 `json:"abort_above"`
	Reason     string  `json:"reason,omitempty"`
	// Actor is who has ordered it, at BeganAt by the clock of his admin process.
	Actor   string    `json:"actor"`
	BeganAt time.Time `json:"began_at"`
	// Ended says that it is over; nil while it is not.
	Ended *Ending `json:"ended,omitempty"`
}

// Ending is how a drill has ended.
type Ending struct {
	Why Why `json:"why"`
	// By is who has ended it: an operator, or a node.
	By string    `json:"by"`
	At time.Time `json:"at"`
	// Detail is for people; "" has none.
	Detail string `json:"detail,omitempty"`
}

// Why is the reason for which a drill ends.
type Why string

// The reasons.
const (
	// Expired: its time is over.
	Expired Why = "expired"
	// Stopped: an operator has ended it.
	Stopped Why = "stopped"
	// Aborted: decisions failed.
	Aborted Why = "aborted"
	// Lost: the store has lost the order. A node that had it has put it back with this end.
	Lost Why = "lost"
	// Leaving: the process ends. The drill goes on elsewhere.
	Leaving Why = "leaving"
)

// ErrUnderWay is the error of a drill that is ordered while another one lasts.
var ErrUnderWay = errors.New("a drill is under way")

// FieldError is a field of an Order that cannot be.
type FieldError struct{ Field, Problem string }

// Error implements error.
func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

func wrong(field, format string, args ...any) error {
	return &FieldError{field, fmt.Sprintf(format, args...)}
}

// Lasts is LastsMS as a duration.
func (o *Order) Lasts() time.Duration { return time.Duration(o.LastsMS) * time.Millisecond }

// Delay is DelayMS as a duration.
func (o *Order) Delay() time.Duration { return time.Duration(o.DelayMS) * time.Millisecond }

// Skew is SkewMS as a duration.
func (o *Order) Skew() time.Duration { return time.Duration(o.SkewMS) * time.Millisecond }

// Until is when it ends by itself, by the clock of who has ordered it.
func (o *Order) Until() time.Time { return o.BeganAt.Add(o.Lasts()) }

// UnderWay reports whether o lasts at now, by the clock that BeganAt is of.
func (o *Order) UnderWay(now time.Time) bool {
	return o != nil && o.Ended == nil && now.Before(o.Until())
}

// OfStores reports whether f is of stores, of which one may be named.
func (f Fault) OfStores() bool {
	return f == StoreDown || f == StoreSlow || f == ShardDown || f == RegionCut
}

// Aim is the field that says most closely what the fault of o is of.
func (o *Order) Aim() string {
	switch {
	case o.Shard != "":
		return "shard"
	case o.Store != "":
		return "store"
	case o.Node != "":
		return "node"
	}
	return "fault"
}

// Valid returns what cannot be of o, a *FieldError.
func (o *Order) Valid() error {
	lasts, delay, mostSkew := o.Lasts(), o.Delay(), MaxSkew.Milliseconds()
	switch {
	case o.ID == "" || !line(o.ID, MaxName):
		return wrong("id", "none of 1 to %d bytes", MaxName)
	case !slices.Contains(Faults(), o.Fault):
		return wrong("fault", "%.40q is none; hint: one of %v", string(o.Fault), Faults())
	case !line(o.Store, MaxName):
		return wrong("store", "no name of a store; hint: as --stores calls it")
	case o.Store != "" && !o.Fault.OfStores():
		return wrong("store", "%s is of no store; hint: leave it out", o.Fault)
	case !line(o.Shard, MaxName):
		return wrong("shard", "no address of a server")
	case (o.Shard == "") == (o.Fault == ShardDown):
		return wrong("shard", "the address of a server, for %s and for nothing else; hint: as headgate top shows it", ShardDown)
	case o.LastsMS < MinLasts.Milliseconds() || o.LastsMS > MaxLasts.Milliseconds():
		return wrong("lasts_ms", "%v; hint: from %v to %v", lasts, MinLasts, MaxLasts)
	case o.Fault == StoreSlow && (o.DelayMS < 1 || o.DelayMS > MaxDelay.Milliseconds()):
		return wrong("delay_ms", "%v; hint: from 1ms to %v", delay, MaxDelay)
	case o.Fault != StoreSlow && o.DelayMS != 0:
		return wrong("delay_ms", "%s has no delay; hint: leave it out", o.Fault)
	case o.Fault == ClockSkew && (o.SkewMS == 0 || o.SkewMS < -mostSkew || o.SkewMS > mostSkew):
		return wrong("skew_ms", "%v; hint: up to %v ahead, or negative for behind", o.Skew(), MaxSkew)
	case o.Fault != ClockSkew && o.SkewMS != 0:
		return wrong("skew_ms", "%s sets no clock; hint: leave it out", o.Fault)
	case !line(o.Node, MaxName):
		return wrong("node", "no name of a node")
	case o.Fault != ClockSkew && o.Node != "":
		return wrong("node", "%s is of all nodes; hint: leave it out", o.Fault)
	case !(o.AbortAbove >= 0 && o.AbortAbove <= 1):
		return wrong("abort_above", "%v; hint: a share from 0 to 1, such as 0.01", o.AbortAbove)
	case !line(o.Reason, MaxReason):
		return wrong("reason", "not one line of text of %d bytes at most", MaxReason)
	case o.Actor == "" || !line(o.Actor, MaxActor):
		return wrong("actor", "not one line of text of 1 to %d bytes", MaxActor)
	case o.BeganAt.IsZero():
		return wrong("began_at", "no time")
	}
	return o.Ended.valid()
}

func (e *Ending) valid() error {
	switch {
	case e == nil:
		return nil
	case !slices.Contains([]Why{Expired, Stopped, Aborted, Lost}, e.Why):
		return wrong("ended.why", "%.40q is no reason of the end of all", string(e.Why))
	case !line(e.By, MaxActor) || !line(e.Detail, MaxReason):
		return wrong("ended", "not one line of text")
	}
	return nil
}

// line reports whether text is one printable line of at most that many bytes.
func line(text string, most int) bool {
	return len(text) <= most && utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// ParseOrder reads an order that is kept as JSON.
func ParseOrder(data []byte) (*Order, error) {
	if len(data) > MaxOrder {
		return nil, errors.New("an order of a drill that is too long")
	}
	o := new(Order)
	read := json.NewDecoder(bytes.NewReader(data))
	read.DisallowUnknownFields() // what a newer version means by them is not known
	if err := read.Decode(o); err != nil {
		return nil, fmt.Errorf("an order of a drill: %w", err)
	}
	if err := o.Valid(); err != nil {
		return nil, fmt.Errorf("an order of a drill: %w", err)
	}
	return o, nil
}

// SkewText says by how much a clock is wrong, such as "30s ahead".
func SkewText(skew time.Duration) string {
	if skew < 0 {
		return (-skew).String() + " behind"
	}
	return skew.String() + " ahead"
}

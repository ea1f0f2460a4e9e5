package costlimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/answercost"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/internal/ascii"
	"github.com/headgate/headgate/reservation"
)

// Keys of the entries of a descriptor.
const (
	// BudgetKey names the budget: answercost.Total or the name of a count.
	BudgetKey = "tokens"
	// ModelKey names the model.
	ModelKey = "model"
	// OtherModel is the model of requests that name none, or none of Options.Models.
	OtherModel = "other"
)

// Defaults and bounds of Options.
const (
	// DefaultMaxRequest is room for the longest question of most models as text.
	DefaultMaxRequest = 4 << 20
	// DefaultMaxKept bounds the memory for requests under way.
	DefaultMaxKept = 256 << 20
	// DefaultTTL is longer than nearly all answers take.
	DefaultTTL = 15 * time.Minute
	// DefaultCommitTimeout bounds one commit, and so how much later an answer ends.
	DefaultCommitTimeout = 100 * time.Millisecond
	// MaxModels bounds Options.Models.
	MaxModels = 1000
	// maxModel bounds the name of a model in bytes; a longer one is OtherModel.
	maxModel = 128
)

// Reserver reserves costs and commits them. A headgate.Limiter is one, and so are a
// headgate.Door and a client.Checker.
type Reserver interface {
	httplimit.Checker
	Reserve(ctx context.Context, req *headgate.Request, o reservation.Options, resp *headgate.Response) (reservation.Reservation, error)
	Commit(ctx context.Context, r reservation.Reservation, a reservation.Actual, resp *headgate.Response) (reservation.Outcome, error)
	Cancel(ctx context.Context, r reservation.Reservation, resp *headgate.Response) (reservation.Outcome, error)
}

var (
	_ Reserver = (*headgate.Limiter)(nil)
	_ Reserver = (*headgate.Door)(nil)
)

// Options configures a Middleware. Shape is required; the zero value of the rest is usable.
type Options struct {
	// Limits says who asks, what clients are told, and all else that is so for requests.
	// Its Hits, Limits and Refund stay unset: they are what this package is for. Two
	// descriptors of Identify that make the same bucket are charged each.
	Limits httplimit.Options
	// Shape knows where requests and answers tell what they cost.
	Shape *answercost.Shape
	// Budgets are what is counted, by names that Shape has: each is a descriptor. nil
	// means answercost.Total.
	Budgets []string
	// Models are the models that are told apart, at most MaxModels; all others are
	// OtherModel. nil tells apart what requests name, which clients may invent: then
	// have a limit without the model as well.
	Models []string
	// Applies says which requests cost something; nil means those with a body. Others
	// pass uncounted.
	Applies func(*http.Request) bool
	// MaxRequest bounds the body of a request in bytes, which is read before it is
	// decided; 0 means DefaultMaxRequest. A longer one is answered with 413.
	MaxRequest int64
	// MaxKept bounds the bodies of all requests under way in bytes; 0 means
	// DefaultMaxKept. One more is answered with 503.
	MaxKept int64
	// TTL is how long an answer may take to be settled by its reservation, from
	// reservation.MinTTL to reservation.MaxTTL; 0 means DefaultTTL. What a longer one
	// has used beyond its estimate is charged, and what it has not is not given back.
	TTL time.Duration
	// CommitTimeout bounds one commit at the end of an answer; 0 means
	// DefaultCommitTimeout. When that is not enough it is tried again in the background.
	CommitTimeout time.Duration
}

// withDefaults returns o in whole, or what is wrong with it.
func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Shape == nil:
		return o, errors.New("no Shape; hint: answercost.New(answercost.Options{Counts: answercost.OpenAI()})")
	case o.Limits.Hits != nil || o.Limits.Refund != nil || len(o.Limits.Limits) > 0:
		return o, errors.New("options with Limits.Hits, Limits.Limits or Limits.Refund; hint: the cost comes from the answer and the limits from rules")
	case o.MaxRequest < 0 || o.MaxKept < 0 || o.CommitTimeout < 0:
		return o, errors.New("a bound below 0; hint: 0 is the default")
	case len(o.Models) > MaxModels:
		return o, fmt.Errorf("%d models; hint: at most %d", len(o.Models), MaxModels)
	}
	if len(o.Budgets) == 0 {
		o.Budgets = []string{answercost.Total}
	}
	for i, name := range o.Budgets {
		if !o.Shape.Has(name) || slices.Contains(o.Budgets[:i], name) {
			return o, fmt.Errorf("budget %.40q is unknown, or there twice; hint: there are %q", name, o.Shape.Names())
		}
	}
	for _, m := range o.Models {
		if !isModel(m) {
			return o, fmt.Errorf("model %.40q is no name; hint: 1 to %d characters without spaces", m, maxModel)
		}
	}
	if o.Limits.Identify == nil {
		o.Limits.Identify = httplimit.RemoteAddress
	}
	for _, d := range []struct {
		of    *int64
		usual int64
	}{{&o.MaxRequest, DefaultMaxRequest}, {&o.MaxKept, DefaultMaxKept}} {
		*d.of = cmp.Or(*d.of, d.usual)
	}
	o.CommitTimeout = cmp.Or(o.CommitTimeout, DefaultCommitTimeout)
	o.TTL = cmp.Or(o.TTL, DefaultTTL)
	ttl := reservation.Options{TTL: o.TTL}
	return o, ttl.Validate()
}

// isModel reports whether a text may stand for a model in a descriptor.
func isModel(name string) bool {
	return name != "" && len(name) <= maxModel && ascii.IsVisible(name)
}

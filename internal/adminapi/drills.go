package adminapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/headgate/headgate/internal/drill"
	"github.com/headgate/headgate/internal/quotas"
	"github.com/headgate/headgate/internal/strictjson"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
	"github.com/headgate/headgate/trace"
)

// drills are the routes of drills.
type drills struct{ *Options }

// drillTimeout bounds how long the store is waited for.
const drillTimeout = 5 * time.Second

var errNoDrills = fail(http.StatusNotFound, "this process cannot tell other nodes of a drill; hint: a store of Redis or Valkey")

func (d drills) routes() []route {
	return []route{
		{
			method: http.MethodGet, path: "drill", scope: Read, local: true, serve: d.show, id: "getDrill", summary: "Show the drill that lasts, or the last one",
			answers: []reply{ok(drill.Whole{}, "The drill, with what each node reports and what all of them do."), notHere},
		},
		{
			method: http.MethodPost, path: "drill", scope: Admin, local: true, serve: d.begin, id: "beginDrill", summary: "Have all nodes rehearse a fault for a time",
			about: "Each node puts the fault at its own door to what it leans on, within a second or so; nothing beyond this fleet is touched. " +
				"It ends by itself, on every node by the clock of that node, and before that where decisions fail or somebody ends it.",
			body: &payload{kinds: jsonOnly, most: drill.MaxOrder, of: DrillBody{}, about: "The fault."},
			answers: []reply{
				created(drill.Whole{}, "The drill, of which the nodes are about to hear."), notHere, errorReply(http.StatusConflict, "A drill is under way, or the request of this Idempotency-Key is being done."),
			},
		},
		{
			method: http.MethodDelete, path: "drill", scope: Admin, local: true, serve: d.stop, id: "endDrill", summary: "End the drill that lasts",
			answers: []reply{deleted("The nodes take the fault away within two seconds."), errorReply(http.StatusNotFound, "No drill is under way, or this process cannot tell of one.")},
		},
	}
}

// DrillBody is what POST drill takes. For what is nil there is a usual value.
type DrillBody struct {
	Fault      drill.Fault `json:"fault"`
	Store      string      `json:"store,omitempty"`
	Shard      string      `json:"shard,omitempty"`
	DelayMS    *int64      `json:"delay_ms,omitempty"`
	SkewMS     *int64      `json:"skew_ms,omitempty"`
	Node       string      `json:"node,omitempty"`
	LastsMS    *int64      `json:"lasts_ms,omitempty"`
	AbortAbove *float64    `json:"abort_above,omitempty"`
	Reason     string      `json:"reason,omitempty"`
}

// order reads the body.
func (d drills) order(c *call) (*drill.Order, *problem) {
	var b DrillBody
	if err := strictjson.Decode(c.body, &b); err != nil {
		return nil, malformed(err)
	}
	delay, skew := time.Duration(0), time.Duration(0)
	switch b.Fault {
	case drill.StoreSlow:
		delay = drill.DefaultDelay
	case drill.ClockSkew:
		skew = drill.DefaultSkew
	}
	o := &drill.Order{
		ID: trace.NewDecisionID(c.now).String(), Fault: b.Fault, Store: b.Store, Shard: b.Shard, Node: b.Node,
		DelayMS: *cmp.Or(b.DelayMS, new(delay.Milliseconds())), SkewMS: *cmp.Or(b.SkewMS, new(skew.Milliseconds())),
		LastsMS: *cmp.Or(b.LastsMS, new(drill.DefaultLasts.Milliseconds())), AbortAbove: *cmp.Or(b.AbortAbove, new(drill.DefaultAbortAbove)),
		Reason: b.Reason, Actor: c.who.actor, BeganAt: time.Now().UTC(),
	}
	if hint := quotas.Deceptive(o.Reason); o.Reason != "" && hint != "" {
		return nil, badField(http.StatusUnprocessableEntity, "reason", "%s", hint)
	}
	if bad := impossible(o.Valid()); bad != nil {
		return nil, bad
	}
	return o, nil
}

// impossible is the answer to an order of which err says what cannot be, nil where it does not.
func impossible(err error) *problem {
	wrong, ok := errors.AsType[*drill.FieldError](err)
	if !ok {
		return nil
	}
	return badField(http.StatusUnprocessableEntity, wrong.Field, "%s", wrong.Problem)
}

// asked has do answer, which is told of the drill that lasts, or of the last one.
func (d drills) asked(c *call, do func(ctx context.Context, w drill.Whole) (*answer, error)) (*answer, error) {
	if d.Drills == nil {
		return nil, errNoDrills
	}
	ctx := c.within(drillTimeout)
	w, err := d.Drills.Show(ctx)
	if err != nil {
		return nil, d.failed(err)
	}
	return do(ctx, w)
}

// begin orders a drill.
func (d drills) begin(c *call) (*answer, error) {
	o, bad := d.order(c)
	if bad != nil {
		return nil, bad
	}
	return d.asked(c, func(ctx context.Context, w drill.Whole) (*answer, error) {
		if bad := impossible(d.Drills.Check(o)); bad != nil {
			return nil, bad
		}
		return d.beginOf(ctx, c, o, w)
	})
}

// beginOf orders o, unless w lasts. It is noted in the log of changes before that, where there
// is one.
func (d drills) beginOf(ctx context.Context, c *call, o *drill.Order, w drill.Whole) (*answer, error) {
	if w.UnderWay {
		return nil, underWay(drill.ErrUnderWay)
	}
	if d.Accounts != nil {
		if _, bad := d.reachAccounts(); bad != nil {
			return nil, bad
		}
		if err := d.note(ctx, c, "begin", o); err != nil {
			return nil, err
		}
	}
	switch err := d.Drills.Begin(ctx, o); {
	case errors.Is(err, drill.ErrUnderWay):
		return nil, underWay(err)
	case err != nil:
		return nil, d.failed(err)
	}
	return jsonAnswer(http.StatusCreated, drill.Sum(o, time.Now(), nil))
}

func underWay(err error) *problem {
	return fail(http.StatusConflict, "%v; hint: DELETE drill, or headgate drill stop, ends it", err)
}

// stop ends the drill that lasts. A log of changes that cannot be written is no reason to let
// it last: it may be the database that is away.
func (d drills) stop(c *call) (*answer, error) {
	return d.asked(c, func(ctx context.Context, w drill.Whole) (*answer, error) {
		stopped, err := d.Drills.Stop(ctx, c.who.actor)
		switch {
		case err != nil:
			return nil, d.failed(err)
		case !stopped:
			return nil, fail(http.StatusNotFound, "no drill is under way")
		}
		if c.db != nil && w.Order != nil {
			if err := d.note(ctx, c, "end", w.Order); err != nil {
				d.OnError(err)
			}
		}
		return gone(), nil
	})
}

// show answers with the drill that lasts, or with the last one.
func (d drills) show(c *call) (*answer, error) {
	return d.asked(c, func(_ context.Context, w drill.Whole) (*answer, error) { return jsonAnswer(http.StatusOK, w) })
}

// note puts what is done with o into the log of changes.
func (d drills) note(ctx context.Context, c *call, what string, o *drill.Order) error {
	text, err := json.Marshal(struct {
		Action string       `json:"action"`
		Drill  *drill.Order `json:"drill"`
	}{what + " drill", o})
	if err != nil {
		return err
	}
	return c.db.Note(ctx, sqltenant.Action{Actor: c.who.actor, At: c.now, Subject: tenant.Subject{Key: "drill", Value: string(o.Fault)}, Text: string(text)})
}

// failed is the error of the store that nodes hear of drills by.
func (d drills) failed(err error) error {
	d.OnError(err)
	return later(retryAfter, "the store does not answer, by which nodes hear of drills; hint: one that lasts ends when its time is over")
}

package app

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/adminapi"
	"github.com/headgate/headgate/internal/audit"
	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/drill"
	"github.com/headgate/headgate/internal/passage"
	"github.com/headgate/headgate/internal/rehearsal"
	"github.com/headgate/headgate/internal/telemetry"
	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore"
	"github.com/headgate/headgate/trace"
)

// drillBoard is the board on which nodes report of drills.
const drillBoard = "drill"

// drills has this process take part in drills. A nil one never does.
type drills struct {
	rider          *rehearsal.Rider
	begun, aborted atomic.Uint64
}

// watchDrills has this process hear of drills, and take part where it decides. Where there is
// a store that all share and that keeps no registers, nobody could be told of one; nor where
// nobody decides by the store.
func (p *process) watchDrills() {
	if p.does.Alone() || !p.counts() {
		return
	}
	main := &p.stack.backends[0]
	d := new(drills)
	o := rehearsal.Options{
		Node: p.watching.node.Name, ID: trace.NewDecisionID(time.Now()).String(), Logger: p.logger,
		OnBegin: func(o *drill.Order) { d.begun.Add(1); p.watching.drilled(o, nil) },
		OnEnd: func(o *drill.Order, e drill.Ending) {
			if e.Why == drill.Aborted {
				d.aborted.Add(1)
			}
			p.watching.drilled(o, &e)
		},
	}
	redis, shares := main.Store.(*redisstore.Store)
	switch {
	case shares:
		o.Line, o.Open = lineOf(redis), ownLine(main.url)
	case main.inMemory():
		o.Line = new(rehearsal.Alone)
	default:
		return
	}
	if p.does.Decide {
		o.Scene = &scene{stack: p.stack, database: &p.ways.database, broker: &p.ways.broker, process: p}
	}
	d.rider = rehearsal.New(o)
	p.administered = append(p.administered, func(o *adminapi.Options) { o.Drills = d.rider })
	p.observer.rest = append(p.observer.rest, d.rider)
	p.observer.panicked = d.rider.Panicked
	p.health.drill = d.now
	p.metrics.WatchDrills(d.counts)
	p.tasks = append(p.tasks, d.rider.Run)
}

// ways are those of this process to what is not a store.
type ways struct{ database, broker passage.Passage }

// line is a store by which nodes hear of drills and report.
type line struct {
	store.Register
	store.Board
}

func lineOf(s *redisstore.Store) line { return line{s, s.BoardOf(drillBoard)} }

// ownLine returns what opens a way of its own to the Redis of u.
func ownLine(u config.StoreURL) func(context.Context) (rehearsal.Line, func(), error) {
	return func(context.Context) (rehearsal.Line, func(), error) {
		o, err := redisstore.ParseURL(u.Reveal())
		if err != nil {
			return nil, nil, err
		}
		o.Budget, o.NoCoalescing, o.Remembered = time.Second, true, -1
		s, err := redisstore.New(o)
		if err != nil {
			return nil, nil, err
		}
		return lineOf(s), func() { _ = s.Close() }, nil // what it had to say is said
	}
}

// now is the drill that lasts, as operators see it; nil while none does.
func (d *drills) now() *view.Drill {
	o, here, left := d.rider.Now()
	if o == nil {
		return nil
	}
	return &view.Drill{
		ID: o.ID, Fault: string(o.Fault), Of: drilledOf(o), Actor: o.Actor, Reason: o.Reason, BeganAt: o.BeganAt, LeftMS: left.Milliseconds(), Here: here,
	}
}

func (d *drills) counts() telemetry.Drills {
	o, here, _ := d.rider.Now()
	return telemetry.Drills{UnderWay: o != nil, Here: here, Begun: d.begun.Load(), Aborted: d.aborted.Load()}
}

// drilledOf says what the fault of o is of.
func drilledOf(o *drill.Order) string {
	of := "all stores"
	switch {
	case o.Fault == drill.ClockSkew && o.Node != "":
		return "the clock of " + o.Node + ", " + drill.SkewText(o.Skew())
	case o.Fault == drill.ClockSkew:
		return "all clocks, " + drill.SkewText(o.Skew())
	case o.Fault == drill.DatabaseDown:
		return "the database"
	case o.Fault == drill.BrokerDown:
		return "the brokers of events"
	case o.Store != "":
		of = "store " + o.Store
	case o.Fault == drill.RegionCut:
		of = "all homes and regions"
	}
	switch o.Fault {
	case drill.ShardDown:
		return o.Shard + " of " + of
	case drill.StoreSlow:
		return of + ", " + o.Delay().String() + " more"
	}
	return of
}

// drilled makes an event of a drill that begins here or, with e, has ended.
func (w *watching) drilled(o *drill.Order, e *drill.Ending) {
	event := audit.Drill{Fault: string(o.Fault) + " of " + drilledOf(o), Until: o.Until(), Actor: o.Actor, Reason: o.Reason}
	if e != nil {
		event.Ended, event.Actor, event.Reason = true, e.By, string(e.Why)
		if e.Detail != "" {
			event.Reason += ", " + e.Detail
		}
	}
	w.events.Drilled(event)
}

// maxClockOffset is by how many seconds the clock of this process and that of a store may differ:
// beyond it the alert HeadgateClockDrift fires.
const maxClockOffset = 0.5

// scene is where faults are put on this node: the ways to what it leans on.
type scene struct {
	process          *process
	stack            *stack
	database, broker *passage.Passage
}

var (
	errNoServers  = errors.New("no store of this node has connections; hint: --store of Redis or Valkey, or --stores")
	errNoStores   = errors.New("no store of that name has connections on this node")
	errNoShard    = errors.New("no store of this node has a server of that address")
	errNoDatabase = errors.New("this node has no connections to a database; hint: PostgreSQL as --tenants")
	errNoBroker   = errors.New("this node sends events to no broker; hint: --audit-kafka")
	errOtherNode  = errors.New("the drill is of another node alone")
	errNoHomes    = errors.New("this node leases from no home of regions, and tells no other region; hint: --regions")
)

func all(string) bool { return true }

// Check implements rehearsal.Scene.
func (s *scene) Check(o *drill.Order) error {
	_, err := s.cutOf(o)
	return err
}

// Begin implements rehearsal.Scene.
func (s *scene) Begin(o *drill.Order) (closed int, err error) {
	cut, err := s.cutOf(o)
	if err != nil {
		return 0, err
	}
	switch o.Fault {
	case drill.DatabaseDown:
		return s.database.Cut(cut), nil
	case drill.BrokerDown:
		return s.broker.Cut(cut), nil
	case drill.ClockSkew:
		s.stack.setClock(o.Skew())
		return 0, nil
	}
	for _, way := range s.waysOf(o) {
		if o.Fault == drill.StoreSlow {
			way.Slow(o.Delay())
			continue
		}
		closed += way.Cut(cut)
	}
	return closed, nil
}

// waysOf are those to the stores of o, which have connections.
func (s *scene) waysOf(o *drill.Order) (list []*passage.Passage) {
	for i := range s.stack.backends {
		b := &s.stack.backends[i]
		if b.way != nil && (o.Store == "" || o.Store == b.name) && (o.Fault != drill.RegionCut || s.stack.regions.away(b.name)) {
			list = append(list, b.way)
		}
	}
	return list
}

// cutOf returns which addresses o cuts, or why there are none.
func (s *scene) cutOf(o *drill.Order) (func(string) bool, error) {
	switch {
	case o.Fault == drill.DatabaseDown && !strings.HasPrefix(s.process.settings.Tenants.Reveal(), "postgres"): // or postgresql
		return nil, errNoDatabase
	case o.Fault == drill.BrokerDown && s.process.settings.AuditKafka == (config.StoreURL{}):
		return nil, errNoBroker
	case o.Node != "" && o.Node != s.process.watching.node.Name:
		return nil, errOtherNode
	case !o.Fault.OfStores():
		return all, nil
	case o.Fault == drill.RegionCut && len(s.stack.regions.homes) == 0 && s.stack.regions.shared == nil:
		return nil, errNoHomes
	case len(s.waysOf(o)) == 0 && o.Store == "":
		return nil, errNoServers
	case len(s.waysOf(o)) == 0:
		return nil, errNoStores
	case o.Fault != drill.ShardDown:
		return all, nil
	}
	for _, shard := range s.stack.shards() {
		if shard.Addr == o.Shard && (o.Store == "" || o.Store == shard.Store) {
			return func(addr string) bool { return addr == o.Shard }, nil
		}
	}
	return nil, errNoShard
}

// End implements rehearsal.Scene.
func (s *scene) End() {
	for i := range s.stack.backends {
		if way := s.stack.backends[i].way; way != nil {
			way.Open()
		}
	}
	s.database.Open()
	s.broker.Open()
	s.stack.setClock(0)
}

// setClock puts the wall clock by which this process decides ahead of that of the machine. What is
// measured by clocks that part holds no longer, as where a clock is set by somebody else.
func (k *stack) setClock(ahead time.Duration) {
	if k.wall.Ahead() == ahead {
		return
	}
	k.wall.Set(ahead)
	for _, l := range k.leases {
		l.DropLeases()
	}
	for _, home := range k.regions.homes {
		home.Store.DropRights()
	}
}

// Away implements rehearsal.Scene.
func (s *scene) Away() map[string]bool {
	away := map[string]bool{}
	for _, shard := range s.stack.shards() {
		away[fmt.Sprintf("store %s %s", shard.Store, shard.Addr)] = !shard.Connected || breakerNames[shard.Breaker] == "open"
	}
	if r := s.process.health.tenants.Report(); r != nil && s.process.settings.Tenants != (config.DatabaseURL{}) {
		away["database"] = !r.OK
	}
	for _, server := range s.process.servers.told() {
		if server.Reachable {
			away[fmt.Sprintf("clock, beside store %s %s", server.Store, server.Addr)] = math.Abs(server.ClockOffset)-server.ClockError > maxClockOffset
		}
	}
	for _, sink := range s.process.watching.events.Stats().Sinks {
		away["events "+sink.Name] = sink.Error != ""
	}
	return away
}

package rls

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/callers"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/memstore"
	"github.com/headgate/headgate/store/redisstore"
)

const roundRules = `
domain: d
match: leaf
descriptors:
- {key: user, rate_limit: {name: user, unit: year, requests_per_unit: 4, algorithm: fixed_window}}
- {key: closed, failure_mode: closed, rate_limit: {unit: year, requests_per_unit: 4, algorithm: fixed_window}}
- {key: free, unlimited: true}
`

const roundGuards = `
domain: guards
descriptors:
- {key: user, rate_limit: {unit: year, requests_per_unit: 2, algorithm: fixed_window}, ban: {after: 2, within: 24h, for: 24h}}
- {key: slot, concurrency: {limit: 1, timeout: 24h, hold: id}}
`

// plagued is a store that fails for some keys, and panics for batches with others.
type plagued struct{ store.Store }

func (p plagued) Take(ctx context.Context, takes []store.Take, results []store.Result) {
	for i := range takes {
		if bytes.Contains(takes[i].Key, []byte("poison")) {
			panic("a bug")
		}
	}
	p.Store.Take(ctx, takes, results)
	for i := range takes {
		if bytes.Contains(takes[i].Key, []byte("away")) {
			results[i] = store.Result{Err: &store.Error{Op: "take", Store: "plagued", Reason: store.Unavailable, Err: errors.New("away")}}
		}
	}
}

// sent is one call: its message, what comes with it, and how long it has.
type sent struct {
	text    string
	message []byte
	md      fieldsOf
	left    time.Duration
}

type fieldsOf map[string][]string

func (f fieldsOf) Values(name string) []string { return f[name] }

// told is what a call is answered.
type told struct {
	code    string
	message string
	answer  []byte
}

// doorService returns a service over s by these rules, whose callers have the rights of the
// token that they show: "all" or another.
func doorService(t rapid.TB, s store.Store, now func() time.Time) *service {
	t.Helper()
	set, err := rulefile.Load([]rulefile.File{{Name: "d.yaml", Data: []byte(roundRules)}, {Name: "guards.yaml", Data: []byte(roundGuards)}}, rulefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := headgate.New(headgate.Options{Store: s, Rules: set, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	rights := headgate.Rights{Check: true, Reserve: true}
	few := l.Door(headgate.DoorOptions{Rights: rights})
	rights.GiveBack, rights.NameLimits = true, true
	all := l.Door(headgate.DoorOptions{Rights: rights})
	return newService(Options{Checker: few, Now: now, Headers: envoyHeaders, OnPanic: func(any, []byte) {}, Admit: func(from Caller) (Checker, error) {
		switch token := from.values(ownToken); {
		case len(token) == 0:
			return few, nil
		case token[0] == "all":
			return all, nil
		}
		return nil, &callers.Refused{What: "unknown"}
	}})
}

// together answers calls in one round.
func together(s *service, batch []sent) []told {
	r := rounds.Get().(*round)
	r.service, r.ctx, r.now = s, context.Background(), time.Now()
	all := make([]told, len(batch))
	var once sync.Map
	r.answered = func(done []*call) {
		for _, c := range done {
			i := c.index
			if _, twice := once.LoadOrStore(i, true); twice {
				panic("a call was answered twice")
			}
			all[i] = toldOf(c.err)
			if c.err == nil {
				all[i].answer = c.answer.append(nil)
			}
		}
	}
	for _, c := range batch {
		var deadline time.Time
		if c.left > 0 {
			deadline = r.now.Add(c.left)
		}
		r.add(c.message, Caller{ctx: r.ctx, fields: c.md}, deadline)
	}
	r.decide()
	r.release()
	return all
}

func toldOf(err error) told {
	return told{code: status.Code(err).String(), message: status.Convert(err).Message()}
}

// alone answers one call as gRPC does.
func alone(s *service, c sent) told {
	ctx := metadata.NewIncomingContext(context.Background(), metadata.MD(c.md))
	resp := newCodec()
	answered, err := handle(s, ctx, func(v any) error {
		err := v.(*call).message.decode(c.message, string(c.message))
		if err != nil {
			err = status.Errorf(13, "grpc: failed to unmarshal the received message: %v", err)
		}
		return err
	}, nil)
	one := toldOf(err)
	if err == nil {
		data, err := resp.Marshal(answered)
		if err != nil {
			panic(err)
		}
		one.answer = data.Materialize()
		data.Free()
	}
	return one
}

// sentGen draws calls; asked are the guarded users of the round. Buckets are shared by those alone
// that are decided in one group, because the order of groups is not fixed.
func sentGen(t *rapid.T, p parser, asked map[string]bool, unique func() int) sent {
	c := sent{md: fieldsOf{}, left: rapid.SampledFrom([]time.Duration{0, time.Hour, 90 * time.Minute, 5 * time.Hour}).Draw(t, "left")}
	token := rapid.SampledFrom([]string{"", "", "all", "wrong"}).Draw(t, "token")
	if token != "" {
		c.md[ownToken] = []string{token}
	}
	group := fmt.Sprintf("%s%v", token, c.left)
	if c.left == 90*time.Minute {
		group = token + time.Hour.String()
	}
	user := group + rapid.SampledFrom([]string{"1", "2", "away", "poison"}).Draw(t, "user")
	switch kind := rapid.IntRange(0, 13).Draw(t, "kind"); kind {
	default:
		c.text = fmt.Sprintf("d: user=%s *%d", user, kind%3)
	case 4:
		c.text = "d: user=" + user + " -1"
	case 5:
		c.text = "d: closed=" + user + " | free=x | user=" + user
	case 6, 7:
		// A ban begins, and a slot is freed, when the answers of all are there: as for calls that
		// come at one time.
		if c.text = "d: free=x"; !asked[user] {
			c.text = map[int]string{6: "guards: user=" + user, 7: fmt.Sprintf("guards: slot=%s id=%d", user, unique())}[kind]
		}
		asked[user] = true
	case 8:
		c.text = "d: user=" + user + " @3/year"
	case 9:
		c.text = ": user=x"
	case 10:
		c.text = "d: =x"
	case 11:
		c.message = rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "bytes")
		return c
	case 12:
		c.text = fmt.Sprintf("d: user=once%d", unique())
		c.md[checkIDHeader] = []string{"1"}
	case 13:
		c.text = fmt.Sprintf("d: user=booked%d headgate_op=reserve headgate_id=1 headgate_estimate=2", unique())
	}
	c.message = p(c.text)
	return c
}

type parser func(text string) []byte

func parserOf(t *testing.T) parser {
	return func(text string) []byte {
		b, err := proto.Marshal(parseRequest(t, text))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

// TestRoundDecidesAsOneByOne: a round answers each of its calls as it is answered alone, whatever
// the others are: malformed, refused, of a store that fails or panics.
func TestRoundDecidesAsOneByOne(t *testing.T) {
	p := parserOf(t)
	rapid.Check(t, func(t *rapid.T) {
		now, number := noon, 0
		unique := func() int { number++; return number }
		memory := func() store.Store {
			m, err := memstore.New(memstore.Options{Now: func() limit.Micros { return limit.MicrosOf(now) }})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { m.Close() })
			return plagued{m}
		}
		clock := func() time.Time { return now }
		a, b := doorService(t, memory(), clock), doorService(t, memory(), clock)
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			batch, asked := make([]sent, rapid.IntRange(1, 20).Draw(t, "calls")), map[string]bool{}
			for i := range batch {
				batch[i] = sentGen(t, p, asked, unique)
			}
			got := together(a, batch)
			for i, c := range batch {
				compareTold(t, c, got[i], alone(b, c), false)
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "hours")) * time.Hour)
		}
	})
}

var resets = regexp.MustCompile(`reset=\d+`)

func compareTold(t rapid.TB, c sent, got, want told, anyReset bool) {
	t.Helper()
	same := bytes.Equal(got.answer, want.answer)
	var g, w rlsv3.RateLimitResponse
	if proto.Unmarshal(got.answer, &g) != nil || proto.Unmarshal(want.answer, &w) != nil {
		t.Fatalf("%s %v: malformed answer", c.text, c.md)
	}
	a, b := answerText(&g), answerText(&w)
	if anyReset {
		a, b = resets.ReplaceAllString(a, ""), resets.ReplaceAllString(b, "")
		same = a == b
	}
	if !same || got.code != want.code || got.message != want.message {
		t.Fatalf("%q %v, %v:\ntogether %s %q %s\nalone    %s %q %s", c.text, c.md, c.left, got.code, got.message, a, want.code, want.message, b)
	}
}

// TestRoundDecidesAsOneByOneInRedis is the same where a store waits.
func TestRoundDecidesAsOneByOneInRedis(t *testing.T) {
	p, server := parserOf(t), testserver.Redis(t, testserver.RedisConfig{})
	open := func(prefix string) store.Store {
		o, err := redisstore.ParseURL(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		o.Prefix, o.Budget = prefix, time.Minute
		s, err := redisstore.New(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return plagued{s}
	}
	inA, inB := open("a"), open("b")
	number := 0
	unique := func() int { number++; return number }
	rapid.Check(t, func(t *rapid.T) {
		server.MustDo("FLUSHALL")
		a, b := doorService(t, inA, time.Now), doorService(t, inB, time.Now)
		batch, asked := make([]sent, rapid.IntRange(1, 40).Draw(t, "calls")), map[string]bool{}
		for i := range batch {
			batch[i] = sentGen(t, p, asked, unique)
		}
		got := together(a, batch)
		for i, c := range batch {
			compareTold(t, c, got[i], alone(b, c), true)
		}
	})
}

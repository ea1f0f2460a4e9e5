package redisstore

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/resp"
	"github.com/headgate/headgate/store"
	"github.com/headgate/headgate/store/redisstore/conn"
)

//go:embed lua/import.lua
var luaImport string

// The form of the script's second argument, and of its names; import.lua has the words.
const (
	totalBytes = 56
	// recordBytes is the length of a take that says all.
	recordBytes = 17
	// heardSuffix is what the name of what was heard has after that of the bucket, before the
	// column: no other name is as long.
	heardSuffix = "heard"
	heardName   = len(heardSuffix) + len(store.Column{})
	// totalCost is what a total costs Redis in takes: it reads and writes one value more.
	totalCost = 2
	// maxCount is the largest count that the script tells apart.
	maxCount = 1<<53 - 1
)

// importScript is that of the takes, behind what finds out how many hits are new.
var importScript = newScript(func() string {
	prelude := strings.ReplaceAll(luaImport, "TOTAL_BYTES", strconv.Itoa(totalBytes))
	return sections().Replace(luaHead + prelude + luaTake)
})

var _ store.Importer = (*Store)(nil)

// Import implements store.Importer. Totals whose buckets have one tag share calls of one
// script; all calls are made side by side, within the budget.
func (s *Store) Import(ctx context.Context, totals []store.Total, results []store.Result) {
	deadline := conn.Within(ctx, s.options.Budget)
	byTag := map[int][]int{} // indexes of totals
	for i := range totals {
		tag := s.keyTag(totals[i].Key)
		byTag[tag] = append(byTag[tag], i)
	}
	var calls sync.WaitGroup
	for _, of := range byTag {
		for part := range slices.Chunk(of, maxKeys/totalCost) {
			calls.Go(func() { s.importCall(ctx, totals, results, part, deadline) })
		}
	}
	calls.Wait()
}

// importCall makes one call. If the keys lie on two servers, because their slot is being
// moved, or one of them belongs to another program, nothing was written, and it makes one for
// each total.
func (s *Store) importCall(ctx context.Context, totals []store.Total, results []store.Result, of []int, deadline time.Time) {
	hash := hashOf(totals[of[0]].Key)
	body := &importBody{prefix: s.prefix(hash), totals: totals, results: results, of: of, packs: s.packs.Load()}
	err := s.run(ctx, importScript, body, hash, deadline)
	switch {
	case err == nil:
	case len(of) > 1 && (errors.Is(err, conn.ErrApart) || conn.IsWrongType(err)):
		for i := range of {
			s.importCall(ctx, totals, results, of[i:i+1], deadline)
		}
	default:
		fault := s.faultOf("import", err)
		for _, i := range of {
			results[i] = store.Result{Err: fault}
		}
	}
}

// importBody is the body of a call that imports totals.
type importBody struct {
	prefix  string
	totals  []store.Total
	results []store.Result
	of      []int // which totals, and results
	takes   []store.Take
	request *request
	packs   bool // as in request
}

// encode implements body.
func (b *importBody) encode(h header) (keys, args []string) {
	b.takes = b.takes[:0]
	for _, at := range b.of {
		b.takes = append(b.takes, b.totals[at].Take(0))
	}
	if b.request == nil {
		b.request = requests.Get().(*request)
	}
	r := b.request
	r.packs = b.packs
	data, fields := r.encodeTotals(b, h)
	return r.cutTwo(len(b.prefix)+hashBytes, heardName, data, fields)
}

// encodeTotals writes the call into the buffer, and returns where the takes begin, and the totals.
func (r *request) encodeTotals(b *importBody, h header) (data, fields int) {
	r.buf = r.buf[:0]
	r.number(b.takes)
	r.plan(b.takes)
	for i := range r.keys {
		r.name(b.prefix, &r.keys[i].hash, "")
	}
	for i, at := range b.of {
		r.name(b.prefix, &r.keys[r.of[i]-1].hash, heardSuffix)
		r.buf = append(r.buf, b.totals[at].Column[:]...)
	}
	data = len(r.buf)
	r.header(h, b.takes)
	places := make([]int, len(r.ops))
	for i := range r.ops {
		r.write(b.takes, i, h.wall)
		places[i] = len(r.buf) - recordBytes - data + 1
	}
	fields = len(r.buf)
	for i, at := range b.of {
		t := &b.totals[at]
		r.int(int64(places[r.opOf[i]]))
		for _, c := range [...]store.Counts{t.Now, t.Heard} {
			r.int(min(max(c.Hits, 0), maxCount))
			r.int(min(max(c.Back, 0), maxCount))
			r.int(min(max(c.Resets, 0), maxCount))
		}
		r.int(min(max(t.Keep, 0), store.MaxKeepTotal).Microseconds())
	}
	return data, fields
}

// decode implements body: it fills the results.
func (b *importBody) decode(answer []resp.Message, number uint32) (head, error) {
	answers := make([]store.Result, len(b.takes))
	h, err := b.request.decode(answer, number, b.takes, answers)
	if err != nil || h.status != statusDecided {
		return h, err
	}
	for i, at := range b.of {
		b.results[at] = answers[i]
	}
	b.request.release()
	b.request = nil
	return h, nil
}

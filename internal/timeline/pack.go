package timeline

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/headgate/headgate/internal/view"
)

// MaxSummed bounds the points of a timeline that is packed: it has 64,000 bytes at most, whatever it says.
const MaxSummed = 1000

// packed begins a timeline that is packed. The step follows, how many points there are, and of each the
// number of its step since the one before, how many seconds are known, the latencies as float32 and
// the counts; whole numbers are unsigned varints.
const packed = "headgate timeline answer 1\n"

// errPacked is of what is no timeline.
var errPacked = errors.New("unpack a timeline: it is not as this version of Headgate writes it")

// most are the largest numbers that are believed of another node: 2^53 is where float64 ends to be exact.
const mostCount, mostSecond = 1 << 53, 1 << 36

// Pack returns a timeline of at most MaxSummed points as bytes.
func Pack(line view.Timeline) ([]byte, error) {
	if len(line.Points) > MaxSummed {
		return nil, fmt.Errorf("pack a timeline: %d points, more than %d", len(line.Points), MaxSummed)
	}
	data := binary.AppendUvarint([]byte(packed), uint64(line.Step))
	data = binary.AppendUvarint(data, uint64(len(line.Points)))
	before := int64(0)
	for i := range line.Points {
		p := &line.Points[i]
		at := p.At.Unix() / line.Step
		data = binary.AppendUvarint(data, uint64(at-before))
		before = at
		data = binary.AppendUvarint(data, uint64(p.Known))
		for _, took := range []float64{p.P50, p.P99} {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(took)))
		}
		for _, n := range sumsOf(p.Requests) {
			data = binary.AppendUvarint(data, uint64(n))
		}
	}
	return data, nil
}

// Unpack reads what Pack has returned of a timeline of at most MaxSummed steps. It believes nothing that no
// node can know.
func Unpack(data []byte) (view.Timeline, error) {
	rest, ok := bytes.CutPrefix(data, []byte(packed))
	r := &unpacking{rest: rest, bad: !ok}
	line := view.Timeline{Step: r.number(mostSecond), Points: []view.TimelinePoint{}}
	n := r.number(MaxSummed)
	if !slices.Contains(steps[:], line.Step) {
		return view.Timeline{}, errPacked
	}
	for at := int64(0); n > 0 && !r.bad; n-- {
		more := r.number(mostSecond)
		r.bad = r.bad || more == 0
		at += more
		p := view.TimelinePoint{At: time.Unix(at*line.Step, 0).UTC(), Known: r.number(mostSecond), P50: r.took(), P99: r.took()}
		r.bad = r.bad || at > mostSecond/line.Step
		for _, count := range []*float64{&p.Requests.Allowed, &p.Requests.Denied, &p.Requests.DegradedAllowed, &p.Requests.DegradedDenied, &p.Requests.Unmatched, &p.Requests.UnknownDomain} {
			*count = float64(r.number(mostCount))
		}
		line.Points = append(line.Points, p)
	}
	if n := len(line.Points); r.bad || len(r.rest) > 0 || n > 0 && line.Points[n-1].At.Sub(line.Points[0].At) >= time.Duration(MaxSummed*line.Step)*time.Second {
		return view.Timeline{}, errPacked
	}
	return line, nil
}

// unpacking is what is still to be read; bad says that something was not as it should be.
type unpacking struct {
	rest []byte
	bad  bool
}

// number reads a whole number of at most most.
func (r *unpacking) number(most uint64) int64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > most {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return int64(n)
}

// took reads a latency.
func (r *unpacking) took() float64 {
	if len(r.rest) < 4 {
		r.bad, r.rest = true, nil
		return 0
	}
	took := float64(math.Float32frombits(binary.LittleEndian.Uint32(r.rest)))
	r.rest = r.rest[4:]
	r.bad = r.bad || !(took >= 0 && took < 1e9)
	return took
}

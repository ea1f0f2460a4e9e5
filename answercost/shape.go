package answercost

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/headgate/headgate/internal/ascii"
)

// Total is the name of what an answer costs in all: its counts by their weights.
const Total = "total"

// WeightOne is the Weight of what costs one for each one: weights are in thousandths.
const WeightOne = 1000

// Bounds of a Shape.
const (
	// MaxCounts bounds the counts.
	MaxCounts = 16
	// MaxWeight bounds a weight, in thousandths: one costs a million.
	MaxWeight = 1_000_000 * WeightOne
	// MaxCost bounds a cost and an estimate.
	MaxCost = 1 << 50
	// DefaultMaxEstimate is how much is estimated at most, unless a Shape says otherwise.
	DefaultMaxEstimate = 32_000
	// DefaultModel is the path of the model in a request.
	DefaultModel = "model"
	// bytesPerToken is the usual length of a token of a language model in English text.
	bytesPerToken = 4
)

// Fold says which number counts where an answer tells one several times.
type Fold uint8

const (
	// Most is the largest, for providers that tell again what they told, or what there is
	// so far. It is the zero value.
	Most Fold = iota
	// Last is the one that comes last.
	Last
	// Sum is all of them together, for providers that tell what each event adds.
	Sum
)

// Count is one number that answers tell, such as the tokens of the question.
//
// A path is the names that lead to a value, with dots between: usage.total_tokens. "*" stands
// for any name and any element of an array, and a number for the element of that index. Names
// with a dot in them cannot be written.
//
// Where an answer does not tell the number, it is guessed: one for each four bytes of the
// texts at Text that came after the number was told last, and for each four bytes of the
// request where OfRequest says so.
type Count struct {
	// Name names it, such as "input"; letters, digits and '_', and not Total.
	Name string
	// Paths are where it stands in an answer, or in an event. At least one.
	Paths []string
	// Weight is what each one costs in Total, in thousandths; 0 means WeightOne.
	// Free leaves it out of Total.
	Weight int64
	Free   bool
	// Fold says which of several counts.
	Fold Fold
	// Text are paths of texts from which it is guessed.
	Text []string
	// OfRequest says that it is estimated, and guessed, by the length of the request.
	OfRequest bool
	// Ceiling are paths of the number in a request above which it cannot be, by which it is
	// estimated, and Usual is the estimate for a request without one.
	Ceiling []string
	Usual   int64
}

// Options configures a Shape.
type Options struct {
	// Counts are what answers tell. At least one, and at most MaxCounts.
	Counts []Count
	// Model is the path of the model in a request; "" means DefaultModel.
	Model string
	// MaxEstimate bounds what is estimated of one request, so that its own length and
	// ceiling do not keep it from a budget that has room for what it will take; 0 means
	// DefaultMaxEstimate.
	MaxEstimate int64
}

// Shape knows where requests and answers tell what they cost. It is safe for concurrent use.
// Make one with New.
type Shape struct {
	counts      []Count
	maxEstimate int64

	request paths
	model   uint64
	ceiling []uint64 // by count

	answer  paths
	numbers []uint64 // by count
	texts   []uint64
}

// New returns a Shape. Its errors name what is wrong with o.
func New(o Options) (*Shape, error) {
	if len(o.Counts) == 0 || len(o.Counts) > MaxCounts {
		return nil, fmt.Errorf("new shape: %d counts; hint: 1 to %d", len(o.Counts), MaxCounts)
	}
	if o.MaxEstimate < 0 || o.MaxEstimate > MaxCost {
		return nil, fmt.Errorf("new shape: a largest estimate of %d; hint: 1 to %d, 0 for %d", o.MaxEstimate, int64(MaxCost), DefaultMaxEstimate)
	}
	o.MaxEstimate = cmp.Or(o.MaxEstimate, DefaultMaxEstimate)
	o.Model = cmp.Or(o.Model, DefaultModel)
	s := &Shape{maxEstimate: o.MaxEstimate}
	var err error
	if s.model, err = s.request.addAll([]string{o.Model}); err != nil {
		return nil, fmt.Errorf("new shape: model: %w", err)
	}
	s.request.keep = s.model
	for _, c := range o.Counts {
		if err := s.add(c); err != nil {
			return nil, fmt.Errorf("new shape: count %.40q: %w", c.Name, err)
		}
	}
	return s, nil
}

func (s *Shape) add(c Count) error {
	switch {
	case !isName(c.Name) || c.Name == Total:
		return fmt.Errorf("that is no name; hint: up to 40 letters, digits and '_', and not %q", Total)
	case s.index(c.Name) >= 0:
		return errors.New("there are two of it")
	case len(c.Paths) == 0:
		return errors.New("no paths; hint: usage.total_tokens")
	case c.Weight < 0 || c.Weight > MaxWeight || c.Usual < 0 || c.Usual > MaxCost:
		return fmt.Errorf("weight %d, usual %d; hint: weights are thousandths up to %d", c.Weight, c.Usual, int64(MaxWeight))
	}
	if c.Weight == 0 && !c.Free {
		c.Weight = WeightOne
	}
	if c.Free {
		c.Weight = 0
	}
	for _, to := range []struct {
		in    *paths
		paths []string
		out   *[]uint64
	}{{&s.answer, c.Paths, &s.numbers}, {&s.answer, c.Text, &s.texts}, {&s.request, c.Ceiling, &s.ceiling}} {
		set, err := to.in.addAll(to.paths)
		if err != nil {
			return err
		}
		*to.out = append(*to.out, set)
	}
	c.Paths, c.Text, c.Ceiling = slices.Clone(c.Paths), slices.Clone(c.Text), slices.Clone(c.Ceiling)
	s.counts = append(s.counts, c)
	return nil
}

// addAll adds paths and returns their bits.
func (p *paths) addAll(list []string) (set uint64, err error) {
	for _, path := range list {
		path = strings.TrimPrefix(path, "$.")
		n := strings.Count(path, ".") + 1
		switch {
		case slices.Contains(strings.Split(path, "."), ""):
			return 0, fmt.Errorf("path %.80q has an empty name; hint: usage.total_tokens", path)
		case n > maxSegments || len(path) > maxToken:
			return 0, fmt.Errorf("path %.80q is too long; hint: at most %d names and %d bytes", path, maxSegments, maxToken)
		case len(p.segments) == maxPaths:
			return 0, fmt.Errorf("too many paths; hint: at most %d", maxPaths)
		}
		set |= p.add(path)
	}
	return set, nil
}

// isName reports whether a name can stand in a descriptor and in a message as it is.
func isName(name string) bool {
	return name != "" && len(name) <= 40 && ascii.Only(name, "_")
}

func (s *Shape) index(name string) int {
	return slices.IndexFunc(s.counts, func(c Count) bool { return c.Name == name })
}

// Has reports whether Cost knows a name: Total, or that of a count.
func (s *Shape) Has(name string) bool { return name == Total || s.index(name) >= 0 }

// Names are those that Cost knows.
func (s *Shape) Names() []string {
	names := []string{Total}
	for _, c := range s.counts {
		names = append(names, c.Name)
	}
	return names
}

// Cost returns what counts, in the order of the Shape's, cost by a name that Has knows: of
// Total their sum by weights, rounded up, of a count itself. It is at most MaxCost.
func (s *Shape) Cost(name string, counts []int64) int64 {
	if name != Total {
		if i := s.index(name); i >= 0 && i < len(counts) {
			return min(counts[i], MaxCost)
		}
		return 0
	}
	var sum int64 // in thousandths; at most MaxCost of each, so that nothing overflows
	for i, n := range counts[:min(len(counts), len(s.counts))] {
		sum += weighted(n, s.counts[i].Weight)
	}
	return min((sum+WeightOne-1)/WeightOne, MaxCost)
}

// weighted returns n times a weight, at most MaxCost.
func weighted(n, weight int64) int64 {
	high, low := bits.Mul64(uint64(max(n, 0)), uint64(weight))
	if high != 0 || low > MaxCost {
		return MaxCost
	}
	return int64(low)
}

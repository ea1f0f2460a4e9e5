package answercost

import "bytes"

// Asked is what a request says of what it will cost.
type Asked struct {
	// Model is the model that is asked for; "" where the request does not say it, or
	// by more than 256 bytes.
	Model string
	// Estimate is what each count may be, in the order of the Shape's.
	Estimate []int64
	// Bytes is how long the request is.
	Bytes int64
}

// Ask reads a request, which should be JSON; of any other only the length counts. Of a member
// that stands there twice the last one counts, as most programs read it.
func (s *Shape) Ask(body []byte) Asked {
	r := asking{shape: s, ceilings: make([]int64, len(s.counts))}
	for i := range r.ceilings {
		r.ceilings[i] = -1
	}
	in := scanner{paths: &s.request, tell: &r}
	in.start()
	in.feed(bytes.TrimPrefix(body, []byte(byteOrderMark)))
	in.endDocument()
	a := Asked{Model: r.model, Bytes: int64(len(body)), Estimate: make([]int64, len(s.counts))}
	for i := range s.counts {
		switch c := &s.counts[i]; {
		case r.ceilings[i] >= 0:
			a.Estimate[i] = r.ceilings[i]
		case c.OfRequest:
			a.Estimate[i] = tokens(a.Bytes)
		default:
			a.Estimate[i] = c.Usual
		}
		a.Estimate[i] = min(a.Estimate[i], s.maxEstimate)
	}
	return a
}

// Estimated returns what Cost may be of a request, at most Options.MaxEstimate.
func (s *Shape) Estimated(name string, a Asked) int64 {
	return min(s.Cost(name, a.Estimate), s.maxEstimate)
}

// tokens is how many tokens so many bytes of text usually are, rounded up.
func tokens(length int64) int64 { return (max(length, 0) + bytesPerToken - 1) / bytesPerToken }

// asking is what is found in a request.
type asking struct {
	shape    *Shape
	model    string
	ceilings []int64 // by count; -1: none
	ended    bool    // what follows the first document is none of the request
}

func (r *asking) number(at uint64, n int64) {
	for i, set := range r.shape.ceiling {
		// Below 1 it is no ceiling: some servers read -1 as none.
		if at&set != 0 && !r.ended && n > 0 {
			r.ceilings[i] = max(r.ceilings[i], n)
		}
	}
}

func (r *asking) text(at uint64, _ int64, value []byte, whole bool) {
	if at&r.shape.model != 0 && !r.ended {
		if r.model = ""; whole {
			r.model = string(value)
		}
	}
}

func (r *asking) documentEnds() { r.ended = true }

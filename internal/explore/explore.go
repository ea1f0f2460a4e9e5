// Package explore goes through every state that a small system reaches in so many steps,
// whatever their order, and counts them. Tests of protocols use it with the code of the
// protocol itself.
//
// Two states are one if their keys are: those are hashed with a seed drawn at random, to 64
// bits, so that among ten million states two are mistaken for one with a chance of one in
// 300,000, and in the next run others. Memory is what the states of one depth need, and about 40
// bytes for each state seen.
package explore

import (
	"hash/maphash"
	"os"
	"strconv"
)

// Variable is the variable of the environment that Depth reads.
const Variable = "HEADGATE_EXPLORE"

// Space is what is gone through.
type Space[S any] struct {
	// First is where it begins.
	First S
	// Steps calls reached with each state that can follow s, in any order, and leaves s alone.
	Steps func(s S, reached func(S))
	// Key appends to buf what tells s apart.
	Key func(s S, buf []byte) []byte
	// Wrong says what must not be in s; "" if nothing is. It is asked once for each state.
	Wrong func(s S) string
}

// Found is what a Space has.
type Found[S any] struct {
	// States is how many states were seen, the first one among them.
	States int
	// Bad is a state that is wrong, of those with the fewest steps, and Wrong why; nil and ""
	// if there is none.
	Bad   *S
	Wrong string
}

// Run goes through all states up to so many steps from the first, those with fewer steps first,
// and stops at one that is wrong.
func (p *Space[S]) Run(depth int) Found[S] {
	var (
		seed = maphash.MakeSeed()
		buf  = p.Key(p.First, nil)
		seen = map[uint64]struct{}{maphash.Bytes(seed, buf): {}}
		at   = []S{p.First}
		bad  *S
		why  = p.Wrong(p.First)
	)
	if why != "" {
		return Found[S]{1, &p.First, why}
	}
	for range depth {
		var next []S
		for _, s := range at {
			p.Steps(s, func(c S) {
				if bad != nil {
					return
				}
				buf = p.Key(c, buf[:0])
				k := maphash.Bytes(seed, buf)
				if _, known := seen[k]; known {
					return
				}
				seen[k] = struct{}{}
				if why = p.Wrong(c); why != "" {
					bad = &c
					return
				}
				next = append(next, c)
			})
			if bad != nil {
				return Found[S]{len(seen), bad, why}
			}
		}
		at = next
	}
	return Found[S]{States: len(seen)}
}

// Depth returns how many steps to go: usual, unless Variable says another number. What is no
// number counts as not said.
func Depth(usual int) int {
	if n, err := strconv.Atoi(os.Getenv(Variable)); err == nil {
		return n
	}
	return usual
}

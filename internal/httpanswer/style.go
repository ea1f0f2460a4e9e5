package httpanswer

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/rules"
)

// style is how one answer is written: as the options of the Encoder say, but for
// what the rule that speaks says itself.
type style struct {
	generation Generation
	reset      ResetFormat
	body       Body
	omitX      bool
	message    []rules.MessagePart // in place of the sentence, nil for none
}

// Words of a rule that has X-RateLimit-* fields, or has not.
const (
	xOn  = "on"
	xOff = "off"
)

// styleOf returns the style of an answer for which v speaks, which may be nil.
// Rules are checked when they are loaded: a word that is unknown here, because a
// newer service decided, is left to the options.
func (e *Encoder) styleOf(v *headgate.Verdict) style {
	s := style{generation: e.options.Generation, reset: e.options.Reset, body: e.options.Body, omitX: e.options.OmitX}
	if v == nil || v.Rule == nil || v.Rule.Answer == nil {
		return s
	}
	answer := v.Rule.Answer
	s.generation = Generation(choose(generationNames[:], answer.Headers, uint8(s.generation)))
	s.reset = ResetFormat(choose(resetNames[:], answer.XRateLimitReset, uint8(s.reset)))
	s.body = Body(choose(bodyNames[:], answer.Body, uint8(s.body)))
	switch answer.XRateLimit {
	case xOn:
		s.omitX = false
	case xOff:
		s.omitX = true
	}
	if answer.Message != nil {
		s.message = answer.Message.Parts
	}
	return s
}

// choose returns the index of name, or otherwise where there is no such name.
func choose(names []string, name string, otherwise uint8) uint8 {
	if name != "" {
		for i, n := range names {
			if n == name {
				return uint8(i)
			}
		}
	}
	return otherwise
}

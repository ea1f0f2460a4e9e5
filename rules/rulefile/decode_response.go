package rulefile

import "github.com/headgate/headgate/rules"

// softSpec is a soft_limit as it is written.
type softSpec struct {
	block
	keyAt     position
	threshold string
	action    string
	soft      rules.Soft // but for Percent and Action
}

// answerSpec is an answer as it is written.
type answerSpec struct {
	block
	keyAt position
	words map[string]string // of all keys
}

// responseField decodes what a rule says of those whom it limits.
func (d *decoder) responseField(s *descriptorSpec, f field) bool {
	if own, given := d.own(f, "soft_limit", "answer", "priority"); !given {
		return own
	}
	s.flags = append(s.flags, f)
	switch f.name {
	case "soft_limit":
		s.soft = d.soft(f)
	case "answer":
		s.answer = d.answer(f)
	case "priority":
		s.priority, s.priorityAt = d.text(f), d.valueAt(f)
	}
	return true
}

func (d *decoder) soft(f field) *softSpec {
	s := &softSpec{keyAt: f.at}
	s.block = d.block(f.value, inSoft, func(f field) {
		switch f.name {
		case "at":
			s.threshold = d.text(f)
		case "action":
			s.action = d.text(f)
		case "delay":
			s.soft.Delay = d.durationWithin(f, minSoftDelay, rules.MaxSoftDelay)
		case "header":
			s.soft.Header = d.text(f)
		case "value":
			s.soft.Value = d.text(f)
		case "challenge":
			s.soft.Challenge = d.text(f)
		}
	})
	return s
}

// answer decodes an answer; nil when the key has no value.
func (d *decoder) answer(f field) *answerSpec {
	if !d.hasValue(f) {
		return nil
	}
	s := &answerSpec{keyAt: f.at, words: make(map[string]string)}
	s.block = d.block(f.value, inAnswer, func(f field) { s.words[f.name] = d.text(f) })
	return s
}

package rulefile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate/internal/ascii"
	"github.com/headgate/headgate/rules"
)

// minSoftDelay is the shortest delay of a soft limit: less is no delay.
const minSoftDelay = time.Millisecond

// Bounds of texts that stand in headers.
const (
	maxHeaderName  = 64
	maxHeaderValue = 256
	maxChallenge   = 64
)

// setResponse compiles what r says of those whom it limits. Its limits are known
// by then.
func (c *compiler) setResponse(r *rules.Rule, spec *descriptorSpec) {
	const hint, format = "delete it, or delete unlimited", "%s means nothing when unlimited"
	if spec.soft != nil {
		if r.Unlimited {
			c.errorf(spec.soft.keyAt, hint, format, "soft_limit")
		}
		r.Soft = c.soft(spec)
	}
	if spec.answer != nil && r.Unlimited {
		c.errorf(spec.answer.keyAt, hint, format, "answer")
	}
	r.Answer = or(c.answer(spec.answer), c.fileAnswer)
	if r.Unlimited || r.Answer != nil && *r.Answer == (rules.Answer{}) {
		r.Answer = nil
	}
	if spec.priorityAt != (position{}) {
		r.Priority = c.priority(spec)
	}
}

// softKeys are the keys that belong to one action.
var softKeys = map[string]rules.SoftAction{"delay": rules.Delay, "header": rules.Degrade, "value": rules.Degrade, "challenge": rules.Challenge}

func (c *compiler) soft(spec *descriptorSpec) *rules.Soft {
	s := spec.soft
	soft := s.soft
	soft.Action = rules.SoftAction(c.word(s.valueAt, "action", s.action, "warn", "delay", "degrade", "challenge"))
	soft.Percent = c.percent(s)
	if !spec.tenant && spec.limit == nil && len(spec.limits) == 0 {
		c.errorf(s.keyAt, "write a rate_limit beside it", "soft_limit is a share of rate_limit or limits, and the descriptor has neither")
	}
	if s.broken || soft.Action.String() != s.action && s.action != "" {
		return nil
	}
	for key, action := range softKeys {
		if at, given := s.valueAt[key]; given && action != soft.Action {
			c.errorf(at, fmt.Sprintf("write action: %v, or delete %s", action, key), "%s is for action: %v, not %v", key, action, soft.Action)
		}
	}
	switch {
	case soft.Action == rules.Delay && soft.Delay == 0:
		c.errorf(s.at, fmt.Sprintf("write delay: 250ms; at most %s", rules.DurationText(rules.MaxSoftDelay)), "action delay has no delay")
	case soft.Action == rules.Degrade:
		c.checkHeader(s, &soft)
	case soft.Action == rules.Challenge && !isWord(soft.Challenge):
		at, given := s.valueAt["challenge"]
		if !given {
			at = s.at
		}
		c.errorf(at, fmt.Sprintf("write challenge: NAME, up to %d letters, digits, '-' and '_'", maxChallenge), "challenge '%s' is not a name", shortened(soft.Challenge))
	}
	return &soft
}

// percent reads the threshold of a soft limit: 80% or 80.
func (c *compiler) percent(s *softSpec) int {
	const hint = "write a share of the limit from 1% to 99%, such as at: 80%"
	at, given := s.valueAt["at"]
	if !given {
		c.errorf(s.at, hint, "soft_limit has no at")
		return 0
	}
	if s.broken && s.threshold == "" {
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(s.threshold, "%"), 10, 8)
	if err != nil || n < 1 || n > 99 {
		c.errorf(at, hint, "at '%s' is not a share of the limit", shortened(s.threshold))
		return 0
	}
	return int(n)
}

// reservedHeaders are those that a soft limit must not set, nor any that begins
// as reservedPrefixes do: they belong to one connection, frame or describe the
// message, say where it goes or who sends it. Fronts take the header of a soft
// limit out of what clients send, and these have to come through.
var (
	reservedHeaders = []string{
		"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host", "expect",
		"authorization", "cookie", "forwarded", "x-real-ip", "x-ratelimit-challenge",
	}
	reservedPrefixes = []string{"content-", "proxy-", "x-forwarded-"}
)

// checkHeader refuses a header that cannot stand in a request as it is, and fills
// in the value.
func (c *compiler) checkHeader(s *softSpec, soft *rules.Soft) {
	at, given := s.valueAt["header"]
	if !given {
		c.errorf(s.at, "write header: NAME, such as X-Degraded", "action degrade has no header")
		return
	}
	switch name := strings.ToLower(soft.Header); {
	case len(name) > maxHeaderName || !ascii.IsToken(name):
		c.errorf(at, fmt.Sprintf("write up to %d letters, digits and '-', such as X-Degraded", maxHeaderName), "header '%s' is not the name of a header", shortened(soft.Header))
	case slices.Contains(reservedHeaders, name) || slices.ContainsFunc(reservedPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }):
		c.errorf(at, "choose a header of your own, such as X-Degraded", "header %s has a meaning of its own", soft.Header)
	}
	if _, given := s.valueAt["value"]; !given {
		soft.Value = "1"
	}
	if soft.Value == "" || len(soft.Value) > maxHeaderValue || strings.TrimSpace(soft.Value) != soft.Value || !ascii.IsPrintable(soft.Value) {
		c.errorf(s.valueAt["value"], fmt.Sprintf("write up to %d printable ASCII characters, with no space around them", maxHeaderValue), "value '%s' cannot stand in a header", shortened(soft.Value))
	}
}

// isWord reports whether text is the name of a challenge.
func isWord(text string) bool {
	return text != "" && len(text) <= maxChallenge && ascii.Only(text, "-_")
}

// answerWords are the words that the keys of an answer may have.
var answerWords = map[string][]string{
	"body": {"platform", "flat", "problem"}, "headers": {"draft-8", "draft-7", "draft-6", "draft-6-window", "off"},
	"x_ratelimit": {"on", "off"}, "x_ratelimit_reset": {"unix", "delta"},
}

// answer compiles an answer; nil for none.
func (c *compiler) answer(s *answerSpec) *rules.Answer {
	if s == nil {
		return nil
	}
	for key, words := range answerWords {
		c.word(s.valueAt, key, s.words[key], words...)
	}
	return &rules.Answer{
		Body: s.words["body"], Headers: s.words["headers"], XRateLimit: s.words["x_ratelimit"],
		XRateLimitReset: s.words["x_ratelimit_reset"], Message: c.message(s),
	}
}

// message compiles the sentence of an answer; nil for none.
func (c *compiler) message(s *answerSpec) *rules.Message {
	text := s.words["message"]
	at, given := s.valueAt["message"]
	if !given {
		return nil
	}
	const hint = "write one line of text"
	switch {
	case strings.TrimSpace(text) == "":
		c.errorf(at, "write a sentence, or delete message", "message is empty")
	case len(text) > rules.MaxMessage:
		c.errorf(at, fmt.Sprintf("shorten it to %d bytes", rules.MaxMessage), "message has %d bytes, more than %d", len(text), rules.MaxMessage)
	case !utf8.ValidString(text):
		c.errorf(at, hint, "message is not UTF-8")
	case strings.ContainsFunc(text, isControl):
		c.errorf(at, hint, "message has a control character")
	}
	message, err := rules.ParseMessage(text)
	if err != nil {
		c.errorf(at, "write {key}, {entry.NAME}, {rule}, {limit}, {window} or {retry_after}, and {{ or }} for a brace itself", "message: %v", err)
	}
	return message
}

// isControl reports whether r does not stand in a line of text: control
// characters, and the separators of lines and paragraphs.
func isControl(r rune) bool {
	return r < ' ' || r >= 0x7f && r <= 0x9f || r == '\u2028' || r == '\u2029'
}

// or returns a with what other says where a says nothing.
func or(a, other *rules.Answer) *rules.Answer {
	switch {
	case a == nil:
		return other
	case other == nil:
		return a
	}
	return &rules.Answer{
		Body: cmp.Or(a.Body, other.Body), Headers: cmp.Or(a.Headers, other.Headers), XRateLimit: cmp.Or(a.XRateLimit, other.XRateLimit),
		XRateLimitReset: cmp.Or(a.XRateLimitReset, other.XRateLimitReset), Message: cmp.Or(a.Message, other.Message),
	}
}

// priorityWords are the words of a priority and what they stand for.
var priorityWords = map[string]string{"p0": "p0", "p1": "p1", "p2": "p2", "p3": "p3", "critical": "p0", "test": "p3"}

// priority returns the canonical word of a priority, in whatever case it was
// written.
func (c *compiler) priority(spec *descriptorSpec) string {
	word, ok := priorityWords[strings.ToLower(strings.TrimSpace(spec.priority))]
	if !ok {
		c.errorf(spec.priorityAt, "write p0 (shed last), p1, p2 or p3 (shed first); critical is p0, test is p3", "priority '%s' is unknown", shortened(spec.priority))
	}
	return word
}

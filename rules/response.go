package rules

import "time"

// SoftAction says what happens to a request above a soft limit.
type SoftAction uint8

const (
	// Warn tells the client (default).
	Warn SoftAction = iota
	// Delay holds the request back for a while.
	Delay
	// Degrade sets a header for whatever serves the request, which may then do
	// less.
	Degrade
	// Challenge names something that the gateway asks of the client, such as a
	// captcha.
	Challenge
)

// String returns the word that rules use.
func (a SoftAction) String() string {
	return [...]string{"warn", "delay", "degrade", "challenge"}[a]
}

// Soft is a threshold below the limits of a rule, and what happens above it
// (`soft_limit`). It never denies.
type Soft struct {
	// Percent of the limit that is used from which the action is taken, 1 to 99.
	Percent int
	Action  SoftAction
	// Delay is how long a request is held back, up to MaxSoftDelay.
	Delay time.Duration
	// Header and Value are what Degrade sets.
	Header, Value string
	// Challenge is the name of the challenge: letters, digits, "-" and "_".
	Challenge string
}

// MaxSoftDelay bounds Soft.Delay: whoever is held back holds a connection.
const MaxSoftDelay = 10 * time.Second

// Answer says how clients are told of the denials of a rule (`answer`). Each empty
// field leaves that to the way in.
type Answer struct {
	// Body is "platform", "flat" or "problem".
	Body string
	// Headers is "draft-8", "draft-7", "draft-6", "draft-6-window" or "off".
	Headers string
	// XRateLimit is "on" or "off".
	XRateLimit string
	// XRateLimitReset is "unix" or "delta".
	XRateLimitReset string
	// Message takes the place of the sentence in the body; nil leaves it.
	Message *Message
}

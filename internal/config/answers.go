package config

// Answers are the settings of what clients are told over HTTP.
type Answers struct {
	// Headers is the generation of the RateLimit header fields over HTTP.
	Headers string `group:"answers" enum:"draft-8,draft-7,draft-6,draft-6-window,off" default:"draft-8" help:"RateLimit header fields over HTTP: draft-8 (structured fields, the current form), draft-7, draft-6, draft-6-window (as draft-6, with the window beside the limit: 120;window=60) or off."`
	// XRateLimit sends the X-RateLimit-* header fields as well.
	XRateLimit bool `group:"answers" name:"x-ratelimit" default:"true" negatable:"" help:"Send X-RateLimit-Limit, -Remaining and -Reset."`
	// XRateLimitReset says what X-RateLimit-Reset counts.
	XRateLimitReset string `group:"answers" name:"x-ratelimit-reset" enum:"unix,delta" default:"unix" help:"X-RateLimit-Reset as Unix seconds (unix) or as seconds from now (delta)."`
	// Reset is which instant times of reset name: "full" or "window".
	Reset string `group:"answers" enum:"full,window" default:"full" help:"What times of reset tell in header fields and as reset_ms: when the limit is as if unused (full), which for a sliding window is up to two windows away, or when the current window ends (window). Denials tell when to try again in both."`
	// Body is the shape of a denial's body over HTTP.
	Body string `group:"answers" enum:"platform,flat,problem" default:"platform" help:"Body of a denial: platform (error object), flat, or problem (RFC 9457)."`
	// RetryJitter lengthens retry times by a random share of themselves, up to
	// this one; from 0 to 1, 0.1 by default.
	RetryJitter float64 `group:"answers" default:"0.1" placeholder:"SHARE" help:"Lengthen each retry time that clients are told by a random share of itself, up to this one, so that a crowd that was denied together does not come back together; 0 tells the exact time. Default ${default}."`
	// PartitionKey is the file of the keys that make partition keys; "" (the default)
	// tells none.
	PartitionKey string `group:"answers" placeholder:"FILE" help:"Tell clients in RateLimit (draft-8) which key is counted (pk=), as a hash by the first key in this file ('openssl rand -base64 32'); give the same to all nodes. Read at start. Default: off."`
}

func (a *Answers) validate() error { return share("retry-jitter", a.RetryJitter) }

func share(name string, x float64) error {
	return refuse(!(x >= 0 && x <= 1), "--%s: %v is out of range; hint: a share from 0 to 1", name, x)
}

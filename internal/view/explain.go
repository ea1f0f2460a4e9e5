package view

// Explanation says how a request would be decided now, and why. Nothing is charged.
type Explanation struct {
	// Allowed is what would be answered. Unknown says that it hangs on limits whose store does not
	// answer, so that it may be otherwise in a moment, and Failure which failure modes answer
	// in its place, such as "open".
	Allowed       bool   `json:"allowed"`
	Unknown       bool   `json:"unknown,omitempty"`
	Failure       string `json:"failure,omitempty"`
	Domain        string `json:"domain"`
	DomainKnown   bool   `json:"domain_known"`
	ConfigVersion string `json:"config_version"`
	// Descriptors are in the order of the request.
	Descriptors []ExplainedDescriptor `json:"descriptors"`
	// Text is the whole as people read it in a terminal.
	Text string `json:"text"`
}

// ExplainedDescriptor is one descriptor of the request.
type ExplainedDescriptor struct {
	Descriptor string `json:"descriptor"`
	Hits       int64  `json:"hits"`
	// Steps are what was compared, in order.
	Steps  []ExplainStep    `json:"steps"`
	Ended  string           `json:"ended,omitempty"` // where the walk ended, and why
	Limits []ExplainedLimit `json:"limits"`
	// Notes are what else there is to say, such as rules that do not apply, and why.
	Notes []string `json:"notes,omitempty"`
}

// ExplainStep is one comparison of the walk.
type ExplainStep struct {
	Depth   int    `json:"depth"`
	Entry   string `json:"entry"`
	Tried   string `json:"tried"`
	Matched bool   `json:"matched"`
	Note    string `json:"note,omitempty"`
}

// ExplainedLimit is one limit that would decide, with its counters before and after.
type ExplainedLimit struct {
	Rule   string `json:"rule"`
	Name   string `json:"name,omitempty"`
	Role   string `json:"role"`
	Limit  string `json:"limit"`          // as people write limits
	Source string `json:"source"`         // rule, tier, override, ...
	Tier   string `json:"tier,omitempty"` // of the tenant
	Key    string `json:"key"`            // what it counts by
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	// Enforced is false in shadow mode, and for what only watches.
	Enforced bool   `json:"enforced"`
	Shadow   bool   `json:"shadow,omitempty"`
	Degraded string `json:"degraded,omitempty"`
	Allowed  bool   `json:"allowed"`
	// Before and After are the counters now, and were the request sent now.
	Before Counters `json:"before"`
	After  Counters `json:"after"`
	// Arithmetic is why, in one line of numbers.
	Arithmetic string `json:"arithmetic"`
	// Promise is what the consistency mode promises, "" for exact.
	Promise string `json:"promise,omitempty"`
	// Notes are what else there is to say, such as a schedule or a switch.
	Notes []string `json:"notes,omitempty"`
}

// Counters are what a limit tells of a bucket.
type Counters struct {
	Limit        int64 `json:"limit"`
	Used         int64 `json:"used"`
	Remaining    int64 `json:"remaining"`
	ResetMS      int64 `json:"reset_ms"`
	RetryAfterMS int64 `json:"retry_after_ms,omitempty"`
}

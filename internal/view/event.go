package view

import "strings"

// EventSchema is the version of Event. Fields may be added without a new one.
const EventSchema = 1

// Event is one decision, as it is kept for audits.
type Event struct {
	Schema  int    `json:"schema"`
	TS      int64  `json:"ts"` // Unix milliseconds
	EventID string `json:"event_id"`
	Node    string `json:"node"`
	Domain  string `json:"domain"`
	// Key is what the limit counts by, as people write descriptors or, where keys are
	// hashed, a keyed hash.
	Key       string `json:"key"`
	KeyHashed bool   `json:"key_hashed"`
	// Descriptors are all of the request. Where keys are hashed, so is each value in them.
	Descriptors []EventDescriptor `json:"descriptors,omitempty"`
	// DescriptorsCut says that further ones found no room.
	DescriptorsCut bool   `json:"descriptors_cut,omitempty"`
	Rule           string `json:"rule"`
	LimitName      string `json:"limit_name,omitempty"`
	Role           string `json:"role,omitempty"` // of the limit; "" for a main one
	Algorithm      string `json:"algorithm,omitempty"`
	Limit          int64  `json:"limit"`
	Used           int64  `json:"used"`
	Remaining      int64  `json:"remaining"`
	Hits           int64  `json:"hits"`
	// Outcome is one of those of headgate_requests_total, or shadow_denied.
	Outcome      string `json:"outcome"`
	Allowed      bool   `json:"allowed"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
	// Degraded says why the store did not decide, "" where it did.
	Degraded string `json:"degraded"`
	// Raise is by how many per cent the limit is raised for a time, and Until the end of
	// that time in Unix milliseconds. Until, Actor and Reason are of events about
	// raises and drills.
	Raise         int    `json:"raise,omitempty"`
	Until         int64  `json:"until,omitempty"`
	Actor         string `json:"actor,omitempty"`
	Reason        string `json:"reason,omitempty"`
	Tier          string `json:"tier,omitempty"`
	ClientIP      string `json:"client_ip,omitempty"`
	UserAgent     string `json:"user_agent,omitempty"`
	TraceID       string `json:"trace_id,omitempty"`
	ConfigVersion string `json:"config_version"`
	// TookUS is how long the call took in microseconds; 0 where it was not timed, because
	// such calls are fast.
	TookUS int64 `json:"took_us"`
	// SampleRate is how many such events this one stands for; 1 for denials.
	SampleRate float64 `json:"sample_rate"`
}

// EventDescriptor is what an event holds of one descriptor of its request.
type EventDescriptor struct {
	// Entries are as descriptor.Format writes them, but for long texts, which are "sha256:" and
	// hexadecimal digits.
	Entries string `json:"entries"`
	// Hits are what it costs by the request: rules may say something else.
	Hits int64 `json:"hits"`
	// Op is what was asked for: "refund", "reset", "charge"; "" is that hits may pass.
	Op string `json:"op,omitempty"`
	// OwnLimit says that the limit was named by the caller, so that no rule counts here.
	OwnLimit bool `json:"own_limit,omitempty"`
}

// Events are events that are still remembered, the latest first.
type Events struct {
	Events []Event `json:"events"`
	// NextCursor continues with older ones; "" when there are none.
	NextCursor string `json:"next_cursor,omitempty"`
}

// FleetEvents are events that nodes remember, the latest first.
type FleetEvents struct {
	Events []Event      `json:"events"`
	Nodes  []EventsNode `json:"nodes"`
	// Cut says that nodes remember older ones, too.
	Cut bool `json:"cut,omitempty"`
}

// EventsNode is a node that was asked for events.
type EventsNode struct {
	Node string `json:"node"`
	// Events is how many it has told of that were asked for.
	Events int `json:"events"`
	// Unknown says why it has told nothing, "" where it has told.
	Unknown string `json:"unknown,omitempty"`
}

// EventFilter chooses events. The zero value chooses all; of several fields all must
// agree.
type EventFilter struct {
	Domain, Rule string
	// Outcome is one of those of Event; "over" is all that are not allowed.
	Outcome string
	// Key is a part of the key in words, or the whole hash of it.
	Key string
	// Since and Until bound when it was decided, in Unix milliseconds; 0 is no bound. Until is not
	// chosen itself.
	Since, Until int64
}

// OutcomeOver is the Outcome of EventFilter that chooses what is not allowed.
const OutcomeOver = "over"

// Matches reports whether f chooses e, whose key has that hash.
func (f *EventFilter) Matches(e *Event, hash string) bool {
	return (f.Since == 0 || e.TS >= f.Since) && (f.Until == 0 || e.TS < f.Until) && (f.Domain == "" || f.Domain == e.Domain) &&
		(f.Rule == "" || f.Rule == e.Rule) &&
		(f.Outcome == "" || f.Outcome == e.Outcome || f.Outcome == OutcomeOver && !e.Allowed) &&
		(f.Key == "" || f.Key == hash || !e.KeyHashed && strings.Contains(e.Key, f.Key))
}

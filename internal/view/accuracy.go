package view

// Accuracy is how exact the decisions of rules were, measured on a sample of keys.
type Accuracy struct {
	// Share is the share of keys that are measured; 0: none.
	Share float64        `json:"share"`
	Rules []RuleAccuracy `json:"rules"`
}

// RuleAccuracy is that of one rule. A decision is wrong where an exact count of what the
// rule admitted says otherwise.
type RuleAccuracy struct {
	Rule         string `json:"rule"`
	Decided      int64  `json:"decided"`
	WrongAllowed int64  `json:"wrong_allowed"`
	WrongDenied  int64  `json:"wrong_denied"`
	// Overshoot is the most hits beyond a limit that were admitted in the last hour, as a
	// share of the limit.
	Overshoot float64 `json:"overshoot"`
	// Bound is what the rule promises, as a share of the limit; -1 for no bound that is
	// known here.
	Bound     float64 `json:"bound"`
	BoundText string  `json:"bound_text"`
	// Reference is what decisions are compared with, such as "sliding_log".
	Reference string `json:"reference"`
}

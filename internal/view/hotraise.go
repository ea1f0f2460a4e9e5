package view

import "time"

// HotRaises are the raises of hot keys that are in force.
type HotRaises struct {
	Raises []HotRaise `json:"raises"`
}

// HotRaise is a raise of the limit of one key, because it has become hot.
type HotRaise struct {
	Rule string `json:"rule"`
	// KeyHash is the first half of the SHA-256 of the key of the bucket, in hexadecimal.
	KeyHash string `json:"key_hash"`
	// Raise is by how many per cent of the limit.
	Raise int       `json:"raise"`
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	// NotAgainBefore ends the pause after it.
	NotAgainBefore time.Time `json:"not_again_before"`
	// Node found the key hot.
	Node string `json:"node"`
}

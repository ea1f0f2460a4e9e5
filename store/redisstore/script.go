package redisstore

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
)

// takeScript decides batches; its first lines say what it takes and returns.
//
//go:embed take.lua
var takeScript string

// takeSHA is the name under which Redis remembers takeScript.
var takeSHA = scriptSHA(takeScript)

func scriptSHA(text string) string {
	// EVALSHA prescribes SHA-1; it protects nothing here.
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

package rulefile

import (
	_ "embed"
	"slices"
)

//go:embed schema.json
var schemaJSON []byte

// Schema returns the JSON Schema (draft 2020-12) of rule files, for editors. It
// describes files as they should be written: what envoyproxy/ratelimit accepts
// and ignores is not in it.
func Schema() []byte { return slices.Clone(schemaJSON) }

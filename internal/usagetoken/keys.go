package usagetoken

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/keyfile"
	"github.com/headgate/headgate/internal/yamlfile"
)

const (
	// maxFile bounds a file of keys, in bytes.
	maxFile = 1 << 20
	// maxRevoked bounds the tokens that a file takes back.
	maxRevoked = 10_000
	// revokedWord begins the line that takes a token back.
	revokedWord = "revoked "
)

// Keys are what tokens are signed with. They are safe for concurrent use. Make them
// with Load.
type Keys struct{ file *yamlfile.File[ring] }

// ring is a file of keys, read.
type ring struct {
	keys    []identity.Secret // at least one; the first one signs
	revoked map[string]bool   // by Grant.ID
}

// Load reads the file at path: keys as package keyfile has them, and "revoked ID" in
// a line of its own for each token that is taken back.
func Load(path string) (*Keys, error) {
	k := &Keys{file: yamlfile.NewFile("the keys of usage tokens", path, maxFile, parseFile)}
	_, err := k.Reload()
	return k, err
}

// Reload reads the file again and reports whether it has changed, as yamlfile.File does it.
func (k *Keys) Reload() (changed bool, err error) { return k.file.Reload() }

// ring returns the keys that are in force.
func (k *Keys) ring() *ring { return k.file.Get() }

// parseFile reads the text of a file. Errors hold nothing of it.
func parseFile(data []byte) (*ring, error) {
	r := &ring{revoked: map[string]bool{}}
	var keys strings.Builder
	line := 0
	for text := range strings.Lines(string(data)) {
		line++
		id, ok := strings.CutPrefix(strings.TrimSpace(text), revokedWord)
		if !ok {
			keys.WriteString(text)
			continue
		}
		id = strings.TrimSpace(id)
		if len(id) != 2*idLength || strings.Trim(id, "0123456789abcdef") != "" {
			return nil, &yamlfile.Error{Line: line, Err: fmt.Errorf("not the id of a token; hint: revoked and %d hexadecimal digits", 2*idLength)}
		}
		r.revoked[id] = true
		keys.WriteString("\n") // so that lines keep their numbers
	}
	if len(r.revoked) > maxRevoked {
		return nil, fmt.Errorf("%d revoked tokens; hint: at most %d; a new key takes all of them back", len(r.revoked), maxRevoked)
	}
	var err error
	r.keys, err = keyfile.Parse([]byte(keys.String()))
	return r, err
}

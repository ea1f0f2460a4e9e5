package app

import (
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/identity"
	"github.com/headgate/headgate/internal/apikeys"
	"github.com/headgate/headgate/internal/config"
)

// keys is what this process knows of API keys.
type keys struct {
	// hasher names them; nil where no key to hash by was given.
	hasher *identity.Hasher
	// names are put in their place where callers send them; nil where they are not.
	names *apikeys.Names
	// veil hides them from who looks on, where there are no names; else nil.
	veil *apikeys.Veil
}

// readKeys reads by which key API keys are hashed: that of the identity file, or of
// adminHashKey, "" for none.
func readKeys(s *config.Settings, adminHashKey string) (*keys, error) {
	names, hasher, err := apikeys.Files{Identity: s.Identity, HashKey: adminHashKey}.Read()
	if err != nil && adminHashKey != "" {
		err = fmt.Errorf("--admin-hash-key: %w", err)
	}
	return &keys{hasher: hasher, names: names}, err
}

// tellKeys warns where quotas for API keys cannot be found.
func (p *process) tellKeys() {
	if p.keys.hasher == nil && (p.settings.Tenants != (config.DatabaseURL{}) || p.settings.Follows()) {
		p.logger.Warn("there is no key to hash API keys by: a quota for one is found only where callers send its hash, and what shows an API key shows a hash of it that another node does not have; hint: openssl rand -base64 32 > hash.key, then --admin-hash-key hash.key on all nodes, or hash_key_file in --identity")
	}
}

// openRaw returns the door of a front whose callers say themselves what a request is
// limited on, and so may send API keys as they are.
func (d *doors) openRaw(name string, rights headgate.Rights) *apikeys.Door {
	return d.openRawFor("", name, rights)
}

// openRawFor is openRaw for the caller of that name alone; see openFor.
func (d *doors) openRawFor(caller, name string, rights headgate.Rights) *apikeys.Door {
	return apikeys.Doors{Names: d.keys.names, Veil: d.keys.veil}.Door(d.openFor(caller, name, rights))
}

package app

import (
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/internal/telemetry"
)

// credentialFiles are the files of credentials that are kept as they are on disk. What such a
// file said before stays in force while it cannot be used, also what should go: so that is
// counted, and not told once alone. The zero value has none.
type credentialFiles struct {
	mu    sync.Mutex
	files []*credentialFile
}

type credentialFile struct {
	name  string
	stale atomic.Bool
}

// noted returns reload, with what it says of the file of that name kept for the metrics. reload
// returns an error once, and then no change until the file changes again.
func (c *credentialFiles) noted(name string, reload func() (changed bool, err error)) func() (bool, error) {
	f := &credentialFile{name: name}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files = append(c.files, f)
	return func() (bool, error) {
		changed, err := reload()
		if changed || err != nil {
			f.stale.Store(err != nil)
		}
		return changed, err
	}
}

// tellingOnce makes of reload, which returns an error as long as there is one, what noted takes: one
// that returns it once, and reports a change when the file is good again.
func tellingOnce(reload func() (changed bool, err error)) func() (bool, error) {
	wrong := ""
	return func() (bool, error) {
		was := wrong
		changed, err := reload()
		switch {
		case err == nil:
			wrong = ""
			return changed || was != "", nil
		case err.Error() == was:
			return false, nil
		}
		wrong = err.Error()
		return changed, err
	}
}

// states returns how the files are.
func (c *credentialFiles) states() []telemetry.CredentialFile {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]telemetry.CredentialFile, len(c.files))
	for i, f := range c.files {
		list[i] = telemetry.CredentialFile{Name: f.name, Stale: f.stale.Load()}
	}
	return list
}

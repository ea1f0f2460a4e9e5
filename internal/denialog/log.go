package denialog

import (
	"log/slog"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/keyname"
	"github.com/headgate/headgate/rules"
)

// Options configures a Log.
type Options struct {
	Logger        *slog.Logger
	PerMinute     int
	Hasher        *keyname.Hasher
	ConfigVersion func() string
}

// Log writes lines.
type Log struct{}

// New returns a Log.
func New(o Options) *Log { return &Log{} }

// SetRules says which rules are in force: each has a budget of lines.
func (l *Log) SetRules(set *rules.Set) {}

// Decided implements headgate.Observer.
func (l *Log) Decided(req *headgate.Request, resp *headgate.Response, took time.Duration) {}

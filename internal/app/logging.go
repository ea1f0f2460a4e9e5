package app

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/nonblock"
	"github.com/headgate/headgate/internal/rls"
)

// logPatience is how long the end of the process waits for who reads its log and its
// output, all in all.
const logPatience = 3 * time.Second

// NewLogger returns a logger that writes to w in the format and from the level
// on that s says.
func NewLogger(w io.Writer, s *config.Settings) *slog.Logger {
	var level slog.Level
	// The command line allows only names of levels; of another one, info.
	_ = level.UnmarshalText([]byte(s.LogLevel))
	return newLogger(w, s, level)
}

func newLogger(w io.Writer, s *config.Settings, level slog.Level) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if s.LogFormat == "json" {
		o.ReplaceAttr = spellDuration
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// spellDuration has durations in lines of JSON be what they are in lines of text, such as
// "1.5s": a bare number of nanoseconds does not say its unit.
func spellDuration(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// Logs is what a process that serves says of itself. Nothing of it ever waits for who reads
// that. Make them with OpenLogs.
type Logs struct {
	// Logger writes to the log.
	Logger *slog.Logger
	// Out is the standard output, and Err what the log is written to: for what has to
	// be there in words of its own. Each Write is one or more whole lines.
	Out, Err io.Writer

	writers [2]*nonblock.Writer
}

// OpenLogs returns the Logs that go to these two in the format that s says. What libraries
// log by themselves goes there too. Close them.
func OpenLogs(stdout, stderr io.Writer, s *config.Settings) *Logs {
	errors := nonblock.New(stderr, nonblock.Options{Notice: func(dropped uint64) []byte {
		var line bytes.Buffer
		// At whatever level the lines were.
		newLogger(&line, s, slog.LevelWarn).Warn(fmt.Sprintf("%d log lines were dropped: whoever reads the log was away or too slow", dropped))
		return line.Bytes()
	}})
	out := nonblock.New(stdout, nonblock.Options{})
	l := &Logs{Logger: NewLogger(errors, s), Out: out, Err: errors, writers: [2]*nonblock.Writer{errors, out}}
	slog.SetDefault(l.Logger)
	rls.LogErrors(l.Logger)
	return l
}

// Dropped returns how many lines were dropped since the start because nobody has read them.
func (l *Logs) Dropped() (lines uint64) {
	for _, w := range l.writers {
		lines += w.Dropped()
	}
	return lines
}

// Close writes out what waits, for a few seconds at most: who does not read does not keep a
// process from ending.
func (l *Logs) Close() {
	until := time.Now().Add(logPatience)
	for _, w := range l.writers {
		w.Close(time.Until(until))
	}
}

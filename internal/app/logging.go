package app

import (
	"io"
	"log/slog"

	"github.com/headgate/headgate/internal/config"
)

// NewLogger returns a logger that writes to w in the format and from the level
// on that s says.
func NewLogger(w io.Writer, s *config.Settings) *slog.Logger {
	var level slog.Level
	// The command line allows only names of levels; of another one, info.
	_ = level.UnmarshalText([]byte(s.LogLevel))
	o := &slog.HandlerOptions{Level: level}
	if s.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/headgate/headgate/internal/telemetry"
)

type versionCmd struct{}

// Run prints one line.
func (*versionCmd) Run(std *stdio) error {
	b := buildInfo()
	_, err := fmt.Fprintf(std.out, "headgate %s (%s, %s, %s/%s)\n", b.Version, b.Commit, b.Go, runtime.GOOS, runtime.GOARCH)
	return err
}

// buildInfo reads what the Go tool wrote into the binary.
func buildInfo() telemetry.Build {
	b := telemetry.Build{Version: "unknown", Commit: "unknown commit", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	modified := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.Commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "+changes"
		}
	}
	b.Commit += modified
	return b
}

package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/headgate/headgate/internal/telemetry"
)

// tag is the version that the linker is told; "" where it is told none. The Go tool writes
// the tag of a commit into the binary by itself, but not from a tree without its history.
var tag string

type versionCmd struct{}

// Run prints one line.
func (*versionCmd) Run(std *stdio) error {
	b := buildInfo()
	_, err := fmt.Fprintf(std.out, "headgate %s (%s, %s, %s/%s)\n", b.Version, b.Commit, b.Go, runtime.GOOS, runtime.GOARCH)
	return err
}

// buildInfo reads what the Go tool wrote into the binary.
func buildInfo() telemetry.Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return buildOf(tag, info)
}

// buildOf says which headgate was built: a tag wins over what the Go tool knows.
func buildOf(tag string, info *debug.BuildInfo) telemetry.Build {
	b := telemetry.Build{Version: cmp.Or(tag, info.Main.Version, "unknown"), Commit: "unknown commit", Go: runtime.Version()}
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

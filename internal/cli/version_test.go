package cli

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/headgate/headgate/internal/telemetry"
)

func TestBuildOf(t *testing.T) {
	settings := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}}
	for _, c := range []struct {
		tag  string
		info debug.BuildInfo
		want telemetry.Build
	}{
		{"", debug.BuildInfo{}, telemetry.Build{Version: "unknown", Commit: "unknown commit"}},
		{"", debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, telemetry.Build{Version: "v1.2.3", Commit: "unknown commit"}},
		{"v1.2.4", debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: settings}, telemetry.Build{Version: "v1.2.4", Commit: "abc+changes"}},
	} {
		c.want.Go = runtime.Version()
		if got := buildOf(c.tag, &c.info); got != c.want {
			t.Errorf("tag %q, %+v: %+v, want %+v", c.tag, c.info, got, c.want)
		}
	}
}

// TestVersionFlag holds that --version and version say the same.
func TestVersionFlag(t *testing.T) {
	var flag, command, errors bytes.Buffer
	if code := Run([]string{"--version"}, nil, &flag, &errors); code != exitOK {
		t.Fatalf("--version ends with %d: %s", code, errors.String())
	}
	if code := Run([]string{"version"}, nil, &command, &errors); code != exitOK {
		t.Fatalf("version ends with %d: %s", code, errors.String())
	}
	if flag.String() != command.String() || flag.Len() == 0 {
		t.Errorf("--version says %q, version %q", flag.String(), command.String())
	}
}

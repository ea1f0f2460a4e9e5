package browser

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// The pages of the documentation open as files, without a network and without a fault. The
// search finds what a page says, and leads there.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	s := &stage{t: t, Chromium: testserver.Binary(t, "chromium"), node: testserver.Binary(t, "node"), Modules: modules(t), Shots: shots(t), Base: "null"}
	out := filepath.Join(t.TempDir(), "docs")
	render := exec.CommandContext(t.Context(), "go", "run", "./site", "..", out)
	render.Dir = "../../tools"
	if said, err := render.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	s.File = "file://" + filepath.Join(out, "index.html")
	s.play("docs.mjs")
}

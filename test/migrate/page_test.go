package migrate

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

func TestMain(m *testing.M) { testserver.RunTests(m) }

// page is a page of docs/migrate in a folder of its own.
type page struct {
	dir string
	// files are those that it shows, by name, and serves the commands that serve, in order.
	files  map[string]string
	serves [][]string
}

var fence = regexp.MustCompile("(?ms)^```([a-z]+)(?: ([^\n]+))?\n(.*?)^```$")

// follow does what a page says. swaps are pairs: the second takes the place of the first in the
// files, where the tests need longer windows than readers.
func follow(t *testing.T, name string, swaps ...string) *page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs/migrate", name))
	if err != nil {
		t.Fatal(err)
	}
	program, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	p := &page{dir: t.TempDir(), files: map[string]string{}}
	for _, block := range fence.FindAllStringSubmatch(string(text), -1) {
		kind, word, body := block[1], block[2], block[3]
		switch {
		case kind != "console":
			if word == "" {
				t.Fatalf("%s: a block of %s without the name of its file", name, kind)
			}
			for i := 0; i < len(swaps); i += 2 {
				body = strings.ReplaceAll(body, swaps[i], swaps[i+1])
			}
			p.files[word] = body
			if err := os.WriteFile(filepath.Join(p.dir, word), []byte(body), 0o600); err != nil {
				t.Fatal(err)
			}
		case word == "":
			p.run(t, filepath.Dir(program), body)
		case word != "shown":
			t.Fatalf("%s: a console that is %q", name, word)
		}
	}
	return p
}

// run runs the commands of a block; those that serve are kept for later.
func (p *page) run(t *testing.T, programs, block string) {
	t.Helper()
	for _, part := range strings.Split("\n"+block, "\n$ ")[1:] {
		command, said, _ := strings.Cut(part, "\n")
		if words := strings.Fields(command); words[0] == "headgate" && (words[1] == "serve" || words[1] == "proxy") {
			p.serves = append(p.serves, words[1:])
			continue
		}
		shell := exec.Command("sh", "-c", command)
		shell.Dir, shell.Env = p.dir, append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"))
		out, err := shell.CombinedOutput()
		if err != nil {
			t.Errorf("$ %s\n%s%v", command, out, err)
		}
		for line := range strings.Lines(said) {
			if line = strings.TrimSpace(line); !strings.Contains(string(out), line) {
				t.Errorf("$ %s\ndoes not say %q:\n%s", command, line, out)
			}
		}
	}
}

// serve starts the nth command that serves, with the ports of the page exchanged and without an
// address for operators, and waits until it serves.
func (p *page) serve(t *testing.T, n int, ports ...string) *testserver.Process {
	t.Helper()
	program, err := testserver.Headgate()
	if err != nil {
		t.Fatal(err)
	}
	var args []string
	for _, word := range p.serves[n] {
		for i := 0; i < len(ports); i += 2 {
			word = strings.ReplaceAll(word, ports[i], ports[i+1])
		}
		args = append(args, word)
	}
	command := exec.Command(program, append(args, "--ops-addr", "", "--drain-delay", "0s", "--store-budget", "10s")...)
	command.Dir = p.dir
	process, err := testserver.StartProcess(command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Terminate)
	if err := process.Poll(func() error {
		if !strings.Contains(process.Output(), "headgate ready") {
			return fmt.Errorf("it does not say that it is ready")
		}
		return nil
	}); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return process
}

package oldservice

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// scenario is a file of testdata.
type scenario struct {
	path    string
	comment []byte
	rules   string
	steps   []step
	answers []recorded
}

// step is one request.
type step struct {
	request string // a RateLimitRequest in JSON
	// later asks for it in a second after that of the step before.
	later bool
	// differs, when not "", is why Headgate answers otherwise; docs/rules.md has it too.
	differs string
}

// recorded is what the old service answered to a step.
type recorded struct {
	// At is the Unix second in which it did.
	At int64 `json:"at"`
	// Status is that of HTTP: 200, 429 over the limit, 400 for an error.
	Status int `json:"status"`
	// Answer is a RateLimitResponse in JSON; the text of an error as a JSON string.
	Answer json.RawMessage `json:"answer"`
}

// What may stand between requests, about the next one.
const (
	nextSecond = "next second"
	differs    = "differs: "
)

func scenarios(t *testing.T) []*scenario {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	var all []*scenario
	for _, path := range paths {
		s, err := readScenario(path)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, s)
	}
	return all
}

func readScenario(path string) (*scenario, error) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		return nil, err
	}
	s := &scenario{path: path, comment: archive.Comment}
	for _, f := range archive.Files {
		switch f.Name {
		case "rules.yaml":
			s.rules = string(f.Data)
		case "requests":
			s.steps = steps(string(f.Data))
		case "answers":
			lines := bufio.NewScanner(strings.NewReader(string(f.Data)))
			for lines.Scan() {
				var r recorded
				if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
					return nil, fmt.Errorf("answer %d: %w", len(s.answers)+1, err)
				}
				s.answers = append(s.answers, r)
			}
		default:
			return nil, fmt.Errorf("part %s is unknown", f.Name)
		}
	}
	if s.rules == "" || len(s.steps) == 0 {
		return nil, fmt.Errorf("rules.yaml and requests are needed")
	}
	return s, nil
}

func steps(text string) []step {
	var all []step
	var next step
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		reason, known := strings.CutPrefix(line, differs)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case line == nextSecond:
			next.later = true
		case known:
			next.differs = reason
		default:
			next.request = line
			all = append(all, next)
			next = step{}
		}
	}
	return all
}

// write puts the answers into the file of s; the rest of it stays as it is.
func (s *scenario) write(answers []recorded) error {
	archive, err := txtar.ParseFile(s.path)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, a := range answers {
		line, err := json.Marshal(a)
		if err != nil {
			return err
		}
		text.Write(append(line, '\n'))
	}
	files := archive.Files[:0]
	for _, f := range archive.Files {
		if f.Name != "answers" {
			files = append(files, f)
		}
	}
	archive.Files = append(files, txtar.File{Name: "answers", Data: []byte(text.String())})
	return os.WriteFile(s.path, txtar.Format(archive), 0o644)
}

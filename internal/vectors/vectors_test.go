package vectors_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/headgate/headgate/internal/vectors"
	"github.com/headgate/headgate/limit"
)

var update = flag.Bool("update", false, "record the decisions of package limit into testdata")

func newBucket() vectors.Take { return new(vectors.Bucket).Take }

func TestScriptsReplayAgainstDecide(t *testing.T) {
	if *update {
		record(t)
		return
	}
	for _, s := range vectors.All() {
		t.Run(filepath.Base(s.File)+"/"+s.Name, func(t *testing.T) {
			if err := s.Replay(newBucket()); err != nil {
				t.Error(err)
			}
		})
	}
}

func record(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		recorded, err := vectors.Record(file, string(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(recorded), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestScriptsAreWhole keeps a step without a decision, which would test nothing,
// and an algorithm without a script from going unnoticed.
func TestScriptsAreWhole(t *testing.T) {
	if *update {
		t.Skip("what has been embedded is not what has been recorded")
	}
	seen := map[limit.Algorithm]bool{}
	for _, s := range vectors.All() {
		for _, step := range s.Steps {
			seen[step.Limit.Algorithm] = true
			if step.Want == nil && step.Op != vectors.Reset {
				t.Errorf("%s:%d: no decision is recorded", s.File, step.Line)
			}
		}
	}
	for a := limit.SlidingWindow; a <= limit.Ban; a++ {
		if !seen[a] {
			t.Errorf("no script for %v", a)
		}
	}
}

const example = `# A comment.
scenario one # another
limit token_bucket 10 per 1s burst=5
at 12:00:00 hits=2 => allow limit=5 remaining=3 reset=200ms
at +1s refund=1 => allow limit=5 remaining=5  # why
at +0s reset
`

func TestReplayFindsAWrongDecision(t *testing.T) {
	wrong := strings.Replace(example, "remaining=3", "remaining=4", 1)
	scenarios, err := vectors.Load(fstest.MapFS{"a.txt": {Data: []byte(wrong)}, "b.md": {Data: []byte("no script")}})
	if err != nil || len(scenarios) != 1 {
		t.Fatalf("%d scenarios, %v", len(scenarios), err)
	}
	err = scenarios[0].Replay(newBucket())
	if err == nil || !strings.Contains(err.Error(), "a.txt:4") || !strings.Contains(err.Error(), "remaining=3") {
		t.Fatalf("got %v, want the place and both decisions", err)
	}
}

func TestRecordRestoresDecisionsAndKeepsTheRest(t *testing.T) {
	for _, changed := range []string{
		strings.Replace(example, "remaining=3", "remaining=4", 1),
		strings.Replace(example, "=> allow limit=5 remaining=5  # why", " # why", 1),
		example,
	} {
		got, err := vectors.Record("a.txt", changed)
		if err != nil {
			t.Fatal(err)
		}
		if got != example {
			t.Errorf("recorded\n%s\nwant\n%s", got, example)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const head = "scenario s\nlimit gcra 1 per 1s\n"
	for text, want := range map[string]string{
		"limit gcra 1 per 1s":                                           "x:1: nothing may come before",
		"scenario":                                                      "no name",
		"scenario s\nscenario s":                                        "x:2: scenario \"s\" is there already",
		"scenario s\nat 12:00:00 hits=1":                                "no limit",
		"scenario s\nlimit gcra 1":                                      "incomplete limit",
		"scenario s\nlimit best 1 per 1s":                               "unknown algorithm",
		"scenario s\nlimit gcra x per 1s":                               "not a count",
		"scenario s\nlimit gcra 1 per 1x":                               "duration",
		"scenario s\nlimit gcra 1 per 99999999d":                        "duration",
		"scenario s\nlimit gcra 1 per 1s fast":                          "unknown option",
		"scenario s\nlimit gcra 1 per 1s zone=Z":                        "unknown option",
		"scenario s\nlimit gcra 1 per day":                              "calendar",
		"scenario s\nlimit fixed_window 1 per day zone=Europe/Atlantis": "time zone",
		head + "go":                            "x:3: unknown line",
		head + "at noon hits=1":                "instant",
		head + "at 12:00:00":                   "incomplete step",
		head + "at 12:00:00 hits=-1":           "not a count",
		head + "at 12:00:00 take=1":            "unknown operation",
		head + "at 12:00:00 reset => allow":    "a reset has no",
		head + "at 12:00:00 reset=1":           "unknown operation",
		head + "at 12:00:00 hits":              "unknown operation",
		head + "at 12:00:00 acquire=1":         "gcra has no slots",
		"scenario s\nlimit ban 1 per 1s for=x": "duration",
		head + "at 12:00:00 hits=1 =>":         "incomplete step",
		head + "at 12:00:00 hits=1 allow":      "incomplete step",
		head + "at 12:00:00 hits=1 => maybe":   "unknown verdict",
		head + "at 12:00:00 hits=1 => deny a":  "unknown part",
	} {
		_, err := vectors.Parse("x", text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// FuzzParse looks for scripts that make the parser panic, and for ones that it
// reads otherwise after they have been recorded.
func FuzzParse(f *testing.F) {
	f.Add(example)
	f.Add("scenario s\nlimit fixed_window 5 per month zone=Europe/Berlin\nat 2026-03-29T00:30:00Z hits=5 #\n")
	f.Add("scenario s\nlimit sub_windows 5 per 1s parts=4 strict count_denied\nat -1h hits=9 => never")
	f.Add("scenario s\nlimit concurrency 1 per 1s\nat +0s acquire=1\nat +0s renew=2\nat +1s release=1\nat +0s acquire=9007199254740992")
	f.Add("scenario s\nlimit ban 2 per 1s for=3s\nat +0s charge=1\nat +0s charge=1\nat +0s hits=1")
	f.Fuzz(func(t *testing.T, text string) {
		recorded, err := vectors.Record("f", text)
		if err != nil {
			return
		}
		scenarios, err := vectors.Parse("f", recorded)
		if err != nil {
			t.Fatalf("recorded %q, which does not parse: %v", recorded, err)
		}
		for _, s := range scenarios {
			if err := s.Replay(newBucket()); err != nil {
				t.Fatalf("recorded %q, which does not replay: %v", recorded, err)
			}
		}
		again, err := vectors.Record("f", recorded)
		if err != nil || again != recorded {
			t.Fatalf("recorded %q, then %q, %v", recorded, again, err)
		}
	})
}

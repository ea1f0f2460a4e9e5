package figures

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatIsKeptIsRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "figures")
	row := Row{Section: "grpc", Table: "1 descriptor", System: "peer", Values: map[string]float64{"server_us": 12.5}}
	if err := Append(name, []Row{row}); err != nil {
		t.Fatal(err)
	}
	if err := Append(name, []Row{{Section: "grpc", Table: "1 descriptor", System: "gone", Missing: "it ended"}}); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	set, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := set.At(Place{"grpc", "1 descriptor", "peer", "server_us"}); v != 12.5 || err != nil {
		t.Errorf("%v, %v", v, err)
	}
	for _, p := range []Place{
		{"grpc", "1 descriptor", "gone", "server_us"},
		{"grpc", "1 descriptor", "peer", "redis_us"},
		{"grpc", "3 descriptors", "peer", "server_us"},
	} {
		var missing *MissingError
		if _, err := set.At(p); !errors.As(err, &missing) || missing.Reason == "" {
			t.Errorf("%v: %v", p, err)
		}
	}
}

func TestNoFileKeepsNothing(t *testing.T) {
	if err := Append("", []Row{{}}); err != nil {
		t.Error(err)
	}
}

func TestBadLines(t *testing.T) {
	if _, err := Read(strings.NewReader("{}\nnonsense\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("%v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"section":"grpc","table":"t","system":"s","values":{"a":1}}`)
	f.Add("\n{")
	f.Fuzz(func(t *testing.T, text string) {
		set, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, r := range set {
			for name := range r.Values {
				if _, err := set.At(Place{r.Section, r.Table, r.System, name}); err != nil && r.Missing == "" && len(set) == 1 {
					t.Error(err)
				}
			}
		}
	})
}

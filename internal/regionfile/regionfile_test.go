package regionfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/store/regional"
	"github.com/headgate/headgate/store/totals"
)

func load(t *testing.T, text string) (*Regions, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "regions.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(path)
}

func TestRegionsOfAFile(t *testing.T) {
	r, err := load(t, "home: home\nreserve: 12.5%\nregions:\n  frankfurt: {weight: 2}\n  virginia:\n  singapore: {}\n")
	if err != nil {
		t.Fatal(err)
	}
	if w := r.Layout.Weights; r.Home != "home" || r.Layout.Reserve != 125_000 || len(w) != 3 || w["frankfurt"] != 2 || w["virginia"] != 1 || w["singapore"] != 1 {
		t.Errorf("%+v", r)
	}
	if err := r.Check("virginia"); err != nil {
		t.Error(err)
	}
	if err := r.Check("tokyo"); err == nil || !strings.Contains(err.Error(), "there is no region tokyo; hint: one of frankfurt, singapore, virginia") {
		t.Error(err)
	}
	if r, err = load(t, "home: home\nregions: {a: {}}"); err != nil || r.Layout.Reserve != defaultReserve {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestStoresOfAFile(t *testing.T) {
	r, err := load(t, "exchange: 500ms\nfloor: 0.5%\nregions: {frankfurt: {store: fra}, virginia: {store: vir, weight: 3}}")
	if err != nil {
		t.Fatal(err)
	}
	if r.Home != "" || r.Exchange != 500*time.Millisecond || r.Floor != 5000 || len(r.Stores) != 2 || r.Stores["frankfurt"] != "fra" || r.Stores["virginia"] != "vir" {
		t.Errorf("%+v", r)
	}
	if r, err = load(t, "home: home\nfloor: 0%\nregions: {a: {store: s}, b: {store: o}}"); err != nil || r.Exchange != time.Second || r.Floor != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	floor, most := (&Regions{Floor: 10_000, Stores: map[string]string{"a": "s", "b": "o", "c": "p"}}).Excess(limit.Must(limit.PerMinute(1050)))
	if floor != 10 || most != 2100 {
		t.Errorf("%d and %d", floor, most)
	}
}

// The example of the documentation is a file of regions.
func TestExample(t *testing.T) {
	page, err := os.ReadFile("../../docs/regions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\nhome:")
	text, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/regions.md has no example")
	}
	if r, err := load(t, "home:"+text); err != nil || len(r.Layout.Weights) != 3 || len(r.Stores) != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestBadFiles(t *testing.T) {
	var many strings.Builder
	many.WriteString("home: h\nregions:\n")
	for i := range regional.MaxRegions + 1 {
		many.WriteString("  r" + strings.Repeat("x", i) + ": {}\n")
	}
	for text, want := range map[string]string{
		"":                                   "there is no home, and no region has a store; hint:",
		"regions: {a: {}}":                   "there is no home, and no region has a store; hint:",
		"home: h":                            "no regions; hint: regions:",
		"home: Home\nregions: {a: {}}":       `home: name "Home"`,
		"home: h\nregions: {A: {}}":          `region A: name "A"`,
		"home: h\nregions: {a: {weight: 0}}": "region a: weight: 0 is out of range; hint: from 1 to 1000000",
		"home: h\nregions: {a: {weight: -1}, b: {weight: 2000000}}": "region b: weight: 2000000 is out of range",
		"home: h\nregions: {a: {load: 1}}":                          `regions.yaml:2:15: unknown key "load"; hint: there is weight`,
		"home: h\nregions: {a: {weight: x}}":                        "regions.yaml:2:23: weight: text is not a whole number",
		"home: h\nreserve: 0.1\nregions: {a: {}}":                   `reserve: "0.1" is no share; hint: from 0.1% to 90%`,
		"home: h\nreserve: 0%\nregions: {a: {}}":                    "reserve: 0% is out of range",
		"home: h\nreserve: 95%\nregions: {a: {}}":                   "reserve: 95% is out of range",
		"home: h\nreserve: -5%\nregions: {a: {}}":                   "is no share",
		"home: h\nreserve: 1.23456%\nregions: {a: {}}":              "is no share",
		many.String():                                              "33 regions; hint: at most 32",
		"regions: {a: {store: s}, b: {}}":                          "regions b have no store, and others have",
		"regions: {a: {store: s}, b: {store: s}}":                  "regions a and b have one store, s",
		"home: s\nregions: {a: {store: s}, b: {store: o}}":         "home: s is the store of the region a",
		"regions: {a: {store: S}, b: {store: o}}":                  `region a: store: name "S"`,
		"exchange: 1ms\nregions: {a: {store: s}, b: {store: o}}":   `exchange: "1ms" is out of range; hint: from 200ms to 10s`,
		"exchange: often\nregions: {a: {store: s}, b: {store: o}}": `exchange: "often" is out of range`,
		"floor: 1\nregions: {a: {store: s}, b: {store: o}}":        `floor: "1" is no share`,
		"floor: 21%\nregions: {a: {store: s}, b: {store: o}}":      "floor: 21% is out of range; hint: from 0% to 20%",
	} {
		r, err := load(t, text)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "regions.yaml") {
			t.Errorf("%q: %+v, %v; want %q", text, r, err, want)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml")); err == nil {
		t.Error("a file that is not there")
	}
}

// Whatever a file holds, it is refused or can be used.
func FuzzParse(f *testing.F) {
	f.Add("home: home\nreserve: 10%\nregions: {frankfurt: {weight: 2}, virginia: null}")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parse([]byte(text))
		if err != nil {
			return
		}
		if total := r.Layout.Total(); total < int64(len(r.Layout.Weights)) || total < 1 || r.Layout.Reserve < 1 || r.Layout.Reserve > regional.MaxReserve || r.Home == "" && len(r.Stores) == 0 || r.Exchange <= 0 || r.Floor < 0 || r.Floor > totals.MaxFloor {
			t.Errorf("%q: %+v", text, r)
		}
	})
}

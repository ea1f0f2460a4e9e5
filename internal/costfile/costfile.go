// Package costfile reads the file that says what answers cost, such as tokens of a language
// model:
//
//	shape: openai
//	weights: {input: 1, output: 4}
//	budgets: [total, output]
//	models: [gpt-4o, gpt-4o-mini]
//
// or, for an API of another shape, in place of shape:
//
//	counts:
//	  - {name: output, paths: [usage.generated], text: [text], ceiling: [max_new_tokens], usual: 500}
//
// Its shortest form is no file but the name of a shape.
package costfile

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/answercost"
	"github.com/headgate/headgate/costlimit"
	"github.com/headgate/headgate/internal/spelling"
	"github.com/headgate/headgate/internal/yamlfile"
)

// Bounds of the file.
const (
	maxBytes = 1 << 20
	maxPaths = 100
)

// document is the file as it is written.
type document struct {
	Shape       string             `yaml:"shape"`
	Counts      []count            `yaml:"counts"`
	Weights     map[string]float64 `yaml:"weights"`
	Model       string             `yaml:"model"`
	Budgets     []string           `yaml:"budgets"`
	Models      []string           `yaml:"models"`
	Paths       []string           `yaml:"paths"`
	MaxEstimate int64              `yaml:"max_estimate"`
	MaxRequest  int64              `yaml:"max_request"`
	TTL         time.Duration      `yaml:"ttl"`
}

type count struct {
	Name      string   `yaml:"name"`
	Paths     []string `yaml:"paths"`
	Fold      string   `yaml:"fold"`
	Text      []string `yaml:"text"`
	OfRequest bool     `yaml:"of_request"`
	Ceiling   []string `yaml:"ceiling"`
	Usual     int64    `yaml:"usual"`
}

// shapes are the counts of the APIs that are known by name.
var shapes = map[string]func() []answercost.Count{"openai": answercost.OpenAI, "anthropic": answercost.Anthropic}

// folds are the words for which number counts.
var folds = map[string]answercost.Fold{"": answercost.Most, "most": answercost.Most, "last": answercost.Last, "sum": answercost.Sum}

// Load returns the options that named says, without Limits: the name of a shape, or a file.
// The error names the file, and the line where it is known.
func Load(named string) (costlimit.Options, error) {
	if _, ok := shapes[named]; ok {
		return (&document{Shape: named}).options()
	}
	data, err := yamlfile.Read(named, maxBytes)
	if err != nil {
		return costlimit.Options{}, fmt.Errorf("read costs: %w; hint: a file, or one of %s", err, names(shapes))
	}
	o, err := parse(data)
	return o, yamlfile.Show(named, data, err)
}

func parse(data []byte) (costlimit.Options, error) {
	var d document
	if err := yamlfile.Parse(data, &d); errors.Is(err, yamlfile.ErrEmpty) {
		return costlimit.Options{}, errors.New("empty; hint: shape: openai")
	} else if err != nil {
		return costlimit.Options{}, err
	}
	return d.options()
}

func names[V any](m map[string]V) string { return strings.Join(slices.Sorted(maps.Keys(m)), ", ") }

func (d *document) options() (costlimit.Options, error) {
	counts, err := d.counts()
	if err == nil {
		err = d.weigh(counts)
	}
	if err != nil {
		return costlimit.Options{}, err
	}
	shape, err := answercost.New(answercost.Options{Counts: counts, Model: d.Model, MaxEstimate: d.MaxEstimate})
	if err != nil {
		return costlimit.Options{}, err
	}
	applies, err := below(d.Paths)
	return costlimit.Options{
		Shape: shape, Budgets: d.Budgets, Models: d.Models, Applies: applies, MaxRequest: d.MaxRequest, TTL: d.TTL,
	}, err
}

func (d *document) counts() ([]answercost.Count, error) {
	switch {
	case (d.Shape == "") == (len(d.Counts) == 0):
		return nil, errors.New("shape and counts: neither, or both; hint: shape: openai, or counts of your own")
	case d.Shape != "":
		preset, ok := shapes[d.Shape]
		if !ok {
			return nil, unknown("shape", d.Shape, shapes)
		}
		return preset(), nil
	}
	var counts []answercost.Count
	for i, c := range d.Counts {
		fold, ok := folds[c.Fold]
		if !ok {
			return nil, fmt.Errorf("counts[%d]: %w", i, unknown("fold", c.Fold, folds))
		}
		counts = append(counts, answercost.Count{
			Name: c.Name, Paths: c.Paths, Fold: fold, Text: c.Text, OfRequest: c.OfRequest, Ceiling: c.Ceiling, Usual: c.Usual,
		})
	}
	return counts, nil
}

// unknown returns the error for a word that is not one of known.
func unknown[V any](key, word string, known map[string]V) error {
	hint := "one of " + strings.TrimPrefix(names(known), ", ")
	if near := spelling.Nearest(word, maps.Keys(known)); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	return fmt.Errorf("%s: %.40q is unknown; hint: %s", key, word, hint)
}

// weigh sets the weights of counts.
func (d *document) weigh(counts []answercost.Count) error {
	for _, name := range slices.Sorted(maps.Keys(d.Weights)) {
		i := slices.IndexFunc(counts, func(c answercost.Count) bool { return c.Name == name })
		if i < 0 {
			return fmt.Errorf("weights: there is no count %.40q; hint: the names of counts", name)
		}
		weight := math.Round(d.Weights[name] * answercost.WeightOne)
		if !(weight >= 0 && weight <= answercost.MaxWeight) || weight == 0 && d.Weights[name] != 0 {
			return fmt.Errorf("weights: %s: %v is out of range; hint: 0, or 0.001 to %d", name, d.Weights[name], answercost.MaxWeight/answercost.WeightOne)
		}
		counts[i].Weight, counts[i].Free = int64(weight), weight == 0
	}
	return nil
}

// below returns what says of a request whether it costs something: one with a body, to one of
// the paths or, where that ends in a slash, below it.
func below(paths []string) (func(*http.Request) bool, error) {
	if len(paths) > maxPaths {
		return nil, fmt.Errorf("paths: %d of them; hint: at most %d", len(paths), maxPaths)
	}
	for _, p := range paths {
		if !strings.HasPrefix(p, "/") {
			return nil, fmt.Errorf("paths: %.80q begins without a slash; hint: /v1/chat/completions, or /v1/ for all below", p)
		}
	}
	if len(paths) == 0 {
		return nil, nil
	}
	return func(r *http.Request) bool {
		// As a backend would clean it, so that no spelling of a path costs nothing.
		asked := path.Clean("/" + r.URL.Path)
		return r.Body != nil && r.Body != http.NoBody && slices.ContainsFunc(paths, func(p string) bool {
			return asked == path.Clean(p) || strings.HasSuffix(p, "/") && strings.HasPrefix(asked, p)
		})
	}, nil
}

// Package storefile reads the file that names stores beside that of --store, for rules whose
// buckets are kept elsewhere:
//
//	stores:
//	  home:
//	    url: rediss://headgate@redis.fra.internal:6380/0?password_file=/run/secrets/home
//	    budget: 300ms
//	    breaker: {failures: 5, ratio: 0.5, slow: 200ms, pause: 2s}
//	  acme:
//	    url: "redis+sentinel://s1:26379,s2:26379/0?master=acme&prefix=acme:"
//
// What a store does not say is as it is for that of --store.
package storefile

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/headgate/headgate/internal/config"
	"github.com/headgate/headgate/internal/yamlfile"
	"github.com/headgate/headgate/rules"
)

const (
	// maxStores is how many stores a file may name.
	maxStores = 14
	// maxBytes bounds the file.
	maxBytes = 1 << 20
)

// Names that no store of a file can have: the label of the store of --store in metrics, and
// the name of that of --store-per-second.
const (
	Main      = "store"
	PerSecond = "per_second"
)

// Store is one store of a file.
type Store struct {
	Name string
	URL  config.StoreURL
	config.StoreTuning
}

// document is the file as it is written.
type document struct {
	Stores map[string]entry `yaml:"stores"`
}

type entry struct {
	URL     string        `yaml:"url"`
	Budget  time.Duration `yaml:"budget"`
	Breaker struct {
		Failures int           `yaml:"failures"`
		Ratio    float64       `yaml:"ratio"`
		Slow     time.Duration `yaml:"slow"`
		Pause    time.Duration `yaml:"pause"`
	} `yaml:"breaker"`
}

// Load reads the file at path; usual is what holds for stores that do not say otherwise. The
// stores come in the order of their names. The error names the file, and never a URL.
func Load(path string, usual config.StoreTuning) ([]Store, error) {
	data, err := yamlfile.Read(path, maxBytes)
	if err != nil {
		return nil, err
	}
	stores, err := parse(data, usual)
	return stores, yamlfile.In(path, err)
}

func parse(data []byte, usual config.StoreTuning) ([]Store, error) {
	var d document
	if err := yamlfile.Parse(data, &d); err != nil && !errors.Is(err, yamlfile.ErrEmpty) {
		return nil, err
	}
	switch {
	case len(d.Stores) == 0:
		return nil, errors.New("no stores; hint: stores: {home: {url: redis://host:6379/0}}")
	case len(d.Stores) > maxStores:
		return nil, fmt.Errorf("%d stores; hint: at most %d", len(d.Stores), maxStores)
	}
	var stores []Store
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(d.Stores)) {
		e := d.Stores[name]
		s, err := e.store(name, usual)
		if err != nil {
			problems = append(problems, fmt.Errorf("store %.40s: %w", name, err))
		}
		stores = append(stores, s)
	}
	return stores, errors.Join(problems...)
}

// store returns what e says with what it leaves out.
func (e *entry) store(name string, usual config.StoreTuning) (Store, error) {
	s := Store{Name: name, URL: config.NewStoreURL(e.URL), StoreTuning: usual}
	if e.Budget != 0 {
		// What counts as slow follows the budget, unless it is said.
		s.Budget, s.BreakerSlow = e.Budget, 0
	}
	s.BreakerFailures = cmp.Or(e.Breaker.Failures, s.BreakerFailures)
	s.BreakerRatio = cmp.Or(e.Breaker.Ratio, s.BreakerRatio)
	s.BreakerSlow = cmp.Or(e.Breaker.Slow, s.BreakerSlow)
	s.BreakerPause = cmp.Or(e.Breaker.Pause, s.BreakerPause)
	return s, errors.Join(checkName(name), checkURL(s.URL), s.Check())
}

func checkName(name string) error {
	if name == Main || name == PerSecond {
		return errors.New("the name is taken, by --store or --store-per-second; hint: another name")
	}
	return rules.CheckStoreName(name)
}

// checkURL refuses what names no store that other processes share.
func checkURL(u config.StoreURL) error {
	if u.Scheme() == "memory" {
		return errors.New("url: a memory store counts in this process alone; hint: redis://host:6379/0")
	}
	return u.CheckAs("url")
}

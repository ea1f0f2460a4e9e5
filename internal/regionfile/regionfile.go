// Package regionfile reads the file that says which regions there are, for rules whose limits
// hold over all of them:
//
//	home: home      # the store, in the file of --stores, that keeps their tokens
//	reserve: 10%    # of each limit, for regions that are cut off or ask for the first time
//	regions:
//	  frankfurt: {weight: 2}
//	  virginia: {weight: 1}
//	  singapore: {weight: 1}
//
// It is the same in all regions.
package regionfile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/internal/yamlfile"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store/regional"
)

const (
	// DefaultReserve is the reserve unless the file says another one, in millionths.
	DefaultReserve = 100_000
	// maxBytes bounds the file.
	maxBytes = 1 << 20
)

// Regions is what a file says.
type Regions struct {
	// Home is the name of the store that keeps the tokens of rules that name no other.
	Home string
	// Layout is the regions and the reserve.
	Layout regional.Layout
}

// document is the file as it is written.
type document struct {
	Home    string           `yaml:"home"`
	Reserve string           `yaml:"reserve"`
	Regions map[string]entry `yaml:"regions"`
}

type entry struct {
	Weight *int64 `yaml:"weight"`
}

// Load reads the file at path. The error names the file.
func Load(path string) (*Regions, error) {
	data, err := yamlfile.Read(path, maxBytes)
	if err != nil {
		return nil, err
	}
	r, err := parse(data)
	return r, yamlfile.Show(path, data, err)
}

func parse(data []byte) (*Regions, error) {
	var d document
	if err := yamlfile.Parse(data, &d); err != nil && !errors.Is(err, yamlfile.ErrEmpty) {
		return nil, err
	}
	r := &Regions{Home: d.Home, Layout: regional.Layout{Weights: map[string]int64{}, Reserve: DefaultReserve}}
	var problems []error
	if d.Home == "" {
		problems = append(problems, errors.New("home: there is none; hint: the name of a store in the file of --stores, such as home: home"))
	} else if err := rules.CheckStoreName(d.Home); err != nil {
		problems = append(problems, fmt.Errorf("home: %w", err))
	}
	if d.Reserve != "" {
		var err error
		if r.Layout.Reserve, err = reserve(d.Reserve); err != nil {
			problems = append(problems, err)
		}
	}
	switch {
	case len(d.Regions) == 0:
		problems = append(problems, errors.New("no regions; hint: regions: {frankfurt: {weight: 2}, virginia: {weight: 1}}"))
	case len(d.Regions) > regional.MaxRegions:
		problems = append(problems, fmt.Errorf("%d regions; hint: at most %d", len(d.Regions), regional.MaxRegions))
	}
	for _, name := range slices.Sorted(maps.Keys(d.Regions)) {
		weight, err := d.Regions[name].weight(name)
		if err != nil {
			problems = append(problems, fmt.Errorf("region %.40s: %w", name, err))
		}
		r.Layout.Weights[name] = weight
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return r, nil
}

// weight returns the weight of the region called name; 1 unless it says another one.
func (e entry) weight(name string) (int64, error) {
	if err := rules.CheckStoreName(name); err != nil {
		return 0, err
	}
	if e.Weight == nil {
		return 1, nil
	}
	if *e.Weight < 1 || *e.Weight > regional.MaxWeight {
		return 0, fmt.Errorf("weight: %d is out of range; hint: from 1 to %d", *e.Weight, regional.MaxWeight)
	}
	return *e.Weight, nil
}

// reserve reads a share such as "10%", with up to four digits behind the point, in millionths.
func reserve(text string) (int64, error) {
	const hint = "hint: from 0.1% to 90%, such as 10%"
	number, percent := strings.CutSuffix(text, "%")
	whole, part, _ := strings.Cut(number, ".")
	if !percent || whole == "" || len(whole) > 2 || len(part) > 4 || strings.ContainsFunc(whole+part, func(r rune) bool { return r < '0' || r > '9' }) {
		return 0, fmt.Errorf("reserve: %.20q is no share; %s", text, hint)
	}
	n, err := strconv.ParseInt(whole+part+strings.Repeat("0", 4-len(part)), 10, 64)
	if err != nil || n < 1000 || n > regional.MaxReserve {
		return 0, fmt.Errorf("reserve: %s is out of range; %s", text, hint)
	}
	return n, nil
}

// Check returns why region is none of r, nil if it is one.
func (r *Regions) Check(region string) error {
	names := strings.Join(slices.Sorted(maps.Keys(r.Layout.Weights)), ", ")
	if region == "" {
		return fmt.Errorf("it is not said in which region this process is; hint: one of %s", names)
	}
	if _, known := r.Layout.Weights[region]; !known {
		return fmt.Errorf("there is no region %.40s; hint: one of %s", region, names)
	}
	return nil
}

// Fit returns why a rule cannot hold over the regions of r, nil if it can or does not ask for
// it. A nil r is no regions.
func (r *Regions) Fit(rule *rules.Rule) error {
	if rule.Mode.Regions != rules.RegionsLeased {
		return nil
	}
	if r == nil {
		return errors.New("regions: leased, and nobody has said which regions there are; hint: --regions FILE and --region NAME")
	}
	for i := range rule.Limits {
		if err := r.Layout.Check(rule.Limits[i].Limit); err != nil {
			return fmt.Errorf("regions: leased: %w", err)
		}
	}
	return nil
}

// Promise says what a rule that fits promises over the regions of r, and what may stay unused;
// "" of others.
func (r *Regions) Promise(rule *rules.Rule) string {
	if r == nil || rule.Mode.Regions != rules.RegionsLeased {
		return ""
	}
	var parts []string
	for i := range rule.Limits {
		parts = append(parts, r.promise(rule.Limits[i].Limit))
	}
	return "over all regions: excess 0; " + strings.Join(parts, " and ")
}

// promise says how l is cut.
func (r *Regions) promise(l *limit.Limit) string {
	var reserves []string
	var home, sum, least int64
	for _, region := range slices.Sorted(maps.Keys(r.Layout.Weights)) {
		c, err := r.Layout.CutFor(region, l)
		if err != nil {
			return err.Error()
		}
		own := c.Own.Quota
		home, sum = c.Home.Quota, sum+own
		if least == 0 || own < least {
			least = own
		}
		reserves = append(reserves, fmt.Sprintf("%s %d", region, own))
	}
	return fmt.Sprintf("of %d the home lends %d and reserves are %s; unused <= %d (%.1f%%) when all demand is in one region, and what nodes hold",
		l.Quota, home, strings.Join(reserves, ", "), sum-least, 100*float64(sum-least)/float64(l.Quota))
}

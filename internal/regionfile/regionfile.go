// Package regionfile reads the file that says which regions there are, for rules whose limits
// hold over all of them:
//
//	home: home      # the store, in the file of --stores, that keeps the tokens of leased rules
//	reserve: 10%    # of each of their limits, for regions that are cut off or ask for the first time
//	exchange: 1s    # how often regions tell each other what passed by shared rules
//	floor: 1%       # of each of their limits, what a region need not tell
//	regions:
//	  frankfurt: {weight: 2, store: fra} # the store by which others reach it
//	  virginia: {weight: 1, store: vir}
//	  singapore: {weight: 1, store: sin}
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
	"time"

	"github.com/headgate/headgate/internal/yamlfile"
	"github.com/headgate/headgate/limit"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/store/regional"
	"github.com/headgate/headgate/store/totals"
)

const (
	// defaultReserve is the reserve unless the file says another one, in millionths.
	defaultReserve = 100_000
	// maxBytes bounds the file.
	maxBytes = 1 << 20
)

// Regions is what a file says.
type Regions struct {
	// Home is the name of the store that keeps the tokens of leased rules that name no other; ""
	// where no rule may be leased.
	Home string
	// Layout is the regions and the reserve.
	Layout regional.Layout
	// Exchange is the time between two rounds in which a region tells the others, Floor the part
	// of a limit of which it need not, in millionths.
	Exchange time.Duration
	Floor    int64
	// Stores are the names of the stores by which others reach a region, by its name; empty
	// where no rule may be shared.
	Stores map[string]string
}

// document is the file as it is written.
type document struct {
	Home     string           `yaml:"home"`
	Reserve  string           `yaml:"reserve"`
	Exchange string           `yaml:"exchange"`
	Floor    string           `yaml:"floor"`
	Regions  map[string]entry `yaml:"regions"`
}

type entry struct {
	Weight *int64 `yaml:"weight"`
	Store  string `yaml:"store"`
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
	r := &Regions{Home: d.Home, Layout: regional.Layout{Weights: map[string]int64{}, Reserve: defaultReserve}, Stores: map[string]string{}}
	problems := []error{r.readHome(&d), r.readExchange(&d)}
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
	problems = append(problems, r.readStores(&d))
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return r, nil
}

// readHome reads what is said of leased rules.
func (r *Regions) readHome(d *document) (err error) {
	if d.Reserve != "" {
		if r.Layout.Reserve, err = share("reserve", d.Reserve, 1000, regional.MaxReserve, "from 0.1% to 90%, such as 10%"); err != nil {
			return err
		}
	}
	if d.Home == "" {
		return nil
	}
	if err := rules.CheckStoreName(d.Home); err != nil {
		return fmt.Errorf("home: %w", err)
	}
	return nil
}

// readExchange reads what is said of shared rules.
func (r *Regions) readExchange(d *document) (err error) {
	r.Exchange, r.Floor = totals.DefaultInterval, totals.DefaultFloor
	if d.Exchange != "" {
		if r.Exchange, err = time.ParseDuration(d.Exchange); err != nil || r.Exchange < totals.MinInterval || r.Exchange > totals.MaxInterval {
			return fmt.Errorf("exchange: %.20q is out of range; hint: from %v to %v, such as 1s", d.Exchange, totals.MinInterval, totals.MaxInterval)
		}
	}
	if d.Floor != "" {
		r.Floor, err = share("floor", d.Floor, 0, totals.MaxFloor, "from 0% to 20%, such as 1%")
	}
	return err
}

// readStores reads by which stores regions reach each other. All regions have one or none has,
// and no two have one together.
func (r *Regions) readStores(d *document) error {
	of := map[string]string{}
	var without []string
	for _, name := range slices.Sorted(maps.Keys(d.Regions)) {
		store := d.Regions[name].Store
		if store == "" {
			without = append(without, name)
			continue
		}
		if err := rules.CheckStoreName(store); err != nil {
			return fmt.Errorf("region %.40s: store: %w", name, err)
		}
		if other := of[store]; other != "" {
			return fmt.Errorf("regions %.40s and %.40s have one store, %s; hint: each counts in its own", other, name, store)
		}
		of[store], r.Stores[name] = name, store
	}
	switch {
	case len(r.Stores) > 0 && len(without) > 0:
		return fmt.Errorf("regions %s have no store, and others have; hint: store: NAME for each, as in the file of --stores", strings.Join(without, ", "))
	case len(r.Stores) == 0 && d.Home == "":
		return errors.New("there is no home, and no region has a store; hint: home: NAME for leased rules, or a store for each region for shared ones")
	case of[d.Home] != "":
		return fmt.Errorf("home: %s is the store of the region %s; hint: a name of its own, and a prefix of its own where it is the same server", d.Home, of[d.Home])
	}
	return nil
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

// share reads a share such as "10%", with up to four digits behind the point, in millionths.
func share(what, text string, least, most int64, hint string) (int64, error) {
	number, percent := strings.CutSuffix(text, "%")
	whole, part, _ := strings.Cut(number, ".")
	if !percent || whole == "" || len(whole) > 2 || len(part) > 4 || strings.ContainsFunc(whole+part, func(r rune) bool { return r < '0' || r > '9' }) {
		return 0, fmt.Errorf("%s: %.20q is no share; hint: %s", what, text, hint)
	}
	n, err := strconv.ParseInt(whole+part+strings.Repeat("0", 4-len(part)), 10, 64)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s: %s is out of range; hint: %s", what, text, hint)
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
	how := rule.Mode.Regions
	switch {
	case how == rules.RegionsEach:
		return nil
	case r == nil:
		return fmt.Errorf("regions: %v, and nobody has said which regions there are; hint: --regions FILE and --region NAME", how)
	case how == rules.RegionsLeased && r.Home == "" && rule.Mode.Store == "":
		return errors.New("regions: leased, and the file of regions names no home; hint: home: NAME")
	case how == rules.RegionsShared && len(r.Stores) == 0:
		return errors.New("regions: shared, and the file of regions names no stores; hint: frankfurt: {store: NAME}, for each region")
	}
	for i := range rule.Limits {
		if err := r.check(rule.Limits[i].Limit, how); err != nil {
			return fmt.Errorf("regions: %v: %w", how, err)
		}
	}
	return nil
}

func (r *Regions) check(l *limit.Limit, how rules.Regions) error {
	if how == rules.RegionsShared {
		return totals.Check(l, r.Exchange)
	}
	return r.Layout.Check(l)
}

// Promise says what a rule that fits promises over the regions of r, and what may stay unused;
// "" of others.
func (r *Regions) Promise(rule *rules.Rule) string {
	if r == nil || rule.Mode.Regions == rules.RegionsEach {
		return ""
	}
	var parts []string
	for i := range rule.Limits {
		if rule.Mode.Regions == rules.RegionsShared {
			parts = append(parts, r.excess(rule.Limits[i].Limit))
		} else {
			parts = append(parts, r.promise(rule.Limits[i].Limit))
		}
	}
	text := strings.Join(parts, " and ")
	if rule.Mode.Regions == rules.RegionsLeased {
		text = "excess 0; " + text
	}
	return "over all regions: " + text
}

// Excess returns how many hits of l on one key a region need not tell the others, and by how
// many l can be exceeded whatever fails, where it is shared.
func (r *Regions) Excess(l *limit.Limit) (floor, most int64) {
	return totals.FloorOf(l, r.Floor), int64(len(r.Stores)-1) * l.Capacity()
}

// excess says by how much l may be exceeded where it is shared.
func (r *Regions) excess(l *limit.Limit) string {
	floor, most := r.Excess(l)
	others := int64(len(r.Stores) - 1)
	untold := ""
	if floor > 0 { // of a small limit all is told
		untold = fmt.Sprintf(" + %d", others*floor)
	}
	return fmt.Sprintf("of %d excess <= min(%d, D x (%s + delay))%s, with D hits a second that pass in the %d other regions; cut off, each region has the whole limit",
		l.Quota, most, rules.DurationText(r.Exchange), untold, others)
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

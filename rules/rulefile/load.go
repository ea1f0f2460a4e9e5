package rulefile

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/headgate/headgate/descriptor"
	"github.com/headgate/headgate/rules"
)

// Options says how files are read.
type Options struct {
	// Compat reads files as envoyproxy/ratelimit does: limits default to
	// fixed_window and charge denied hits, consumption to independent, and key and value of an entry are compared joined by "_".
	// Keys of Headgate work all the same.
	Compat bool
	// Failure is the failure mode of rules that do not say one; sensitive ones are closed.
	Failure rules.FailureMode
	// QuotaMode reads every rule as if it said quota_mode: true.
	QuotaMode bool
	// SpareDenied does not charge denied hits where a rule does not say count_denied, with
	// Compat too.
	SpareDenied bool
	// MergeDomains allows several files to have the same domain: their
	// descriptors stand one after the other. Otherwise that is an error.
	MergeDomains bool
	// Rows are rules out of a table, which stand in RowsDomain after those of all files;
	// "" means DefaultRowsDomain. They join a domain that files have, whatever
	// MergeDomains says. A row that is bad, by itself or beside others, is left out and
	// refuses nothing: see Set.BadRows.
	Rows       []rules.Row
	RowsDomain string
	// Fit, when not nil, says why rules cannot be decided where they are to be; its error
	// has a hint after "; hint: ". Such a rule is an error at its line, and a row that
	// makes one is left out.
	Fit func(*rules.Rule) error
	// Names, when not nil, says what requests carry in place of secrets.
	Names Namer
}

// Namer says what requests carry in place of an entry that is a secret.
type Namer interface {
	// Names returns the entries by which requests carry e, one or two of the same key;
	// none where they carry e itself. The first is the one that is shown. A value of ""
	// stands for any.
	Names(e descriptor.Entry) []descriptor.Entry
}

// Load compiles files into a Set. They are read in the order of their names,
// whatever order they come in. Any error refuses all of them; it is of type
// Errors and holds all errors of all files. What is valid but may not do what its author
// meant is told by Set.Warnings. No files make a set without rules, which limits nothing.
func Load(files []File, o Options) (*rules.Set, error) {
	if len(files) > MaxFiles {
		return nil, rules.Errors{{Message: fmt.Sprintf("%d files, more than %d", len(files), MaxFiles), Hint: "put more rules into each file"}}
	}
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	l := loader{
		options: o, byDomain: make(map[string]*domain),
		spec: rules.Spec{Compat: o.Compat, Version: version(files, o)},
	}
	nameFiles(files)
	var diagnostics []rules.Diagnostic
	for i := range files {
		r := &reader{reporter: reporter{file: files[i].Name}}
		l.file(r, files[i].Data)
		diagnostics = append(diagnostics, r.diagnostics...)
	}
	if errs, _ := split(diagnostics); len(errs) == 0 {
		l.rows(o.Rows)
	}
	diagnostics = append(diagnostics, l.finish()...)
	rules.SortDiagnostics(diagnostics)
	errs, warnings := split(diagnostics)
	if len(errs) > 0 {
		return nil, rules.Errors(errs)
	}
	l.spec.Warnings = warnings
	set, err := rules.New(l.spec)
	if err != nil { // something that should have been found above
		return nil, rules.Errors{{Message: err.Error(), Hint: "please report it"}}
	}
	if errs := unfit(set, o.Fit); len(errs) > 0 {
		return nil, errs
	}
	return set, nil
}

// nameFiles gives files without a name, which stand before the others, one, so that diagnostics
// can say where.
func nameFiles(files []File) {
	for i := range files {
		if files[i].Name == "" {
			files[i].Name = fmt.Sprintf("file %d", i+1)
		}
	}
}

// loader gathers the files of one Load.
type loader struct {
	options  Options
	spec     rules.Spec
	byDomain map[string]*domain
}

// domain is what the files of one domain say about it as a whole.
type domain struct {
	*rules.Domain
	first        string // the file that named the domain first
	usesHeadgate bool   // a file or row of it says what envoyproxy/ratelimit cannot say
	matchFrom    string // the file that set Match, "" for none
	consumeFrom  string // the file that set Consumption
	asides       []aside
	hold         aside // the one that names requests; the zero value is none
}

// file decodes and compiles one file.
func (l *loader) file(r *reader, data []byte) {
	defer recovered(&r.reporter)
	decoder := decoder{reader: r, compat: l.options.Compat}
	root := parseYAML(r, data)
	if r.failed() {
		return
	}
	f := decoder.file(root)
	r.settleTolerated(l.options.Compat)
	if f == nil || r.aborted {
		return
	}
	if f.domain == "" {
		r.errorf(f.domainAt, "begin the file with domain: NAME", "config file cannot have empty domain")
		return
	}
	d, known := l.byDomain[f.domain]
	if known && !l.options.MergeDomains {
		r.errorf(f.domainAt, fmt.Sprintf("the file %s has it already; merge them, or let domains be merged: --merge-domains", d.first),
			"duplicate domain '%s' in config file", f.domain)
		return
	}
	if !known {
		d = &domain{Domain: &rules.Domain{Name: f.domain}, first: f.name}
		l.byDomain[f.domain] = d
	}
	d.settings(r, f)
	c := compiler{reporter: &r.reporter, options: &l.options, domain: d, rules: &l.spec.Rules, names: l.options.Names}
	c.addFile(f)
}

// settings takes over what a file says about its domain as a whole.
func (d *domain) settings(r *reader, f *fileSpec) {
	d.usesHeadgate = d.usesHeadgate || f.usesHeadgate
	d.setMatch(r, f)
	ways := map[string]rules.Consumption{"all_or_nothing": rules.AllOrNothing, "independent": rules.Independent}
	if f.consumption != "" {
		way, ok := ways[f.consumption]
		switch {
		case !ok:
			r.errorf(f.consumptAt, "write all_or_nothing (a denied request is charged nowhere) or independent", "consumption '%s' is unknown", f.consumption)
		case d.consumeFrom != "" && d.Consumption != way:
			r.errorf(f.consumptAt, "files of one domain agree on consumption", "consumption is '%s', but '%v' in %s", f.consumption, d.Consumption, d.consumeFrom)
		default:
			d.Consumption, d.consumeFrom = way, f.name
		}
	}
}

// finish settles what needs all files: the defaults of domains, and which entries take no
// part in matching.
func (l *loader) finish() []rules.Diagnostic {
	r := &reporter{}
	for _, name := range slices.Sorted(maps.Keys(l.byDomain)) {
		d := l.byDomain[name]
		if d.matchFrom == "" && d.usesHeadgate && !l.options.Compat {
			d.warnUnwritten(r)
		}
		if d.consumeFrom == "" && l.options.Compat {
			d.Consumption = rules.Independent
		}
		d.checkAsides(r)
		l.spec.Domains = append(l.spec.Domains, d.Domain)
	}
	return r.diagnostics
}

// version names the content of files and what changes its meaning.
func version(files []File, o Options) string {
	h := sha256.New()
	for i := range files {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(files[i].Data)))
		h.Write(size[:])
		h.Write(files[i].Data)
	}
	fmt.Fprintf(h, "compat=%t merge=%t", o.Compat, o.MergeDomains)
	if o.QuotaMode || o.SpareDenied {
		fmt.Fprintf(h, " quota=%t spare=%t", o.QuotaMode, o.SpareDenied)
	}
	if o.Failure != rules.Open {
		fmt.Fprintf(h, " failure=%v", o.Failure)
	}
	if len(o.Rows) > 0 {
		fmt.Fprintf(h, " rows in %s: ", o.RowsDomain)
		rows := make([]versionedRow, len(o.Rows))
		for i := range rows {
			rows[i].Row = &o.Rows[i]
		}
		json.NewEncoder(h).Encode(rows) // never fails
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// versionedRow is what the version names of a row: all but its times, which it hides.
type versionedRow struct {
	*rules.Row
	CreatedAt, UpdatedAt *struct{} `json:",omitempty"`
}

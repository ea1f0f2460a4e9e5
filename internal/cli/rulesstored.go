package cli

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/tenant/sqltenant"
)

// storedName is what the name of a document of rules may be, as the admin API has it.
var storedName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

func checkStoredName(name string) error {
	if storedName.MatchString(name) {
		return nil
	}
	return &codeError{exitUsage, fmt.Errorf("name %.100q; hint: 1 to 100 letters, digits, '-', '_' and '.', a letter or digit first", name)}
}

// besideFlags are the flags of commands that look at documents beside rule files.
type besideFlags struct {
	databaseFlags `embed:""`
	allRuleFlags  `embed:""`
}

// allRuleFlags say what rules processes have, of files and of the database.
type allRuleFlags struct {
	fileFlags  `embed:""`
	Rules      string `placeholder:"FILE_OR_DIR" help:"The rule files that processes have beside those of the database, to check both together."`
	RowsDomain string `default:"api" placeholder:"DOMAIN" help:"Domain of the rules that stand as rows in the database. Default ${default}."`
}

// options returns how processes read the rules.
func (f *allRuleFlags) options() rulefile.Options {
	o := f.fileFlags.options()
	o.RowsDomain = f.RowsDomain
	return o
}

// beside returns a source of the rule files and of all documents of the database.
func (f *allRuleFlags) beside(ctx context.Context, db *sqltenant.DB) (*rulesource.Source, []sqltenant.Document, error) {
	return f.applied(ctx, db, func(*rules.Set) {})
}

// applied is beside that hands on each set of rules that would be in force, the last one
// with all that there is. A nil db has nothing.
func (f *allRuleFlags) applied(ctx context.Context, db *sqltenant.DB, apply func(*rules.Set)) (*rulesource.Source, []sqltenant.Document, error) {
	source, err := rulesource.New(rulesource.Options{
		Path: f.Rules, Rules: f.options(), AnyName: f.options().Compat, Apply: apply,
	})
	if err == nil {
		err = source.Load()
	}
	if err != nil {
		return nil, nil, &codeError{exitUsage, err}
	}
	if db == nil {
		return source, nil, nil
	}
	docs, err := db.Documents(ctx, sqltenant.RulesDocument)
	if err != nil {
		return nil, nil, &codeError{exitUsage, err}
	}
	rows, err := db.RuleRows(ctx)
	if err != nil {
		return nil, nil, &codeError{exitUsage, err}
	}
	files := make([]rulefile.File, len(docs))
	for i, d := range docs {
		files[i] = rulefile.File{Name: d.Name, Data: []byte(d.Text)}
	}
	source.SetDocuments(files, rows)
	return source, docs, nil
}

type rulesPutCmd struct {
	besideFlags `embed:""`
	actorFlag   `embed:""`
	Name        string `arg:"" help:"What the database shall call it."`
	File        string `arg:"" help:"The rule file; '-' is standard input."`
}

// Help implements kong.HelpProvider.
func (*rulesPutCmd) Help() string {
	return `Example:

  headgate rules put checkout checkout.yaml --rules rules/

Every process of this database has the rules of the file within two seconds, beside
those of its own files. A file that cannot be beside what the database has, and beside
--rules, changes nothing.`
}

// Run puts the file into the database.
func (c *rulesPutCmd) Run(std *stdio) error {
	if err := checkStoredName(c.Name); err != nil {
		return err
	}
	files, err := c.read(std, c.File)
	if err != nil {
		return err
	}
	if len(files) != 1 {
		return &codeError{exitUsage, fmt.Errorf("%s is a directory; hint: put each of its files under a name of its own", c.File)}
	}
	ctx, db, done, err := c.open()
	if err != nil {
		return err
	}
	defer done()
	source, _, err := c.beside(ctx, db)
	if err != nil {
		return err
	}
	text := rulefile.File{Name: c.Name, Data: files[0].Data}
	if len(text.Data) == 0 {
		return &codeError{exitNo, fmt.Errorf("%s: nothing in it; hint: headgate rules delete takes a document out", c.File)}
	}
	if _, err := source.Try(text); err != nil {
		if printed := printDiagnostics(std.err, err, []rulefile.File{text}); printed != err {
			return printed
		}
		return &codeError{exitNo, err}
	}
	before, after, err := putDocument(ctx, db, sqltenant.RulesDocument, c.Name, string(text.Data), c.actor())
	if err != nil {
		return err
	}
	if c.Rules == "" {
		fmt.Fprintln(std.err, "headgate: not compared with rule files: processes that have its domain in a file of theirs refuse it\nheadgate: hint: --rules FILE_OR_DIR, and /readyz of a process says what it has refused")
	}
	what := "put"
	if before.Version == after.Version {
		what = "unchanged"
	}
	_, err = fmt.Fprintf(std.out, "%s: %s, version %d\n", what, c.Name, after.Version)
	return err
}

type rulesGetCmd struct {
	databaseFlags `embed:""`
	Name          string `arg:"" help:"The document, as list shows it."`
}

// Help implements kong.HelpProvider.
func (*rulesGetCmd) Help() string {
	return `Example:

  headgate rules get checkout > checkout.yaml

The exit code is 1 when there is no such document.`
}

// Run prints the text of a document; the answer is no when there is none.
func (c *rulesGetCmd) Run(std *stdio) error {
	ctx, db, done, err := c.open()
	if err != nil {
		return err
	}
	defer done()
	doc, err := db.Document(ctx, sqltenant.RulesDocument, c.Name)
	if err != nil {
		return refused(err)
	}
	if doc.Version == 0 {
		return noDocument(c.Name)
	}
	_, err = io.WriteString(std.out, doc.Text)
	return err
}

func noDocument(name string) error {
	return &codeError{exitNo, fmt.Errorf("no rules %.100q; hint: headgate rules list shows what the database has", name)}
}

type rulesDeleteCmd struct {
	databaseFlags `embed:""`
	actorFlag     `embed:""`
	Name          string `arg:"" help:"The document, as list shows it."`
}

// Help implements kong.HelpProvider.
func (*rulesDeleteCmd) Help() string {
	return `Example:

  headgate rules delete checkout

The log of changes keeps its text. The exit code is 1 when there was no such document.`
}

// Run takes a document out; the answer is no when there is none.
func (c *rulesDeleteCmd) Run(std *stdio) error {
	was, err := c.takeOut(sqltenant.RulesDocument, c.Name, c.actor())
	if err != nil {
		return err
	}
	if !was {
		return noDocument(c.Name)
	}
	_, err = fmt.Fprintf(std.out, "took %s out\n", c.Name)
	return err
}

type rulesListCmd struct {
	besideFlags `embed:""`
	JSON        bool `name:"json" env:"-" help:"Print one JSON object to a line."`
}

// Help implements kong.HelpProvider.
func (*rulesListCmd) Help() string {
	return `Example:

  headgate rules list --rules rules/

Lists the documents of rules in the database. One that cannot be in force is listed with
what is wrong; the exit code is then 1.`
}

// listedRules is a document of rules as list shows it.
type listedRules struct {
	Name      string    `json:"name"`
	Domains   []string  `json:"domains,omitempty"`
	Rules     int       `json:"rules"`
	Version   int64     `json:"version"`
	UpdatedAt time.Time `json:"updated_at"`
	UpdatedBy string    `json:"updated_by"`
	// Error says why it cannot be in force.
	Error string `json:"error,omitempty"`
}

// Run lists documents; the answer is no when one of them cannot be in force.
func (c *rulesListCmd) Run(std *stdio) error {
	ctx, db, done, err := c.open()
	if err != nil {
		return err
	}
	defer done()
	source, docs, err := c.beside(ctx, db)
	if err != nil {
		return err
	}
	wrong := map[string]error{}
	for _, r := range source.Status().Refused {
		wrong[r.Name] = r.Err
	}
	list, bad := make([]listedRules, len(docs)), []error(nil)
	for i, d := range docs {
		list[i] = listedRules{Name: d.Name, Version: d.Version, UpdatedAt: d.UpdatedAt, UpdatedBy: d.UpdatedBy}
		if err := wrong[d.Name]; err != nil {
			list[i].Error = err.Error()
			bad = append(bad, fmt.Errorf("%s cannot be in force: %w", d.Name, err))
		} else if set, err := rulefile.Load([]rulefile.File{{Name: d.Name, Data: []byte(d.Text)}}, c.options()); err == nil {
			list[i].Domains, list[i].Rules = set.Domains(), set.NumRules()
		}
	}
	if err := c.print(std.out, list); err != nil {
		return err
	}
	return noBecauseOf(bad)
}

func (c *rulesListCmd) print(w io.Writer, list []listedRules) error {
	if c.JSON {
		return printLines(w, list)
	}
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tRULES\tDOMAINS\tUPDATED\tBY")
	for i := range list {
		r := &list[i]
		count := fmt.Sprint(r.Rules)
		if r.Error != "" {
			count = "refused"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", r.Name, count, strings.Join(r.Domains, ","), r.UpdatedAt.Format(time.RFC3339), r.UpdatedBy)
	}
	return table.Flush()
}

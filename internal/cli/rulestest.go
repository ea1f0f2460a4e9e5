package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/headgate/headgate/internal/rulereview"
	"github.com/headgate/headgate/internal/rulesource"
	"github.com/headgate/headgate/internal/tierfile"
	"github.com/headgate/headgate/internal/yamlfile"
	"github.com/headgate/headgate/rules"
	"github.com/headgate/headgate/rules/rulefile"
	"github.com/headgate/headgate/rules/ruletest"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

type testCmd struct {
	Verbose bool     `short:"v" env:"-" help:"Name every test, not only those that fail."`
	Paths   []string `arg:"" name:"file_or_dir" help:"Files of rule tests, or directories: of those, files that end in .test.yaml."`
}

// Help implements kong.HelpProvider.
func (*testCmd) Help() string {
	return `Example:

  headgate rules test rules/

A file of tests names the rules that it is about, and says what is asked when,
and what must be answered:

  rules: [rules.yaml]
  domain: api_platform
  tests:
    - name: a key has a hundred requests a minute
      steps:
        - descriptors: ["api_key:k1"]
          times: 100
          want: {allowed: true}
        - at: +10s
          descriptors: ["api_key:k1"]
          want: {allowed: false, rule: api_platform.api_key}

With tiers: FILE and accounts: FILE at the top, rules with tenant: true count by those
tiers, and by accounts as 'quota export' writes them.

A step with hold: NAME takes slots of limits on concurrency; steps with renew: NAME
and release: NAME keep and free them.

Time is that of the steps: nothing waits. The exit code is 1 when a test fails.`
}

// Run runs all tests of all files.
func (c *testCmd) Run(std *stdio) error {
	files, err := testFiles(c.Paths)
	if err != nil {
		return &codeError{exitUsage, err}
	}
	failed := 0
	for _, path := range files {
		n, err := c.runFile(std, path)
		if err != nil {
			return &codeError{exitUsage, unprinted(err)}
		}
		failed += n
	}
	if failed > 0 {
		return &codeError{exitNo, fmt.Errorf("rule tests failed: %d", failed)}
	}
	return nil
}

// testFiles returns the files of tests of all paths, in order.
func testFiles(paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
		err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && (name == path || rulesource.IsTestFile(name)) {
				files = append(files, name)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read rule tests: %w", err)
		}
	}
	if len(files) == 0 {
		return nil, errors.New("no rule tests; hint: of a directory, files that end in .test.yaml are run")
	}
	return files, nil
}

// runFile runs the tests of one file and returns how many failed.
func (c *testCmd) runFile(std *stdio, path string) (failed int, err error) {
	data, err := yamlfile.Read(path, rulefile.MaxFileSize)
	if err != nil {
		return 0, err
	}
	file := rulefile.File{Name: path, Data: data}
	suite, err := ruletest.Parse(file)
	if err != nil {
		return 0, printDiagnostics(std.err, err, []rulefile.File{file})
	}
	// What was read is kept for messages that show it.
	read := []rulefile.File{file}
	set, err := suite.Load(func(name string) ([]byte, error) {
		data, err := yamlfile.Read(name, rulefile.MaxFileSize)
		read = append(read, rulefile.File{Name: name, Data: data})
		return data, err
	})
	if err != nil {
		return 0, printDiagnostics(std.err, err, read)
	}
	tenants, err := tenantsOf(suite)
	if err != nil {
		return 0, err
	}
	results := suite.Run(set, func(set *rules.Set) (ruletest.Checker, func(), error) { return rulereview.Open(set, tenants) })
	for i := range results {
		if !results[i].Passed() {
			failed++
		}
		c.print(std.out, path, &results[i], read)
	}
	verdict := "ok  "
	if failed > 0 {
		verdict = "FAIL"
	}
	_, err = fmt.Fprintf(std.out, "%s %s: %s, %d failed\n", verdict, path, rules.CountText(len(results), "test"), failed)
	return failed, err
}

func (c *testCmd) print(w io.Writer, path string, r *ruletest.Result, files []rulefile.File) {
	switch {
	case !r.Passed():
		fmt.Fprintf(w, "FAIL %s:%d: %s\n", path, r.Test.Line, r.Test.Name)
		for _, d := range r.Failures {
			printDiagnostic(w, d, files)
		}
	case c.Verbose:
		fmt.Fprintf(w, "pass %s:%d: %s\n", path, r.Test.Line, r.Test.Name)
	}
}

// tenantsOf returns what tenants may use in a suite, nil where the rules alone say
// that.
func tenantsOf(suite *ruletest.Suite) (*tenant.Snapshot, error) {
	of := func(name string) string {
		if name == "" {
			return ""
		}
		return suite.Path(name)
	}
	snapshot, _, err := tenantFiles(of(suite.Tiers), of(suite.Accounts), ruletest.Start)
	return snapshot, err
}

// tenantFiles returns what tenants may use by files of tiers and accounts, nil where both are "",
// and the accounts. What has no beginning in the file of accounts begins at start.
func tenantFiles(tierFile, accountFile string, start time.Time) (*tenant.Snapshot, []tenant.Account, error) {
	if tierFile == "" && accountFile == "" {
		return nil, nil, nil
	}
	tiers := new(tenant.Tiers)
	if tierFile != "" {
		var err error
		if tiers, err = tierfile.Load(tierFile); err != nil {
			return nil, nil, err
		}
	}
	var accounts []tenant.Account
	if accountFile != "" {
		data, err := yamlfile.Read(accountFile, rulefile.MaxFileSize)
		if err != nil {
			return nil, nil, err
		}
		if accounts, err = accountsOf(data, start); err != nil {
			return nil, nil, fmt.Errorf("%s:%w", accountFile, err)
		}
	}
	return tenant.NewSnapshot(tiers, slices.Values(accounts)), accounts, nil
}

// accountsOf reads accounts as export writes them. The error begins with the line.
func accountsOf(data []byte, start time.Time) ([]tenant.Account, error) {
	var accounts []tenant.Account
	number := 0
	for text := range bytes.Lines(data) {
		number++
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		change, err := changeOf(text, nil, nil, start)
		if err != nil {
			return nil, fmt.Errorf("%d: %w", number, err)
		}
		r := sqltenant.Record{Subject: change.Subject}
		if err := change.Edit(&r); err != nil {
			return nil, fmt.Errorf("%d: %w", number, err)
		}
		a, err := r.Account()
		if err != nil {
			return nil, fmt.Errorf("%d: %w", number, err)
		}
		accounts = append(accounts, a)
	}
	return accounts, nil
}

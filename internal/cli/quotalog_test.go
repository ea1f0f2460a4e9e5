package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// keptLog is a log of changes, and what is kept of it elsewhere.
type keptLog struct {
	t                        *testing.T
	dir, database            string
	sign, verify, anotherKey string // files of keys
}

func newKeptLog(t *testing.T) *keptLog {
	t.Helper()
	l := &keptLog{t: t, dir: t.TempDir()}
	l.database = "sqlite://" + filepath.Join(l.dir, "tenants.db")
	l.sign, l.verify = testserver.SigningKeys(t)
	_, l.anotherKey = testserver.SigningKeys(t)
	return l
}

func (l *keptLog) write(name, text string) string {
	l.t.Helper()
	path := filepath.Join(l.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	return path
}

// change makes a change in a database.
func (l *keptLog) change(database, quota string) {
	l.t.Helper()
	var errs bytes.Buffer
	if code := Run([]string{"quota", "set", "tenant:acme", "--quota", "default=" + quota, "--actor", "ann", "--tenants", database}, nil, new(bytes.Buffer), &errs); code != exitOK {
		l.t.Fatalf("code %d: %s", code, errs.String())
	}
}

// log runs quota log.
func (l *keptLog) log(in string, args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = Run(append([]string{"quota", "log"}, args...), strings.NewReader(in), &o, &e)
	return code, o.String(), e.String()
}

// printed is what quota log prints of a database.
func (l *keptLog) printed(database string, args ...string) string {
	l.t.Helper()
	code, out, errs := l.log("", append(args, "--tenants", database)...)
	if code != exitOK {
		l.t.Fatalf("%v: code %d: %s", args, code, errs)
	}
	return out
}

// What is verified of a log is what was asked for: by whom it is signed, and that it is the log of the heads
// that were kept. A log that is another one has a code of its own.
func TestQuotaLogVerifies(t *testing.T) {
	l := newKeptLog(t)
	for _, quota := range []string{"200/minute", "300/minute", "400/minute"} {
		l.change(l.database, quota)
	}
	anew := "sqlite://" + filepath.Join(l.dir, "anew.db")
	for _, quota := range []string{"200/minute", "300/minute", "500/minute", "600/minute"} {
		l.change(anew, quota)
	}
	export := l.printed(l.database, "--export", "--sign-key", l.sign)
	changes, heads := l.write("changes.jsonl", export), l.write("heads.jsonl", l.printed(l.database, "--head", "--sign-key", l.sign))
	later := l.write("later.jsonl", l.printed(anew, "--head"))
	unsigned := l.write("unsigned.jsonl", l.printed(l.database, "--head"))
	lines := strings.SplitAfter(export, "\n")
	lines[1] = strings.Replace(lines[1], `"actor":"ann"`, `"actor":"bob"`, 1)
	altered := l.write("altered.jsonl", strings.Join(lines, ""))
	for name, test := range map[string]struct {
		in   string
		args []string
		code int
		says string
	}{
		"the database":                           {"", []string{"--tenants", l.database}, exitOK, "3 changes, each as it was made\n"},
		"the database, by heads":                 {"", []string{"--tenants", l.database, "--heads", heads, "--verify-keys", l.verify}, exitOK, "3 changes, each as it was made\n1 head, which is of this log\n"},
		"the export":                             {"", []string{"--from", changes, "--verify-keys", l.verify}, exitOK, "3 changes, each as it was made\n"},
		"the export, by heads":                   {"", []string{"--from", changes, "--heads", heads}, exitOK, "3 changes, each as it was made\n1 head, which is of this log\n"},
		"the export from standard input":         {export, []string{"--from", "-"}, exitOK, "3 changes, each as it was made\n"},
		"an export that others have signed":      {"", []string{"--from", changes, "--verify-keys", l.anotherKey}, exitNo, "signed by nobody who is believed"},
		"an export that was altered":             {"", []string{"--from", altered}, exitNo, "altered.jsonl: line 2: "},
		"an export that is cut off":              {export[:strings.LastIndex(export, `{"head"`)], []string{"--from", "-"}, exitNo, "the rest was cut off"},
		"heads that others have signed":          {"", []string{"--tenants", l.database, "--heads", heads, "--verify-keys", l.anotherKey}, exitNo, "--heads: "},
		"heads that nobody has signed":           {"", []string{"--tenants", l.database, "--heads", unsigned, "--verify-keys", l.verify}, exitNo, "is not signed"},
		"a database with another change":         {"", []string{"--tenants", anew, "--heads", heads}, exitNo, "the head at version 3 is of another log"},
		"a database that is older than a head":   {"", []string{"--tenants", l.database, "--heads", later}, exitNo, "there is a head at version 4, and the log ends at version 3"},
		"an export that is older than a head":    {"", []string{"--from", changes, "--heads", later}, exitNo, "there is a head at version 4"},
		"an export that is not there":            {"", []string{"--from", filepath.Join(l.dir, "absent")}, exitUsage, "absent"},
		"heads of which none is left":            {"", []string{"--tenants", l.database, "--heads", l.write("none.jsonl", "\n")}, exitUsage, "no head is in it"},
		"heads that are not there":               {"", []string{"--tenants", l.database, "--heads", filepath.Join(l.dir, "absent")}, exitUsage, "--heads: "},
		"a private key in place of a public one": {"", []string{"--from", changes, "--verify-keys", l.sign}, exitUsage, "--verify-keys: "},
	} {
		code, out, errs := l.log(test.in, append([]string{"--verify"}, test.args...)...)
		if said := out + errs; code != test.code || !strings.Contains(said, test.says) || code == exitOK && said != test.says || code != exitOK && out != "" {
			t.Errorf("%s: code %d, %q; want code %d, %q", name, code, said, test.code, test.says)
		}
	}
	if code, out, errs := l.log("", "--export", "--tenants", anew, "--heads", heads); code != exitNo || strings.Contains(out, `"head"`) || !strings.Contains(errs, "is of another log") {
		t.Errorf("an export of another log: code %d, %q %q", code, out, errs)
	}
	if code, out, errs := l.log("", "--head", "--tenants", anew, "--heads", heads); code != exitNo || out != "" {
		t.Errorf("the head of another log: code %d, %q %q", code, out, errs)
	}
}

// Flags of which nothing would come are refused, so that nobody believes that something was verified.
func TestQuotaLogFlags(t *testing.T) {
	l := newKeptLog(t)
	l.change(l.database, "200/minute")
	for args, says := range map[string]string{
		"--from " + l.sign:                           "--from: nothing comes of it without --verify",
		"--export --from " + l.sign:                  "--from: nothing comes of it without --verify",
		"--heads " + l.sign:                          "--heads: nothing comes of it without",
		"--sign-key " + l.sign:                       "--sign-key: nothing comes of it without",
		"--verify --sign-key " + l.sign:              "--sign-key: nothing comes of it without",
		"--verify --verify-keys " + l.verify:         "--verify-keys: nothing of what is verified is signed",
		"--head --sign-key " + l.verify:              "--sign-key: ",
		"--limit 0":                                  "--limit: 0 is out of range",
		"--limit 1001":                               "--limit: 1001 is out of range",
		"--verify --export":                          "can't be used together",
		"--verify --limit 0 --heads " + l.anotherKey: "--limit: 0 is out of range",
	} {
		if code, out, errs := l.log("", append(strings.Fields(args), "--tenants", l.database)...); code != exitUsage || out != "" || !strings.Contains(errs, says) {
			t.Errorf("%s: code %d, %q %q; want %q", args, code, out, errs, says)
		}
	}
	for _, args := range []string{"", "--limit 1", "--limit 1000 --json", "--after 1"} {
		if code, out, errs := l.log("", append(strings.Fields(args), "--tenants", l.database)...); code != exitOK || errs != "" || (out == "") != (args == "--after 1") {
			t.Errorf("%s: code %d, %q %q", args, code, out, errs)
		}
	}
}

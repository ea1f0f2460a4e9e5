package chainfile_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/chainfile"
	"github.com/headgate/headgate/internal/signing"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/tenant"
	"github.com/headgate/headgate/tenant/sqltenant"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 123456000, time.UTC)

// keys returns one who signs, and who believes that one alone.
func keys(t *testing.T) (*signing.Signer, *signing.Verifier) {
	t.Helper()
	private, public := testserver.SigningKeys(t)
	signer, err1 := signing.LoadSigner(private)
	verifier, err2 := signing.LoadVerifier(public)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return signer, verifier
}

// onEach runs a test on a new database of each kind.
func onEach(t *testing.T, test func(t *testing.T, db *sqltenant.DB)) {
	for kind, dsn := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite://" + filepath.Join(t.TempDir(), "tenants.db") },
		"postgres": func(t *testing.T) string { return testserver.PostgresDatabase(t) },
	} {
		t.Run(kind, func(t *testing.T) { test(t, opened(t, dsn(t))) })
	}
}

func opened(t *testing.T, dsn string) *sqltenant.DB {
	t.Helper()
	db, err := sqltenant.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// change makes one change to an account, by actor.
func change(t *testing.T, db *sqltenant.DB, actor, tier string) {
	t.Helper()
	_, err := db.Update(t.Context(), sqltenant.Change{
		Subject: tenant.Subject{Key: "tenant", Value: `a"<é>&`}, Actor: actor, Version: sqltenant.Anyway, At: noon,
		Edit: func(r *sqltenant.Record) error { r.Tiers = []tenant.Assignment{{Tier: tier}}; return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
}

// log makes a log of six changes, one of them of a document with bytes that JSON escapes.
func log(t *testing.T, db *sqltenant.DB, actor string) {
	t.Helper()
	for i := range 5 {
		change(t, db, actor, fmt.Sprint("tier", i))
	}
	_, err := db.PutDocument(t.Context(), sqltenant.DocumentChange{
		Kind: sqltenant.RulesDocument, Name: "api", Text: "domain: api # \u2028\t<b>&\"\\\n", Actor: actor, Version: sqltenant.Anyway, At: noon,
	})
	if err != nil {
		t.Fatal(err)
	}
}

// exported returns the export of a database.
func exported(t *testing.T, db *sqltenant.DB, signer *signing.Signer) []byte {
	t.Helper()
	var out bytes.Buffer
	w := chainfile.NewWriter(&out)
	end, err := db.VerifyEach(t.Context(), w.Add)
	if err == nil {
		err = w.End(chainfile.NewHead(end, noon, signer))
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// read reads an export whole.
func read(export []byte, keys *signing.Verifier) (entries []sqltenant.Entry, head chainfile.Head, err error) {
	head, err = chainfile.Read(bytes.NewReader(export), keys, func(e *sqltenant.Entry) error {
		entries = append(entries, *e)
		return nil
	})
	return entries, head, err
}

func refused(err error) bool {
	var broken *sqltenant.BrokenError
	return errors.Is(err, chainfile.ErrNotWhole) || errors.As(err, &broken)
}

// An export has every change of the database to the byte, and is verified without it.
//
//promise:admin-api
func TestL2ExportIsVerifiedOffline(t *testing.T) {
	onEach(t, func(t *testing.T, db *sqltenant.DB) {
		signer, believed := keys(t)
		stranger, _ := keys(t)
		if entries, head, err := read(exported(t, db, signer), believed); err != nil || len(entries) != 0 || head.Version != 0 {
			t.Errorf("a log without changes: %v, %+v, %v", entries, head, err)
		}
		log(t, db, "ann")
		want, err := db.Changes(t.Context(), 0, 10)
		if err != nil || len(want) != 6 {
			t.Fatalf("%d changes, %v", len(want), err)
		}
		entries, head, err := read(exported(t, db, signer), believed)
		if err != nil || !reflect.DeepEqual(entries, want) || head.Version != 6 || head.Hash != want[5].Hash || head.At != noon.UnixMicro() {
			t.Errorf("%+v, %v:\n got %+v\nwant %+v", head, err, entries, want)
		}
		for name, export := range map[string][]byte{"nobody": exported(t, db, nil), "a stranger": exported(t, db, stranger)} {
			if _, _, err := read(export, believed); !errors.Is(err, chainfile.ErrNotWhole) {
				t.Errorf("signed by %s: %v", name, err)
			}
			if _, _, err := read(export, nil); err != nil {
				t.Errorf("signed by %s, and nobody asks: %v", name, err)
			}
		}
	})
}

// An export of which a byte is another one, or a line is gone, there twice or elsewhere, is
// refused.
func TestL2ChangedExportsAreRefused(t *testing.T) {
	db := opened(t, "sqlite://"+filepath.Join(t.TempDir(), "tenants.db"))
	log(t, db, "ann")
	signer, believed := keys(t)
	whole := exported(t, db, signer)
	for i := range whole {
		altered := bytes.Clone(whole)
		altered[i] ^= 1
		if _, _, err := read(altered, believed); !refused(err) {
			t.Errorf("byte %d: %v", i, err)
		}
	}
	lines := bytes.SplitAfter(bytes.TrimSuffix(whole, []byte("\n")), []byte("\n"))
	join := func(parts ...[][]byte) (all []byte) {
		for _, part := range parts {
			all = append(all, bytes.Join(part, nil)...)
		}
		return all
	}
	for i := range lines {
		for name, altered := range map[string][]byte{
			"gone": join(lines[:i], lines[i+1:]), "twice": join(lines[:i+1], lines[i:]), "cut off": join(lines[:i]), "torn": append(join(lines[:i]), lines[i][:len(lines[i])/2]...),
		} {
			if _, _, err := read(altered, nil); !refused(err) {
				t.Errorf("line %d is %s: %v", i+1, name, err)
			}
		}
	}
	if _, _, err := read(append(bytes.Clone(whole), "{}\n"...), nil); !refused(err) {
		t.Errorf("something behind the head: %v", err)
	}
	stopped := errors.New("enough")
	if _, err := chainfile.Read(bytes.NewReader(whole), nil, func(*sqltenant.Entry) error { return stopped }); !errors.Is(err, stopped) {
		t.Errorf("%v", err)
	}
}

// held holds a database against lines of heads.
func held(t *testing.T, db *sqltenant.DB, heads *chainfile.Heads) error {
	t.Helper()
	end, err := db.VerifyEach(t.Context(), heads.Take)
	if err != nil {
		return err
	}
	return heads.End(end)
}

// A log that was written anew, or lacks its last changes, is whole by itself, and does not
// fit the heads that were kept elsewhere.
//
//promise:admin-api
func TestL2HeadsShowALogWrittenAnew(t *testing.T) {
	onEach(t, func(t *testing.T, db *sqltenant.DB) {
		signer, believed := keys(t)
		var kept []byte
		keep := func() {
			t.Helper()
			end, err := db.VerifyEach(t.Context(), func(*sqltenant.Entry) error { return nil })
			head := chainfile.NewHead(end, noon, signer)
			line, err2 := head.Line()
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			kept = append(append(kept, line...), '\n')
		}
		keep()
		change(t, db, "ann", "free")
		keep()
		keep()
		change(t, db, "ann", "pro")
		change(t, db, "ann", "max")
		keep()
		heads, err := chainfile.ReadHeads(bytes.NewReader(kept), believed)
		if err != nil || heads.Len() != 3 {
			t.Fatalf("%d heads, %v", heads.Len(), err)
		}
		if err := held(t, db, heads); err != nil {
			t.Errorf("the log itself: %v", err)
		}
		change(t, db, "ann", "free")
		if err := held(t, db, heads); err != nil {
			t.Errorf("the log with one more: %v", err)
		}

		anew := opened(t, "sqlite://"+filepath.Join(t.TempDir(), "anew.db"))
		change(t, anew, "ann", "free")
		if err := held(t, anew, heads); !errors.Is(err, chainfile.ErrNotWhole) || !strings.Contains(err.Error(), "ends at version 1") {
			t.Errorf("a log without its last changes: %v", err)
		}
		change(t, anew, "eve", "pro")
		change(t, anew, "ann", "max")
		if n, err := anew.Verify(t.Context()); n != 3 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		if err := held(t, anew, heads); !errors.Is(err, chainfile.ErrNotWhole) || !strings.Contains(err.Error(), "version 3 is of another log") {
			t.Errorf("a log written anew: %v", err)
		}
	})
}

// Lines that are no heads of one log, or that nobody who is believed has signed, are refused
// with their number.
func TestBadHeads(t *testing.T) {
	signer, believed := keys(t)
	stranger, _ := keys(t)
	line := func(version int64, hash string, s *signing.Signer) string {
		h := chainfile.NewHead(sqltenant.Point{Version: version, Digest: hash}, noon, s)
		text, err := h.Line()
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	good := line(5, "a", signer)
	for text, want := range map[string]string{
		good + line(5, "b", signer):                "line 2: the log of changes is not as it was made: two heads at version 5",
		line(6, "a", nil):                          "line 1: the log of changes is not as it was made: the head at version 6 is not signed",
		good + "\n" + line(6, "a", stranger):       "line 3: the log of changes is not as it was made: the head at version 6 is signed by nobody",
		strings.Replace(good, `"a"`, `"b"`, 1):     "signed by nobody",
		line(-1, "a", signer):                      "which no log has",
		line(0, "a", signer):                       "which no log has",
		`{"version":1,"hash":"a"}`:                 "line 1: no head",
		good + "heads":                             "line 2: ",
		`{"head":{"version":1,"hash":"a","x":1}}`:  "line 1: ",
		`{"head":{"version":"1","hash":"a"}}`:      "line 1: ",
		good + strings.Repeat("x", 100_000) + "\n": "line 2: longer than 64 KiB",
	} {
		if _, err := chainfile.ReadHeads(strings.NewReader(text), believed); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", text, err, want)
		}
	}
	if heads, err := chainfile.ReadHeads(strings.NewReader(good+good), believed); err != nil || heads.Len() != 1 {
		t.Errorf("%v", err)
	}
	if heads, err := chainfile.ReadHeads(strings.NewReader(line(5, "a", nil)), nil); err != nil || heads.Len() != 1 {
		t.Errorf("nobody asks who signed: %v", err)
	}
}

// A head of the version that an export ends at is of that export alone, if nobody asks who has signed, too.
func TestHeadOfAnotherExport(t *testing.T) {
	db := opened(t, "sqlite://"+filepath.Join(t.TempDir(), "tenants.db"))
	change(t, db, "ann", "free")
	var out bytes.Buffer
	export := chainfile.NewWriter(&out)
	end, err := db.VerifyEach(t.Context(), export.Add)
	if err != nil {
		t.Fatal(err)
	}
	end.Digest = strings.Repeat("0", len(end.Digest))
	if err := export.End(chainfile.NewHead(end, noon, nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := chainfile.Read(&out, nil, func(*sqltenant.Entry) error { return nil }); !errors.Is(err, chainfile.ErrNotWhole) || !strings.Contains(err.Error(), "or in another way") {
		t.Errorf("%v", err)
	}
}

// A head stands alone on its line: what is not signed with it, and nobody reads, is not let pass beside it.
func TestHeadsStandAlone(t *testing.T) {
	db := opened(t, "sqlite://"+filepath.Join(t.TempDir(), "tenants.db"))
	log(t, db, "ann")
	signer, believed := keys(t)
	whole := string(exported(t, db, signer))
	head := whole[strings.LastIndex(whole, `{"head"`):]
	for _, member := range []string{`"version":7`, `"at_us":1`, `"actor":"eve"`, `"kind":"rules"`, `"subject_key":"a"`, `"subject":"a"`, `"before":"{}"`, `"after":"{}"`, `"hash":"a"`} {
		more := strings.Replace(head, "}}", "},"+member+"}", 1)
		if _, _, err := read([]byte(strings.Replace(whole, head, more, 1)), believed); !errors.Is(err, chainfile.ErrNotWhole) || !strings.Contains(err.Error(), "line 7: ") {
			t.Errorf("an export with %s: %v", member, err)
		}
		if _, err := chainfile.ReadHeads(strings.NewReader("\n"+more), believed); !errors.Is(err, chainfile.ErrNotWhole) || !strings.Contains(err.Error(), "line 2: ") {
			t.Errorf("heads with %s: %v", member, err)
		}
	}
}

// Whatever is wrong in an export, the error names the line.
func TestErrorsNameTheLine(t *testing.T) {
	db := opened(t, "sqlite://"+filepath.Join(t.TempDir(), "tenants.db"))
	log(t, db, "ann")
	signer, _ := keys(t)
	_, others := keys(t)
	whole := string(exported(t, db, signer))
	lines := strings.SplitAfter(strings.TrimSuffix(whole, "\n"), "\n")
	with := func(i int, old, replaced string) string {
		changed := strings.Replace(lines[i], old, replaced, 1)
		if changed == lines[i] {
			t.Fatalf("no %s in %s", old, lines[i])
		}
		return strings.Join(lines[:i], "") + changed + strings.Join(lines[i+1:], "")
	}
	for name, test := range map[string]struct {
		export, want string
		keys         *signing.Verifier
	}{
		"two changes in the place of each other": {lines[0] + lines[2] + lines[1] + strings.Join(lines[3:], ""), "line 2: the audit chain is broken at version 3", nil},
		"a member twice":                         {with(2, `"actor"`, `"actor":"eve","actor"`), "line 3: actor: given twice", nil},
		"a member that is escaped, twice":        {with(2, `"actor"`, `"\u0061ctor":"eve","actor"`), "line 3: actor: given twice", nil},
		"a member in capitals":                   {with(2, `"actor"`, `"ACTOR"`), "line 3: ACTOR: ", nil},
		"a member that nobody knows":             {with(2, `"actor"`, `"note":"","actor"`), "line 3: note: ", nil},
		"a letter that looks the same":           {with(2, `"ann"`, "\"\u0430nn\""), "line 3: the audit chain is broken at version 3", nil},
		"a space of no width":                    {with(2, `"ann"`, "\"ann\u200b\""), "line 3: the audit chain is broken at version 3", nil},
		"no UTF-8":                               {with(2, `"ann"`, "\"ann\xff\""), "line 3: actor: not UTF-8", nil},
		"half a surrogate":                       {with(2, `"ann"`, `"ann\ud800"`), "line 3: actor: a malformed escape", nil},
		"a time that doubles would round":        {with(2, fmt.Sprint(noon.UnixMicro()), "9007199254740993"), "line 3: the audit chain is broken at version 3", nil},
		"a time beyond all":                      {with(2, fmt.Sprint(noon.UnixMicro()), "9223372036854775808"), "line 3: at_us: ", nil},
		"a version with a fraction":              {with(2, `"version":3`, `"version":3.0`), "line 3: version: ", nil},
		"a version as text":                      {with(2, `"version":3`, `"version":"3"`), "line 3: version: ", nil},
		"a blank line":                           {strings.Join(lines[:3], "") + "\n" + strings.Join(lines[3:], ""), "line 4: ", nil},
		"a mark of the order of bytes":           {"\ufeff" + whole, "line 1: ", nil},
		"a compressed file":                      {"\x1f\x8b\x08\x00" + whole, "line 1: ", nil},
		"a head with another hash":               {with(6, `"hash":"`, `"hash":"0`), "line 7: the log of changes is not as it was made: its head", nil},
		"something behind the head":              {whole + "\n", "line 7: the log of changes is not as it was made: something stands behind its head", nil},
		"a head that others have signed":         {whole, "line 7: the log of changes is not as it was made: the head at version 6 is signed by nobody", others},
		"a head of another time":                 {with(6, `"at_us":`, `"at_us":1`), "line 7: ", others},
		"a head in the middle":                   {strings.Join(lines[:3], "") + lines[6] + "\n" + strings.Join(lines[3:], ""), "line 4: the log of changes is not as it was made: its head is at version 6, and it ends at version 3", nil},
		"nothing":                                {"", "it ends after version 0, without a head", nil},
	} {
		if _, _, err := read([]byte(test.export), test.keys); !refused(err) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	// White space between values and at the ends of lines is no part of what was said.
	if _, _, err := read([]byte(strings.ReplaceAll(whole, "\n", "\r\n")), nil); err != nil {
		t.Errorf("other ends of lines: %v", err)
	}
}

// Heads stand in any order, and a log must be as long as the latest says.
func TestHeadsInAnyOrder(t *testing.T) {
	var text []byte
	for _, version := range []int64{3, 1, 2} {
		h := chainfile.NewHead(sqltenant.Point{Version: version, Digest: "a"}, noon, nil)
		line, err := h.Line()
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, line...)
	}
	heads, err := chainfile.ReadHeads(bytes.NewReader(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := heads.End(sqltenant.Point{Version: 2, Digest: "a"}); !errors.Is(err, chainfile.ErrNotWhole) {
		t.Errorf("a log without its last change: %v", err)
	}
	if err := heads.End(sqltenant.Point{Version: 3, Digest: "a"}); err != nil {
		t.Error(err)
	}
}

// A change may be as long as two documents are, and longer than a line of most files.
func TestLongChanges(t *testing.T) {
	e := sqltenant.Entry{Version: 1, After: strings.Repeat("x", 1<<20), Hash: "a"}
	var out bytes.Buffer
	export := chainfile.NewWriter(&out)
	if err := export.Add(&e); err != nil {
		t.Fatal(err)
	}
	if err := export.End(chainfile.Head{Version: 1, Hash: "a"}); err != nil {
		t.Fatal(err)
	}
	// It has no hash that fits: that is what is found, and not that it is too long.
	var broken *sqltenant.BrokenError
	if _, err := chainfile.Read(&out, nil, func(*sqltenant.Entry) error { return nil }); !errors.As(err, &broken) {
		t.Errorf("%v", err)
	}
}

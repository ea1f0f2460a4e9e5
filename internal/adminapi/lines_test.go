package adminapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// testImport: all lines are checked before one is written; what was exported can be
// imported.
func testImport(t *testing.T, s *testServer) {
	good := `{"name":"tenant:a","tier":"pro"}` + "\n"
	for _, c := range []struct {
		lines  string
		status int
		line   int
		field  string
	}{
		{good + `{"name":"tenant:b","tier":"gold"}`, 422, 2, "tier"},
		{good + "\n\n" + `{"name":"tenant:b","overrides":[{"descriptor":"default","requests_per_unit":-1,"unit":"minute"}]}`, 422, 4, "overrides[0].requests_per_unit"},
		{good + good, 422, 2, "name"},
		{good + `{"name":"","tier":"pro"}`, 422, 2, "name"},
		{good + `{"name":"tenant:b","teir":"pro"}`, 422, 2, "teir"},
		{good + `{"name":"tenant:b","tier":"pro","last4":"abcde"}`, 422, 2, "body"},
		{good + `{"name"`, 422, 2, "name"},
		{good + `{"name":"tenant:b","tier":"free","tier":"pro"}`, 422, 2, "tier"},
		{good + `{"name":"tenant:b","TIER":"pro"}`, 422, 2, "TIER"},
		{good + "{\"name\":\"tenant:\xff\",\"tier\":\"pro\"}", 422, 2, "name"},
		{good + "{\"name\":\"tenant:cafe\u0301\",\"tier\":\"pro\"}", 422, 2, "name"},
		{good + `{"name":"tenant:b ","tier":"pro"}`, 422, 2, "name"},
		{good + `[]`, 422, 2, "body"},
		{"\n \n", 422, 0, "body"},
	} {
		r := s.do(Admin, "POST", "import", c.lines)
		s.wantField(r, c.status, c.field)
		if want := fmt.Sprintf(`"line":%d,`, c.line); c.line > 0 && !strings.Contains(string(r.body), want) {
			t.Errorf("%s has no %s", r.body, want)
		}
	}
	s.wantField(s.do(Admin, "POST", "import?dry_run=maybe", good), 400, "dry_run")
	s.wantField(s.do(Admin, "POST", "import", good, "Content-Type", "application/json"), 415, "Content-Type")
	s.want(s.do(Admin, "POST", "import?dry_run=true", good), 200)
	if version, err := s.db.Version(t.Context()); version != 0 || err != nil {
		t.Fatalf("something was written: version %d, %v", version, err)
	}
	const rows = 2_500 // several transactions
	lines := manyLines(rows)
	var done imported
	s.want(s.do(Admin, "POST", "import", lines), 200).json(t, &done)
	if done.Accounts != rows {
		t.Fatalf("%+v", done)
	}
	exported := s.want(s.do(Read, "GET", "export", ""), http.StatusOK)
	if string(exported.body) != lines {
		t.Fatalf("%d bytes were exported of %d; they begin %.200s", len(exported.body), len(lines), exported.body)
	}
	s.want(s.do(Admin, "POST", "import", lines[:strings.IndexByte(lines, '\n')]), 200)
	if version, err := s.db.Version(t.Context()); version != rows || err != nil {
		t.Errorf("the same again made version %d, %v", version, err)
	}
}

func manyLines(rows int) string {
	var lines strings.Builder
	for i := range rows {
		fmt.Fprintf(&lines, `{"name":"tenant:%06d","tier":"pro","overrides":[{"descriptor":"default","requests_per_unit":%d,"unit":"minute"}]}`+"\n", i, i)
	}
	return lines.String()
}

// BenchmarkImport tells how long 100,000 accounts take, and their export.
func BenchmarkImport(b *testing.B) {
	const rows = 100_000
	lines := manyLines(rows)
	for _, database := range []string{"sqlite", "postgres"} {
		b.Run(database, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				dsn := sqliteDSN(b)
				if database == "postgres" {
					dsn = testserver.Postgres(b).DSN
				}
				s := newTestServer(b, dsn)
				b.StartTimer()
				s.want(s.do(Admin, "POST", "import", lines), 200)
				imported := b.Elapsed()
				s.want(s.do(Read, "GET", "export", ""), 200)
				b.ReportMetric((b.Elapsed() - imported).Seconds(), "s/export")
			}
		})
	}
}

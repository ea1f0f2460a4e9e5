package sqltenant

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/eventually"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/tenant"
)

func TestParsePostgres(t *testing.T) {
	for dsn, want := range map[string]string{
		"postgres://u:p@h/d":                                            "postgres://u:p@h/d",
		"postgres://u:p@h/d?sslmode=verify-full&x=a%20b":                "postgres://u:p@h/d?sslmode=verify-full&x=a%20b",
		"postgres://u@h/d?password_file=/p":                             "postgres://u@h/d",
		"postgres://u@h/d?sslmode=require&server_name=n&min_tls=1.3":    "postgres://u@h/d?sslmode=require",
		"postgres://u@h/d?password_file=/p&pool_max_conns=3&host=a%2Cb": "postgres://u@h/d?host=a%2Cb&pool_max_conns=3",
	} {
		a, err := parsePostgres(dsn)
		if err != nil || a.dsn != want {
			t.Errorf("%s: %+v, %v", dsn, a, err)
		}
	}
	for _, dsn := range []string{
		"postgres://u:hunter2@h/d?ca=/c", "postgres://u:hunter2@h/d?cert=/c&key=/k", "postgres://u@h/d?password_file=hunter2",
		"postgres://u:hunter2@h/d?password_file=/p", "postgres://u@h/d?password_file=/nowhere/word", "postgres://u@h/d?min_tls=1.0",
	} {
		if err := Check(dsn); err == nil || !strings.Contains(err.Error(), "hint: ") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}

// A PostgreSQL that lets in by TLS alone, who has a certificate and the password of a
// file. Both are exchanged, and the connections after that have what is new.
func TestPostgresWithCertificates(t *testing.T) {
	certs, strangers := testserver.NewCertificates(t), testserver.NewCertificates(t)
	server := testserver.SecurePostgres(t, certs)
	server.Exec("CREATE USER app PASSWORD 'hunter2'", "CREATE DATABASE app OWNER app")
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	first, firstKey := certs.Issue(t, testserver.Leaf{CommonName: "app"})
	second, secondKey := certs.Issue(t, testserver.Leaf{CommonName: "app"})
	word := write("word", "hunter2\n")
	cert, key := write("cert", read(first)), write("key", read(firstKey))
	address := func(pairs ...string) string {
		u, err := url.Parse(server.DSN)
		if err != nil {
			t.Fatal(err)
		}
		values := url.Values{"sslmode": {"verify-full"}, "sslrootcert": {certs.CAFile}, "sslcert": {cert}, "sslkey": {key}, "password_file": {word}, "min_tls": {"1.3"}}
		for i := 0; i+1 < len(pairs); i += 2 {
			values.Set(pairs[i], pairs[i+1])
		}
		return "postgres://app@" + u.Host + "/app?" + values.Encode()
	}
	db, err := Open(t.Context(), address("server_name", "localhost"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	wrong := write("wrong", "hunter4\n")
	for name, dsn := range map[string]string{
		"wrong authority": address("sslrootcert", strangers.CAFile),
		"wrong name":      address("server_name", "db.example.com"),
		"wrong password":  address("password_file", wrong),
	} {
		if other, err := Open(t.Context(), dsn); err == nil {
			other.Close()
			t.Errorf("%s: opened", name)
		} else if strings.Contains(err.Error(), "hunter") {
			t.Errorf("%s: %v", name, err)
		}
	}
	server.Exec("ALTER USER app PASSWORD 'hunter3'")
	write("word", "hunter3\n")
	write("cert", read(second))
	write("key", read(secondKey))
	server.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'")
	eventually.True(t, "a read by a new connection", func() bool {
		_, err := db.List(t.Context(), tenant.Subject{}, 1)
		return err == nil
	})
}

// FuzzParsePostgres: what is left of an address for the library has nothing in it that is
// ours, and an error has a hint.
func FuzzParsePostgres(f *testing.F) {
	for _, seed := range []string{
		"postgres://u:p@h/d?sslmode=require&password_file=/p", "postgres://u@h/d?server_name=n&min_tls=1.3&host=a%2Cb", "postgres://h?ca=/c", "postgres://h?%zz",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, dsn string) {
		a, err := parsePostgres(dsn)
		if err != nil {
			if !strings.Contains(err.Error(), "hint: ") {
				t.Errorf("%q: %v", dsn, err)
			}
			return
		}
		_, query, _ := strings.Cut(a.dsn, "?")
		values, err := url.ParseQuery(query)
		if err == nil && (values.Has("password_file") || values.Has("server_name") || values.Has("min_tls")) {
			t.Errorf("%q leaves %q", dsn, a.dsn)
		}
	})
}

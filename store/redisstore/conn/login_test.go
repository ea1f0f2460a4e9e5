package conn

import (
	"bufio"
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/eventually"
)

// loggedIn connects to a server that answers PING as Redis does, and each other command as
// answers says, which is asked by its words. It returns the error, and what was asked.
func loggedIn(t *testing.T, o Options, answers func(words string) string) (asked []string, err error) {
	t.Helper()
	ended := make(chan struct{})
	o.Addr = "redis.test:6379"
	o.Via = func(Dialer) Dialer {
		return func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				defer close(ended)
				defer there.Close()
				for lines := bufio.NewReader(there); ; {
					words, err := wordsOf(lines)
					if err != nil {
						return
					}
					answer := "+PONG\r\n"
					if words != "PING" {
						asked, answer = append(asked, words), answers(words)
					}
					if _, err := io.WriteString(there, answer); err != nil {
						return
					}
				}
			}()
			return here, nil
		}
	}
	o, err = o.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Patience)
	defer cancel()
	s, err := Connect(ctx, &o)
	if err == nil {
		s.Close()
	}
	<-ended
	return asked, err
}

// wordsOf reads one command.
func wordsOf(lines *bufio.Reader) (string, error) {
	line, err := lines.ReadString('\n')
	if err != nil {
		return "", err
	}
	var words []string
	for range line[1] - '0' {
		if _, err := lines.ReadString('\n'); err != nil {
			return "", err
		}
		word, err := lines.ReadString('\n')
		if err != nil {
			return "", err
		}
		words = append(words, strings.TrimSpace(word))
	}
	return strings.Join(words, " "), nil
}

// Who asks is told in the form that the server knows, and what database it is about.
func TestLogins(t *testing.T) {
	ok := func(string) string { return "+OK\r\n" }
	old := func(words string) string {
		if strings.Count(words, " ") > 1 {
			return "-ERR wrong number of arguments for 'auth' command\r\n"
		}
		return "+OK\r\n"
	}
	for name, c := range map[string]struct {
		o       Options
		answers func(string) string
		asked   []string
		fails   bool
	}{
		"nobody":                       {Options{}, ok, nil, false},
		"a password":                   {Options{Password: "secret"}, ok, []string{"AUTH default secret"}, false},
		"a user":                       {Options{Username: "app", Password: "secret"}, ok, []string{"AUTH app secret"}, false},
		"a user without a password":    {Options{Username: "app"}, ok, []string{"AUTH app "}, false},
		"a database":                   {Options{DB: 7}, ok, []string{"SELECT 7"}, false},
		"all":                          {Options{Username: "app", Password: "secret", DB: 7}, ok, []string{"AUTH app secret", "SELECT 7"}, false},
		"an old server":                {Options{Password: "secret"}, old, []string{"AUTH default secret", "AUTH secret"}, false},
		"a user of an old server":      {Options{Username: "app", Password: "secret"}, old, []string{"AUTH app secret"}, true},
		"a database of an old server":  {Options{Password: "secret", DB: 7}, old, []string{"AUTH default secret", "SELECT 7", "AUTH secret", "SELECT 7"}, false},
		"who is nobody is not let in":  {Options{Username: "app"}, func(string) string { return "-WRONGPASS\r\n" }, []string{"AUTH app "}, true},
		"a database that there is not": {Options{DB: 7}, func(string) string { return "-ERR DB index is out of range\r\n" }, []string{"SELECT 7"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			asked, err := loggedIn(t, c.o, c.answers)
			if !slices.Equal(asked, c.asked) || (err != nil) != c.fails {
				t.Errorf("asked %q: %v; want %q", asked, err, c.asked)
			}
		})
	}
}

// Whatever a server repeats of a password, the error does not, and says what is wrong.
func TestLoginsRepeatNothing(t *testing.T) {
	long := strings.Repeat("L", 60) + `"END`
	for answer, says := range map[string]string{
		"-ERR unknown command 'AUTH', with args beginning with: 'app' '" + long[:40] + "\r\n": "unknown command",
		"-WRONGPASS " + long[:40] + "\r\n": "wrong user or password",
		"-ERR " + long[:40] + "\r\n":       "not repeated",
		"-" + long[:40] + "\r\n":           "not repeated",
		"?" + long + "\r\n":                "Redis protocol",
		"$-" + long + "\r\n":               "Redis protocol",
	} {
		_, err := loggedIn(t, Options{Username: "app", Password: long}, func(string) string { return answer })
		if err == nil || strings.Contains(err.Error(), "LLLL") || !strings.Contains(err.Error(), says) {
			t.Errorf("%.30q: %v", answer, err)
		}
	}
}

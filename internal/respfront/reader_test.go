package respfront

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// readAll returns all commands in text and how it ends.
func readAll(from io.Reader, stranger bool) (all [][]string, err error) {
	r := newReader(from)
	r.stranger = stranger
	for {
		args, err := r.next()
		if err != nil {
			return all, err
		}
		all = append(all, slices.Clone(args))
	}
}

func TestReader(t *testing.T) {
	long := strings.Repeat("a", maxCommand)
	for name, c := range map[string]struct {
		text string
		want [][]string
		err  string // "EOF" at the end of a command
	}{
		"nothing":            {"", nil, "EOF"},
		"one":                {Encode("PING"), [][]string{{"PING"}}, "EOF"},
		"three":              {Encode("a", "", "\r\n\x00\xff") + Encode("b") + "c d\r\n", [][]string{{"a", "", "\r\n\x00\xff"}, {"b"}, {"c", "d"}}, "EOF"},
		"typed":              {"\r\n\n  \r\n  get   it \nnext\r\n", [][]string{{"get", "it"}, {"next"}}, "EOF"},
		"no arguments":       {"*0\r\n*-1\r\n" + Encode("x"), [][]string{{"x"}}, "EOF"},
		"as long as may be":  {Encode(long), [][]string{{long}}, "EOF"},
		"too long":           {Encode(long + "a"), nil, "Protocol error: invalid bulk length; hint: at most 65536 bytes in a command"},
		"too long in sum":    {Encode(long[1:], "bc"), nil, "Protocol error: invalid bulk length; hint: at most 65536 bytes in a command"},
		"a long line":        {strings.Repeat("a", readBuffer+1), nil, "Protocol error: too big line"},
		"a long number":      {"*" + strings.Repeat("1", readBuffer), nil, "Protocol error: too big line"},
		"too many":           {"*41\r\n", nil, "Protocol error: invalid multibulk length; hint: at most 40 arguments"},
		"too many typed":     {strings.Repeat("a ", 41) + "\r\n", nil, "Protocol error: too many arguments; hint: at most 40"},
		"a huge count":       {"*9223372036854775808\r\n", nil, "Protocol error: invalid length"},
		"no count":           {"*\r\n", nil, "Protocol error: invalid length"},
		"no length":          {"*1\r\n$\r\n", nil, "Protocol error: invalid length"},
		"a length below 0":   {"*1\r\n$-1\r\n", nil, "Protocol error: invalid bulk length; hint: at most 65536 bytes in a command"},
		"a huge length":      {"*1\r\n$9223372036854775807\r\n", nil, "Protocol error: invalid length"},
		"no bulk":            {"*1\r\n:1\r\n", nil, "Protocol error: expected '$', got ':'"},
		"no end of it":       {"*1\r\n$1\r\nabc", nil, "Protocol error: no line end behind an argument"},
		"cut in a count":     {"*1", nil, "unexpected EOF"},
		"cut in a length":    {"*1\r\n$3", nil, "unexpected EOF"},
		"cut in an argument": {"*1\r\n$3\r\nab", nil, "unexpected EOF"},
		"cut after it":       {"*1\r\n$3\r\nabc\r", nil, "unexpected EOF"},
		"cut in a line":      {Encode("a") + "PIN", [][]string{{"a"}}, "unexpected EOF"},
	} {
		for how, from := range map[string]io.Reader{
			"at once": strings.NewReader(c.text), "byte by byte": iotest.OneByteReader(strings.NewReader(c.text)),
		} {
			got, err := readAll(from, false)
			if err == nil || err.Error() != c.err || !slices.EqualFunc(got, c.want, slices.Equal) {
				t.Errorf("%s, %s: %.80q, %v", name, how, got, err)
			}
		}
	}
}

// Whoever has not come in yet may send less.
func TestReaderOfStrangers(t *testing.T) {
	most := slices.Repeat([]string{"a"}, strangerArguments)
	for text, want := range map[string]string{
		Encode(most...):                                   "EOF",
		strings.Join(most, " ") + "\r\n":                  "EOF",
		Encode(append(most, "b")...):                      "Protocol error: invalid multibulk length; hint: at most 10 arguments before AUTH",
		strings.Join(most, " ") + " b\r\n":                "Protocol error: too many arguments; hint: at most 10 before AUTH",
		Encode(strings.Repeat("a", strangerCommand)):      "EOF",
		Encode(strings.Repeat("a", strangerCommand), "b"): "Protocol error: invalid bulk length; hint: at most 16384 bytes in a command before AUTH",
	} {
		if _, err := readAll(strings.NewReader(text), true); err == nil || err.Error() != want {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(Encode("CL.THROTTLE", "user", "15", "30", "60")+"PING\r\n"), false)
	f.Add([]byte("*2\r\n$1\r\na\r\n$-1\r\n"), true)
	f.Add([]byte("\r\n*0\r\n*-5\r\nhello 3\n"), false)
	f.Fuzz(func(t *testing.T, text []byte, stranger bool) {
		all, err := readAll(bytes.NewReader(text), stranger)
		again, other := readAll(iotest.OneByteReader(bytes.NewReader(text)), stranger)
		if err.Error() != other.Error() || !slices.EqualFunc(all, again, slices.Equal) {
			t.Fatalf("at once %q, %v; byte by byte %q, %v", all, err, again, other)
		}
		var wrong *protocolError
		if !errors.As(err, &wrong) && err != io.EOF && err != io.ErrUnexpectedEOF {
			t.Fatal(err)
		}
		var same strings.Builder
		for _, args := range all {
			sum := 0
			for _, a := range args {
				sum += len(a)
			}
			if len(args) == 0 || len(args) > maxArguments || sum > maxCommand {
				t.Fatalf("a command of %d arguments and %d bytes", len(args), sum)
			}
			same.WriteString(Encode(args...))
		}
		if read, err := readAll(strings.NewReader(same.String()), stranger); err != io.EOF || !slices.EqualFunc(all, read, slices.Equal) {
			t.Fatalf("%q is read as %q, %v", all, read, err)
		}
	})
}

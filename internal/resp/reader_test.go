package resp

import (
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

// The messages that tests expect.
func simpleOf(text string) Message  { return Message{kind: simple, text: text} }
func failureOf(text string) Message { return Message{kind: failure, text: text} }
func bulkOf(text string) Message    { return Message{kind: bulk, text: text} }
func integerOf(n int64) Message     { return Message{kind: integer, n: n} }
func listOf(list ...Message) Message {
	if list == nil {
		list = []Message{}
	}
	return Message{kind: array, list: &list}
}

var nothingAtAll = Message{kind: nothing}

// encode appends a message as a server sends it.
func encode(b []byte, m Message) []byte {
	switch m.kind {
	case integer:
		return append(strconv.AppendInt(append(b, integer), m.n, 10), "\r\n"...)
	case bulk:
		b = append(strconv.AppendInt(append(b, bulk), int64(len(m.text)), 10), "\r\n"...)
		return append(append(b, m.text...), "\r\n"...)
	case array:
		b = append(strconv.AppendInt(append(b, array), int64(len(*m.list)), 10), "\r\n"...)
		for _, element := range *m.list {
			b = encode(b, element)
		}
		return b
	case nothing:
		return append(b, "$-1\r\n"...)
	}
	return append(append(append(b, m.kind), m.text...), "\r\n"...)
}

// readAll returns the messages of from, and the error after them.
func readAll(from io.Reader) ([]Message, error) {
	var all []Message
	for r := newReader(from); ; {
		m, err := r.message()
		if err != nil {
			return all, err
		}
		all = append(all, m)
	}
}

func TestReaderReadsEachKind(t *testing.T) {
	for _, test := range []struct {
		name, in string
		want     Message
	}{
		{"a simple text", "+OK\r\n", simpleOf("OK")},
		{"an empty simple text", "+\r\n", simpleOf("")},
		{"a simple text with a carriage return", "+a\rb\r\n", simpleOf("a\rb")},
		{"an error", "-ERR no\r\n", failureOf("ERR no")},
		{"a number", ":42\r\n", integerOf(42)},
		{"a text", "$5\r\na\r\nb\x00\r\n", bulkOf("a\r\nb\x00")},
		{"an empty text", "$0\r\n\r\n", bulkOf("")},
		{"no text", "$-1\r\n", nothingAtAll},
		{"a list", "*3\r\n:1\r\n$1\r\na\r\n-E\r\n", listOf(integerOf(1), bulkOf("a"), failureOf("E"))},
		{"an empty list", "*0\r\n", listOf()},
		{"no list", "*-1\r\n", nothingAtAll},
		{
			"lists in a list", "*3\r\n*0\r\n*-1\r\n*2\r\n$-1\r\n*1\r\n+x\r\n",
			listOf(listOf(), nothingAtAll, listOf(nothingAtAll, listOf(simpleOf("x")))),
		},
		{
			"a list of more than room is made for early", "*100\r\n" + strings.Repeat(":7\r\n", 100),
			listOf(times(100, integerOf(7))...),
		},
		{"the deepest list", strings.Repeat("*1\r\n", maxDepth) + ":1\r\n", nested(maxDepth)},
		{"the longest line", "+" + strings.Repeat("x", readBytes-3) + "\r\n", simpleOf(strings.Repeat("x", readBytes-3))},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := readAll(strings.NewReader(test.in + "+next\r\n"))
			want := []Message{test.want, simpleOf("next")}
			if !reflect.DeepEqual(got, want) || err != io.EOF {
				t.Errorf("read %.200v and %v, want %.200v and the end", got, err, want)
			}
		})
	}
}

// times returns n times m.
func times(n int, m Message) []Message {
	all := make([]Message, n)
	for i := range all {
		all[i] = m
	}
	return all
}

// nested returns 1 in so many lists.
func nested(depth int) Message {
	m := integerOf(1)
	for range depth {
		m = listOf(m)
	}
	return m
}

func TestReaderRefusesWhatIsNoProtocol(t *testing.T) {
	for _, test := range []struct{ name, in string }{
		{"an empty line", "\r\n"},
		{"a line feed alone", "+OK\n"},
		{"a line feed after one byte", "+\n"},
		{"an unknown kind", "HTTP/1.1 400 Bad Request\r\n"},
		{"the nothing of another version", "_\r\n"},
		{"a push of another version", ">1\r\n+x\r\n"},
		{"a line that is one byte too long", "+" + strings.Repeat("x", readBytes-2) + "\r\n"},
		{"a list that is too deep", strings.Repeat("*1\r\n", maxDepth+1) + ":1\r\n"},
		{"a list of negative length", "*-2\r\n"},
		{"a list that is too long", "*1048577\r\n"},
		{"lists that are too long together", "*1048576\r\n*1048576\r\n"},
		{"a list of no length", "*\r\n"},
		{"a text of negative length", "$-2\r\n"},
		{"a text that is too long", "$67108865\r\n"},
		{"a text of the longest length there is", "$9223372036854775807\r\n"},
		{"a text of no length", "$\r\n"},
		{"a text that is longer than was said", "$1\r\nab\r\n"},
		{"a text that ends with a line feed alone", "$2\r\na\n\n\n"},
		{"a number with a sign", ":+1\r\n"},
		{"a number with a space", ": 1\r\n"},
		{"garbage in a list", "*2\r\n:1\r\n?\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, err := readAll(strings.NewReader(test.in)); !errors.Is(err, ErrProtocol) || got != nil {
				t.Errorf("read %v and %v, want nothing and ErrProtocol", got, err)
			}
		})
	}
}

func TestNumber(t *testing.T) {
	for _, test := range []struct {
		in   string
		want int64
		ok   bool
	}{
		{"0", 0, true},
		{"-0", 0, true},
		{"7", 7, true},
		{"-7", -7, true},
		{"0000000000000000012", 12, true},
		{"9223372036854775807", math.MaxInt64, true},
		{"9223372036854775808", 0, false},
		{"9999999999999999999", 0, false},
		{"-9223372036854775808", math.MinInt64, true},
		{"-9223372036854775809", 0, false},
		{"-9999999999999999999", 0, false},
		{"18446744073709551617", 0, false}, // 20 digits
		{"00000000000000000001", 0, false}, // 20 digits
		{"-", 0, false},
		{"--1", 0, false},
		{"+1", 0, false},
		{"", 0, false},
		{"1 ", 0, false},
		{"1/", 0, false},
		{"1:", 0, false},
		{"0x1", 0, false},
	} {
		if got, ok := number([]byte(test.in)); got != test.want || ok != test.ok {
			t.Errorf("number(%q) is %d, %t; want %d, %t", test.in, got, ok, test.want, test.ok)
		}
	}
}

// TestReaderReadsTextsAroundItsRoom: texts are read whole that just fit the room of the reader,
// just do not, or fill it several times; and their end is looked at.
func TestReaderReadsTextsAroundItsRoom(t *testing.T) {
	pattern := make([]byte, 5*readBytes)
	for i := range pattern {
		pattern[i] = byte(i % 251)
	}
	for _, rooms := range []int{1, 2, 3, 5} {
		for more := -3; more <= 3; more++ {
			n := rooms*readBytes + more
			if n > len(pattern) {
				continue
			}
			want := []Message{bulkOf(string(pattern[:n])), integerOf(1)}
			in := encode(encode(nil, want[0]), want[1])
			if got, err := readAll(bytes.NewReader(in)); !reflect.DeepEqual(got, want) || err != io.EOF {
				t.Errorf("a text of %d bytes is not read as it is; then %v", n, err)
			}
			end := len(in) - len(":1\r\n")
			for _, at := range []int{end - 2, end - 1} {
				wrong := bytes.Clone(in)
				wrong[at] = 'x'
				if got, err := readAll(bytes.NewReader(wrong)); !errors.Is(err, ErrProtocol) || got != nil {
					t.Errorf("a text of %d bytes that ends wrongly: %d messages and %v", n, len(got), err)
				}
			}
			if got, err := readAll(bytes.NewReader(in[:end-1])); err != io.ErrUnexpectedEOF || got != nil {
				t.Errorf("a text of %d bytes that is cut off: %d messages and %v", n, len(got), err)
			}
		}
	}
}

// TestReaderMakesRoomAsItComes: what a server only says will follow costs no memory.
func TestReaderMakesRoomAsItComes(t *testing.T) {
	for _, test := range []struct {
		name, in string
		want     error
	}{
		{"a list of which nothing follows", "*1048576\r\n", io.EOF},
		{"lists in lists of which nothing follows", strings.Repeat("*100000\r\n", maxDepth), io.EOF},
		{"a list that is too long", "*1048577\r\n", ErrProtocol},
		{"a text of which nothing follows", "$67108864\r\n", io.ErrUnexpectedEOF},
		{"a text of which little follows", "$67108864\r\n" + strings.Repeat("x", readBytes), io.ErrUnexpectedEOF},
		{"a text that is too long", "$67108865\r\n", ErrProtocol},
	} {
		t.Run(test.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := readAll(strings.NewReader(test.in))
			runtime.ReadMemStats(&after)
			if !errors.Is(err, test.want) {
				t.Errorf("the error is %v, want %v", err, test.want)
			}
			// The room of the reader, what followed, and as much again for all else.
			if made := after.TotalAlloc - before.TotalAlloc; made > 4*readBytes {
				t.Errorf("%d bytes were made for %d", made, len(test.in))
			}
		})
	}
}

// TestReaderSaysWhereInputIsCutOff: each beginning of messages is an end of input, sooner or
// later, and what was whole before it is read.
func TestReaderSaysWhereInputIsCutOff(t *testing.T) {
	const in = "+OK\r\n*4\r\n:-12\r\n$3\r\nabc\r\n$-1\r\n*1\r\n-E\r\n$0\r\n\r\n"
	all, err := readAll(strings.NewReader(in))
	if len(all) != 3 || err != io.EOF {
		t.Fatalf("read %v and %v, want three messages", all, err)
	}
	for end := range len(in) {
		got, err := readAll(strings.NewReader(in[:end]))
		if len(got) > 2 || len(got) > 0 && !reflect.DeepEqual(got, all[:len(got)]) {
			t.Errorf("of %q is read %v", in[:end], got)
		}
		if err != io.EOF && err != io.ErrUnexpectedEOF {
			t.Errorf("%q ends with %v", in[:end], err)
		}
	}
}

func TestReaderPassesOnTheErrorOfTheConnection(t *testing.T) {
	broken := errors.New("broken")
	for _, in := range []string{"", "+O", "$3\r\na", "*2\r\n:1\r\n"} {
		from := io.MultiReader(strings.NewReader(in), iotest.ErrReader(broken))
		if got, err := readAll(from); err != broken || got != nil {
			t.Errorf("of %q is read %v and %v, want the error of the connection", in, got, err)
		}
	}
}

// FuzzReader: any bytes are messages and then an error, the same ones however they come. A
// message is made of its own bytes and no others, and written again it reads the same.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		"", "+OK\r\n", "-ERR\r\n:1\r\n", "$3\r\nabc\r\n$0\r\n\r\n$-1\r\n", "*2\r\n*0\r\n*-1\r\n", "*1\r\n*1\r\n:-5\r\n+x",
		"$2\r\na\r\n\r\n", "*1048576\r\n", "$67108864\r\nx", ":9223372036854775808\r\n", "+a\rb\r\n", "*-0\r\n:-0\r\n", "\n",
		"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		from := bytes.NewReader(in)
		r := newReader(from)
		var all []Message
		var again []byte
		var err error
		for read := 0; ; {
			var m Message
			if m, err = r.message(); err != nil {
				break
			}
			all, again = append(all, m), encode(again, m)
			end := len(in) - from.Len() - r.from.Buffered()
			own := in[read:end]
			if got, err := readAll(bytes.NewReader(own)); !reflect.DeepEqual(got, []Message{m}) || err != io.EOF {
				t.Fatalf("%q alone is %v and %v, want %v", own, got, err, m)
			}
			got, err := readAll(bytes.NewReader(own[:len(own)-1]))
			if got != nil || err != io.EOF && err != io.ErrUnexpectedEOF {
				t.Fatalf("%q without its last byte is %v and %v", own, got, err)
			}
			read = end
		}
		slow, slowErr := readAll(iotest.OneByteReader(bytes.NewReader(in)))
		if !reflect.DeepEqual(slow, all) || slowErr.Error() != err.Error() {
			t.Fatalf("byte by byte: %v and %v, want %v and %v", slow, slowErr, all, err)
		}
		if got, err := readAll(bytes.NewReader(again)); !reflect.DeepEqual(got, all) || err != io.EOF {
			t.Fatalf("written again as %q: %v and %v, want %v", again, got, err, all)
		}
	})
}

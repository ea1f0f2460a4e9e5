package resp

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"
)

// accessors are those of Message, by what they return.
var accessors = []struct {
	name string
	of   func(Message) (any, error)
}{
	{"Int", func(m Message) (any, error) { return m.Int() }},
	{"Text", func(m Message) (any, error) { return m.Text() }},
	{"List", func(m Message) (any, error) { return m.List() }},
	{"Texts", func(m Message) (any, error) { return m.Texts() }},
	{"Pairs", func(m Message) (any, error) { return m.Pairs() }},
}

// TestMessageIsReadAsWhatItIs: an accessor returns what a message is, or ErrProtocol where it is
// something else.
func TestMessageIsReadAsWhatItIs(t *testing.T) {
	words := []Message{bulkOf("a"), simpleOf("b"), bulkOf("c"), bulkOf("")}
	for _, test := range []struct {
		name string
		m    Message
		want map[string]any // by accessor
		text string
	}{
		{"a number", integerOf(-7), map[string]any{"Int": int64(-7)}, "-7"},
		{"a text", bulkOf("x\r\n"), map[string]any{"Text": "x\r\n"}, "x\r\n"},
		{"a text of digits", bulkOf("12"), map[string]any{"Text": "12"}, "12"},
		{"a simple text", simpleOf("OK"), map[string]any{"Text": "OK"}, "OK"},
		{
			"a list of numbers", listOf(integerOf(1), listOf(integerOf(2))),
			map[string]any{"List": []Message{integerOf(1), listOf(integerOf(2))}}, "[1 [2]]",
		},
		{
			"a list of texts", listOf(words...),
			map[string]any{
				"List": words, "Texts": []string{"a", "b", "c", ""},
				"Pairs": map[string]string{"a": "b", "c": ""},
			}, "[a b c ]",
		},
		{
			"an odd list of texts", listOf(bulkOf("a")),
			map[string]any{"List": []Message{bulkOf("a")}, "Texts": []string{"a"}}, "[a]",
		},
		{
			"an empty list", listOf(),
			map[string]any{"List": []Message{}, "Texts": []string{}, "Pairs": map[string]string{}}, "[]",
		},
		{"the zero message", Message{}, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := test.m.Err(); err != nil {
				t.Errorf("Err is %v, want none", err)
			}
			if got := test.m.String(); got != test.text {
				t.Errorf("String is %q, want %q", got, test.text)
			}
			for _, accessor := range accessors {
				got, err := accessor.of(test.m)
				if want, is := test.want[accessor.name]; is && (err != nil || !reflect.DeepEqual(got, want)) {
					t.Errorf("%s is %v and %v, want %v", accessor.name, got, err, want)
				} else if !is && !errors.Is(err, ErrProtocol) {
					t.Errorf("%s is %v and %v, want ErrProtocol", accessor.name, got, err)
				}
			}
		})
	}
}

// TestMessageThatIsAnError: each accessor returns the error that a message is, and ErrNil for
// nothing; Texts and Pairs return those of elements.
func TestMessageThatIsAnError(t *testing.T) {
	isNo := func(err error) bool {
		no, is := errors.AsType[*Error](err)
		return is && no.Text == "ERR no" && err.Error() == "ERR no"
	}
	isNil := func(err error) bool { return err == ErrNil }
	for _, test := range []struct {
		name string
		m    Message
		want func(error) bool
		text string
	}{
		{"an error", failureOf("ERR no"), isNo, "ERR no"},
		{"nothing", nothingAtAll, isNil, "nil"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.m.String(); got != test.text {
				t.Errorf("String is %q, want %q", got, test.text)
			}
			if err := test.m.Err(); !test.want(err) {
				t.Errorf("Err is %v", err)
			}
			for _, accessor := range accessors {
				if _, err := accessor.of(test.m); !test.want(err) {
					t.Errorf("%s returns the error %v", accessor.name, err)
				}
			}
			in := listOf(bulkOf("name"), test.m)
			if err := in.Err(); err != nil {
				t.Errorf("a list with it has the error %v", err)
			}
			if _, err := in.Texts(); !test.want(err) {
				t.Errorf("Texts of a list with it returns the error %v", err)
			}
			if _, err := in.Pairs(); !test.want(err) {
				t.Errorf("Pairs of a list with it returns the error %v", err)
			}
		})
	}
}

// TestAnswer: an answer is the message of the server, or why there is none, whatever it is asked
// for.
func TestAnswer(t *testing.T) {
	errsOf := func(a Answer) []error {
		_, message := a.Message()
		_, text := a.Text()
		_, list := a.List()
		_, texts := a.Texts()
		_, pairs := a.Pairs()
		return []error{a.Err(), message, text, list, texts, pairs}
	}
	for _, want := range []error{ErrClosed, ErrNil} {
		a := Answer{err: want}
		if want == ErrNil {
			a = Answer{message: nothingAtAll}
		}
		for i, err := range errsOf(a) {
			if err != want {
				t.Errorf("error %d is %v, want %v", i, err, want)
			}
		}
	}
	pair := listOf(bulkOf("a"), bulkOf("b"))
	a := Answer{message: pair}
	m, _ := a.Message()
	list, _ := a.List()
	texts, _ := a.Texts()
	pairs, err := a.Pairs()
	if !reflect.DeepEqual(m, pair) || !reflect.DeepEqual(list, *pair.list) || !slices.Equal(texts, []string{"a", "b"}) ||
		!maps.Equal(pairs, map[string]string{"a": "b"}) || err != nil || a.Err() != nil {
		t.Errorf("%v is %v, %v, %v, and %v, %v", pair, m, list, texts, pairs, err)
	}
	if text, err := (Answer{message: bulkOf("x")}).Text(); text != "x" || err != nil {
		t.Errorf("Text is %q, %v", text, err)
	}
}

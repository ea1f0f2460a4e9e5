package audit

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/headgate/headgate/internal/view"
	"github.com/headgate/headgate/verdict"
)

// filled returns an event whose texts are all text and whose numbers are all n.
func filled(text string, n int64) view.Event {
	var e view.Event
	fill(reflect.ValueOf(&e).Elem(), text, n)
	return e
}

// fill fills a struct in the same way; lists get two elements, or are empty for n = 0.
func fill(v reflect.Value, text string, n int64) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(text)
		case reflect.Int, reflect.Int64:
			f.SetInt(n)
		case reflect.Float64:
			f.SetFloat(float64(n) / 3)
		case reflect.Bool:
			f.SetBool(n != 0)
		case reflect.Slice:
			if n != 0 {
				f.Set(reflect.MakeSlice(f.Type(), 2, 2))
				fill(f.Index(0), text, n)
				fill(f.Index(1), "", -n)
			}
		}
	}
}

// FuzzEncode holds the encoder against encoding/json, in both directions.
func FuzzEncode(f *testing.F) {
	for _, text := range []string{"", "user:u", "\"\\/<&>", "a\nb\r\x00\x1f\x7f", "\u0085\u009f\u00a0\u2028\u2029\u202e", "\xff\xc3", "\ufffd", "é😀"} {
		f.Add(text, int64(len(text)))
	}
	f.Add("x", int64(-1)<<62)
	f.Fuzz(func(t *testing.T, text string, n int64) {
		want := filled(string([]rune(text)), n) // with U+FFFD for each byte that is none
		e := filled(text, n)
		line := appendEvent([]byte("before "), &e)[len("before "):]
		var got view.Event
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if !utf8.Valid(line) || strings.ContainsFunc(string(line), func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }) {
			t.Errorf("%q", line)
		}
		reference, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(names(t, reference), names(t, line)) {
			t.Errorf("%v, want %v", names(t, line), names(t, reference))
		}
	})
}

// names returns the names of an object, in their order.
func names(t *testing.T, object []byte) (list []string) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(object)))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, name.(string))
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

const schemaFile = "../../docs/audit-event.schema.json"

// eventSchema is what the tests read of the schema.
type eventSchema struct {
	Required   []string `json:"required"`
	Properties map[string]struct {
		Type        string   `json:"type"`
		Description string   `json:"description"`
		Enum        []string `json:"enum"`
		Const       any      `json:"const"`
	} `json:"properties"`
}

func readSchema(t *testing.T) eventSchema {
	t.Helper()
	data, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	var s eventSchema
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// The schema, the struct and the table of the documentation have the same fields.
func TestSchemaIsOfTheStruct(t *testing.T) {
	s := readSchema(t)
	document, err := os.ReadFile("../../docs/audit.md")
	if err != nil {
		t.Fatal(err)
	}
	typeNames := map[reflect.Kind]string{reflect.String: "string", reflect.Int: "integer", reflect.Int64: "integer", reflect.Bool: "boolean", reflect.Float64: "number", reflect.Slice: "array"}
	event := reflect.TypeFor[view.Event]()
	for i := range event.NumField() {
		name, rest, _ := strings.Cut(event.Field(i).Tag.Get("json"), ",")
		p, ok := s.Properties[name]
		if !ok {
			t.Errorf("%s is not in the schema", name)
			continue
		}
		if want := typeNames[event.Field(i).Type.Kind()]; p.Type != want || p.Description == "" {
			t.Errorf("%s: a %s, described as %q; want a %s", name, p.Type, p.Description, want)
		}
		if required := rest == ""; required != slices.Contains(s.Required, name) {
			t.Errorf("%s: required is %v", name, !required)
		}
		if !strings.Contains(string(document), "\n| `"+name+"` |") {
			t.Errorf("%s is not in the table of docs/audit.md", name)
		}
	}
	if len(s.Properties) != event.NumField() {
		t.Errorf("the schema has %d fields, the struct %d", len(s.Properties), event.NumField())
	}
	if s.Properties["schema"].Const != float64(view.EventSchema) {
		t.Errorf("the schema is of version %v", s.Properties["schema"].Const)
	}
}

// All outcomes and roles that are written are in the schema.
func TestSchemaKnowsWhatIsWritten(t *testing.T) {
	s := readSchema(t)
	var outcomes []string
	for _, o := range []verdict.Outcome{verdict.Allowed, verdict.Denied, verdict.ShadowDenied, verdict.DegradedAllowed, verdict.DegradedDenied, verdict.Unmatched, verdict.UnknownDomain} {
		outcomes = append(outcomes, o.String())
	}
	outcomes = append(outcomes, outcomeRaised, outcomeRaiseEnded, outcomeDrill, outcomeDrillEnded)
	if diff := cmp.Diff(outcomes, s.Properties["outcome"].Enum); diff != "" {
		t.Error(diff)
	}
	b := newBench(t, Options{Sample: 1})
	b.ask("call:a,call_id:1")
	b.ask("call:a,call_id:2")
	if e := b.latest(); !slices.Contains(s.Properties["role"].Enum, e.Role) {
		t.Errorf("role %q is not in the schema", e.Role)
	}
}

package strictjson

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

type inner struct {
	Hits *int64     `json:"hits"`
	At   *time.Time `json:"at"`
}

type outer struct {
	inner
	Name   string          `json:"name"`
	On     bool            `json:"on"`
	Ratio  float64         `json:"ratio"`
	List   []inner         `json:"list"`
	Labels map[string]int  `json:"labels"`
	Raw    json.RawMessage `json:"raw"`
	Plain  int
	Hidden string `json:"-"`
}

// TestDecode: what package json makes of a good body is what is made of it here.
func TestDecode(t *testing.T) {
	for _, text := range []string{
		`{}`, ` {"name":"caf\u00e9 \ud83d\ude00 \n","on":true,"ratio":-1.5e3} `,
		`{"hits":7,"at":"2026-12-01T00:00:00+02:00","list":[{},{"hits":null},null],"labels":{"A":1,"a":2}}`,
		`{"raw":{"a":[1,2,{"b":null}]},"Plain":3,"name":null}`,
	} {
		var got, want outer
		if err := Decode([]byte(text), &got); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if err := json.Unmarshal([]byte(text), &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v, %v", text, got, want, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	deep := strings.Repeat(`[`, maxDepth+1)
	for text, want := range map[string]string{
		``:                                  "wants a value, got the end of the body",
		`null`:                              "null is not an object",
		`[]`:                                "a list is not an object",
		`{} {}`:                             "text after the end of the JSON value",
		`{"name":"a","name":"b"}`:           "name: given twice",
		`{"name":"a","n\u0061me":"b"}`:      "name: given twice",
		`{"list":[{},{"hits":1,"hits":2}]}`: "list[1].hits: given twice",
		`{"labels":{"a":1,"a":2}}`:          "labels.a: given twice",
		`{"raw":{"a":[{"b":1,"b":2}]}}`:     "raw.a[0].b: given twice",
		`{"Name":"a"}`:                      "Name: no such field; hint: names are in lower case: name",
		`{"nam\u0435":"a"}`:                 "no such field",
		`{"nam":"a"}`:                       `nam: no such field; hint: did you mean "name"?`,
		`{"Hidden":"a"}`:                    "Hidden: no such field",
		`{"inner":{}}`:                      "inner: no such field; hint: there are Plain, at, hits, labels, list, name, on, ratio, raw",
		"{\"name\":\"\xff\"}":               "name: not UTF-8",
		`{"name":"\udc00"}`:                 "name: ",
		"{\"name\":\"\n\"}":                 "name: control character",
		`{"raw":` + deep:                    "nested too deep",
		`{"labels":{"a":"x"}}`:              "labels.a: text is not a whole number",
		`{"hits":1.0}`:                      "hits: the number 1.0 is not a whole number",
		`{"hits":01}`:                       "hits: not a JSON number",
		`{"hits":9223372036854775808}`:      "hits: the number 9223372036854775808 is out of range; hint: from -9223372036854775808 to 9223372036854775807",
		`{"at":"2026-12-01"}`:               "at: not a time; hint",
		`{"on":1}`:                          "on: the number 1 is not true or false",
		`{"name":false}`:                    "name: false is not text",
		`{"list":{}}`:                       "list: an object is not a list",
		`{"ratio":1e999}`:                   "ratio: the number 1e999 is not a number",
		`{"name":NaN}`:                      "name: wants a value",
		`{"name":"a",}`:                     "wants a quoted name",
	} {
		if err := Decode([]byte(text), &outer{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", text, err, want)
		}
	}
}

// TestGuarded: of a text that may hold secrets, a name that nobody knows is not told.
func TestGuarded(t *testing.T) {
	for text, want := range map[string]string{
		`{"secret":1}`:                 "no such field; hint: there are Plain, at, hits, labels, list, name, on, ratio, raw",
		`{"sec.ret \"":1}`:             "no such field; hint: there are Plain, at, hits, labels, list, name, on, ratio, raw",
		`{"list":[{},{"secret":1}]}`:   "list[1]: no such field; hint: there are at, hits",
		`{"nam":"a"}`:                  `nam: no such field; hint: did you mean "name"?`,
		`{"list":[{"hits":"secret"}]}`: "list[0].hits: text is not a whole number",
	} {
		if err := Decode([]byte(text), &outer{}); err == nil || err.Guarded().Error() != want {
			t.Errorf("%s: %v, want %s", text, err.Guarded(), want)
		}
	}
}

func TestValidBounds(t *testing.T) {
	members := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(`,"` + strings.Repeat("a", i+1) + `":0`)
		}
		return "{" + b.String()[1:] + "}"
	}
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for text, good := range map[string]bool{
		members(maxMembers): true, members(maxMembers + 1): false,
		nested(maxDepth): true, nested(maxDepth + 1): false, nested(1_000_000): false,
	} {
		if err := Valid([]byte(text)); (err == nil) != good {
			t.Errorf("%.40s: %v", text, err)
		}
	}
}

// FuzzDecode: what is taken is JSON that every reader takes for the same thing: package
// json reads it, writes it, and reads that alike.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{`{"name":"x","list":[{"hits":1}],"raw":[[{"a":1e5}]],"labels":{"b":2}}`, `{"name":"\ud83d\ude00"}`, `{"at":"2026-12-01T00:00:00Z"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, again outer
		if Decode(data, &got) != nil {
			return
		}
		if err := Valid(data); err != nil {
			t.Fatalf("taken, though %v", err)
		}
		text, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if err := Decode(text, &again); err != nil {
			t.Fatalf("%s became %s: %v", data, text, err)
		}
	})
}

// TestWhereItIsWrong: an error has the place of the name or the value that cannot be.
func TestWhereItIsWrong(t *testing.T) {
	for text, at := range map[string]string{
		`{"on":true, "nam":"a"}`:             `"nam"`,
		`{"name":"a","name":"b"}`:            `"name":"b"`,
		`{"name": 7}`:                        `7}`,
		`{"list":[{"hits":1},{"hits":"x"}]}`: `"x"`,
		`{"list":[{}, 5]}`:                   `5]`,
		`{"list": {}}`:                       `{}}`,
		`{"on": nope}`:                       `nope`,
		`{"on": "x"}`:                        `"x"`,
		`{"on":true "name":"a"}`:             `"name"`,
		`{} {}`:                              `{}`,
		`{"at": "never"}`:                    `"never"`,
		`{"raw":[1,{"b":1,"b":2}]}`:          `"b":2`,
		`{"name":"a`:                         `"a`,
	} {
		err := Decode([]byte(text), &outer{})
		if err == nil || err.Offset != strings.LastIndex(text, at) {
			t.Errorf("%s: %+v, want the place of %s", text, err, at)
		}
	}
	text := []byte("{\"name\":\"a\",\n \"caf\u00e9\": 1}")
	if err := Decode(text, &outer{}); err == nil {
		t.Error("read")
	} else if line, column := err.Place(text); line != 2 || column != 2 {
		t.Errorf("line %d, column %d", line, column)
	}
	text = []byte("{\"labels\":{\"caf\u00e9\":\"x\"}}")
	if err := Decode(text, &outer{}); err == nil {
		t.Error("read")
	} else if line, column := err.Place(text); line != 1 || column != 19 {
		t.Errorf("line %d, column %d", line, column)
	}
	if err := Valid([]byte(`[1, 2,, 3]`)); err == nil || err.Offset != 6 {
		t.Errorf("%+v", err)
	}
}

package httpanswer

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/headgate/headgate"
)

// TestWriterSetsWhatItAppends: what stands in a Header is what AppendFields tells, by the names
// under which Get finds it, whether it fits in one object or not; and a Writer that has written
// other answers before tells nothing of them.
func TestWriterSetsWhatItAppends(t *testing.T) {
	var w Writer
	for name, o := range map[string]Options{
		"default":           {},
		"draft 6":           {Generation: Draft6Window},
		"draft 7":           {Generation: Draft7, OmitX: true},
		"X fields":          {Generation: NoDraft, Reset: DeltaSeconds},
		"nothing":           {Generation: NoDraft, OmitX: true},
		"with the decision": {DecisionID: "x-decision-ID"},
		"many fields":       {Generation: Draft6, DecisionID: "X-Decision-Id"},
	} {
		e, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		for answer, resp := range map[string]headgate.Response{
			"allowed": recorded(exampleAllowed()), "denied": recorded(exampleDenied()),
			"long": recorded(named(exampleAllowed(), strings.Repeat("n", usualText))),
		} {
			s := e.Summarize(&resp)
			fields := e.AppendFields(nil, nil, &resp, &s, exampleNow)
			for range 2 { // the second time it is remembered
				h := http.Header{}
				e.WriteFields(&w, nil, &resp, &s, exampleNow)
				w.SetCanonical(h)
				own := http.Header{}
				w.Set(own)
				if want := asHeader(fields); !reflect.DeepEqual(own, want) {
					t.Errorf("%s, %s: %v in their own spelling, want %v", name, answer, own, want)
				}
				if len(h) != len(fields) {
					t.Errorf("%s, %s: %v, want %v", name, answer, h, fields)
				}
				for _, f := range fields {
					if values := h.Values(f.Name); len(values) != 1 || values[0] != f.Value || cap(values) != 1 {
						t.Errorf("%s, %s: %s is %q, want %q", name, answer, f.Name, values, f.Value)
					}
				}
				replaced := http.Header{}
				SetHeader(replaced, fields)
				w.ReplaceCanonical(replaced)
				if !reflect.DeepEqual(replaced, h) {
					t.Errorf("%s, %s: replaced %v, want %v", name, answer, replaced, h)
				}
			}
		}
	}
}

// named returns resp with a name for its first limit.
func named(resp headgate.Response, name string) headgate.Response {
	resp.Verdicts[0].Name = name
	return resp
}

// asHeader returns fields in their own spelling.
func asHeader(fields []Field) http.Header {
	h := http.Header{}
	SetHeader(h, fields)
	return h
}

package rls

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/headgate/headgate/internal/openapi"
	"github.com/headgate/headgate/internal/openapi/openapitest"
)

// describedJSON is what DescribeJSON says, as a document that was read.
func describedJSON(t *testing.T) openapitest.Document {
	t.Helper()
	part := DescribeJSON()
	part.Add(openapi.Part{Schemas: openapi.Schema{"Problem": openapi.Schema{"type": "object"}}}) // the problem is another package's
	var d openapitest.Document
	if err := json.Unmarshal(openapi.Text(openapi.Schema{"paths": part.Paths, "components": openapi.Schema{"schemas": part.Schemas}}), &d); err != nil {
		t.Fatal(err)
	}
	if refs := d.Dangling(); len(refs) > 0 {
		t.Fatalf("there is no %q", refs)
	}
	return d
}

// TestDescribedAnswer: the document has exactly the fields of an answer in which everything that is ever set
// is set.
func TestDescribedAnswer(t *testing.T) {
	metadata, err := proto.Marshal(&structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewNumberValue(1)}})
	if err != nil {
		t.Fatal(err)
	}
	full := answer{
		overall: codeOverLimit, headers: []header{{"a", "b"}}, requestHeaders: []header{{"a", "b"}}, body: []byte("body"), metadata: metadata,
		statuses: []descriptorStatus{{code: codeOK, remaining: 1, resetSeconds: 5, currentLimit: currentLimit{present: true, requests: 9, name: "n", unit: unitWeek, multiplier: 2}}},
	}
	var m rlsv3.RateLimitResponse
	if err := proto.Unmarshal(full.append(nil), &m); err != nil {
		t.Fatal(err)
	}
	text, err := encodeJSON(&m)
	if err != nil {
		t.Fatal(err)
	}
	var sent any
	if err := json.Unmarshal(text, &sent); err != nil {
		t.Fatal(err)
	}
	d := describedJSON(t)
	for _, problem := range d.Conforms(sent, d.Answer("/json", "post", http.StatusOK, "application/json"), "the answer") {
		t.Error(problem)
	}
	for schema, path := range map[string][]string{
		"RateLimitResponse": nil, "RateLimitResponseDescriptorStatus": {"statuses"}, "RateLimitResponseRateLimit": {"statuses", "currentLimit"}, "HeaderValue": {"responseHeadersToAdd"},
	} {
		object := sent
		for _, name := range path {
			object = object.(map[string]any)[name]
			if list, ok := object.([]any); ok {
				object = list[0]
			}
		}
		has, _ := openapitest.Dig(map[string]any(d), "components", "schemas", schema, "properties").(map[string]any)
		got, want := slices.Sorted(maps.Keys(object.(map[string]any))), slices.Sorted(maps.Keys(has))
		if !slices.Equal(got, want) {
			t.Errorf("of %s the document has %q, but %q are sent", schema, want, got)
		}
	}
}

// TestDescribedRequest: requests that the document has are taken, by the names of proto3 JSON and by those of
// the .proto file, and requests with a field that it does not have are refused.
func TestDescribedRequest(t *testing.T) {
	d := describedJSON(t)
	shape := d.Body("/json", "post")
	ask := func(body any) *httptest.ResponseRecorder {
		t.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		NewJSONHandler(Options{Checker: says(true, allowedVerdict())}, nil).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(string(text))))
		return w
	}
	bodies := d.Bodies(shape, nil)
	names := map[string]bool{}
	for _, body := range bodies {
		if w := ask(body); w.Code != http.StatusOK {
			t.Errorf("%v: %d %s", body, w.Code, w.Body)
		}
		for _, strange := range d.Strangers(body, shape) {
			if w := ask(strange); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "stranger") {
				t.Errorf("%v: %d %s", strange, w.Code, w.Body)
			}
		}
		for name := range body.(map[string]any) {
			names[name] = true
		}
	}
	for _, name := range []string{"domain", "descriptors", "hitsAddend", "hits_addend"} {
		if !names[name] {
			t.Errorf("no body has %s", name)
		}
	}
}

// TestNotesAreOfFields: what is said of fields is said of some that there are.
func TestNotesAreOfFields(t *testing.T) {
	known := map[string]bool{}
	var learn func(m protoreflect.MessageDescriptor)
	learn = func(m protoreflect.MessageDescriptor) {
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			at := string(m.Name()) + "." + string(f.Name())
			if known[at] {
				continue
			}
			known[at] = true
			if f.Message() != nil {
				learn(f.Message())
			}
		}
	}
	learn((&rlsv3.RateLimitRequest{}).ProtoReflect().Descriptor())
	learn((&rlsv3.RateLimitResponse{}).ProtoReflect().Descriptor())
	for at := range shapes {
		if !known[at] {
			t.Errorf("there is no field %s", at)
		}
	}
	for at := range needed {
		if !known[at] {
			t.Errorf("there is no field %s", at)
		}
	}
}

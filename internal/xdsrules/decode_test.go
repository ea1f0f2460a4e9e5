package xdsrules

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/headgate/headgate/rules/rulefile"
)

// The messages of the tests, by their fields.
func textField(number protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), text)
}

func numberField(number protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), n)
}

func messageField(number protowire.Number, fields ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), join(fields...))
}

func join(fields ...[]byte) (all []byte) {
	for _, f := range fields {
		all = append(all, f...)
	}
	return all
}

func resource(fields ...[]byte) *anypb.Any {
	return &anypb.Any{TypeUrl: TypeURL, Value: join(fields...)}
}

// config is a RateLimitConfig with one descriptor and a limit for each hour.
func config(name, domain string, requests uint64) *anypb.Any {
	return resource(textField(1, name), textField(2, domain), messageField(3, textField(1, "user"), messageField(3, numberField(1, 3), numberField(2, requests))))
}

// TestDocuments: every field of the messages is in the document, and what is not known is
// skipped.
func TestDocuments(t *testing.T) {
	metadata, err := proto.Marshal(&structpb.Struct{Fields: map[string]*structpb.Value{"team": structpb.NewStringValue("web")}})
	if err != nil {
		t.Fatal(err)
	}
	files, err := documentsOf([]*anypb.Any{
		config("z", "last", 4294967295),
		resource(
			textField(1, "ns/gateway/http"), textField(2, "ns/gateway/http"), numberField(99, 7), textField(98, "unknown"),
			messageField(3, textField(1, "route"), textField(2, "route"), numberField(5, 1),
				messageField(4, textField(1, "rule-0-match-0"), textField(2, "one"), numberField(6, 1), numberField(7, 1), messageField(8, metadata),
					messageField(3, numberField(1, 7), textField(4, "named"), messageField(5, textField(1, "other")))),
				messageField(4, textField(1, "free"), messageField(3, numberField(3, 1)))),
		),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 2 || files[0].Name != "xds:ns/gateway/http" || files[1].Name != "xds:z" {
		t.Fatalf("%v", files)
	}
	var got any
	if err := json.Unmarshal(files[0].Data, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"domain": "ns/gateway/http", "descriptors": []any{map[string]any{
		"key": "route", "value": "route", "shadow_mode": true, "descriptors": []any{
			map[string]any{
				"key": "rule-0-match-0", "value": "one", "detailed_metric": true, "quota_mode": true, "metadata": map[string]any{"team": "web"},
				"rate_limit": map[string]any{"unit": "week", "requests_per_unit": 0.0, "name": "named", "replaces": []any{map[string]any{"name": "other"}}},
			},
			map[string]any{"key": "free", "rate_limit": map[string]any{"unlimited": true}},
		},
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	set, err := rulefile.Load(files, rulefile.Options{Compat: true})
	if err != nil {
		t.Fatal(err)
	}
	if set.NumRules() != 3 {
		t.Errorf("%d rules", set.NumRules())
	}
}

func TestUnits(t *testing.T) {
	for number, unit := range map[uint64]string{1: "second", 2: "minute", 3: "hour", 4: "day", 5: "month", 6: "year", 7: "week", 0: "", 8: ""} {
		files, err := documentsOf([]*anypb.Any{resource(textField(1, "a"), textField(2, "a"), messageField(3, textField(1, "k"), messageField(3, numberField(1, number), numberField(2, 5))))})
		if unit == "" {
			if err == nil {
				t.Errorf("unit %d is taken", number)
			}
			continue
		}
		if err != nil || !strings.Contains(string(files[0].Data), fmt.Sprintf("%q: %q", "unit", unit)) {
			t.Errorf("unit %d: %v", number, err)
		}
	}
}

// TestRefused: what is no RateLimitConfig is refused, with the resource that it is in.
func TestRefused(t *testing.T) {
	deep := messageField(4, textField(1, "k"))
	for range maxDepth {
		deep = messageField(4, textField(1, "k"), deep)
	}
	for name, resources := range map[string][]*anypb.Any{
		"another type":    {config("a", "a", 1), {TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster"}},
		"no message":      {config("a", "a", 1), resource([]byte{0xff})},
		"cut off":         {config("a", "a", 1), resource(textField(1, "b")[:2])},
		"a wrong kind":    {config("a", "a", 1), resource(numberField(2, 1))},
		"text of bytes":   {config("a", "a", 1), resource(textField(2, "\xff"))},
		"too deep":        {config("a", "a", 1), resource(messageField(3, textField(1, "k"), deep))},
		"a bad metadata":  {config("a", "a", 1), resource(messageField(3, messageField(8, []byte{0xff})))},
		"one name twice ": {config("a", "a", 1), config("a", "b", 1)},
	} {
		if files, err := documentsOf(resources); err == nil || files != nil {
			t.Errorf("%s: %v", name, err)
		} else if !strings.Contains(err.Error(), "resource") {
			t.Errorf("%s: %v does not say where", name, err)
		}
	}
}

// TestDepthOfRules: descriptors may be nested as deep as in a rule file, and what is nested deeper
// is refused with the line of the document.
func TestDepthOfRules(t *testing.T) {
	nested := messageField(4, textField(1, "k"), messageField(3, numberField(1, 3), numberField(2, 1)))
	for range 30 {
		nested = messageField(4, textField(1, "k"), nested)
	}
	for depth, document := range map[int]*anypb.Any{
		32: resource(textField(1, "a"), textField(2, "a"), messageField(3, textField(1, "k"), nested)),
		33: resource(textField(1, "a"), textField(2, "a"), messageField(3, textField(1, "k"), messageField(4, textField(1, "k"), nested))),
	} {
		files, err := documentsOf([]*anypb.Any{document})
		if err != nil {
			t.Fatal(err)
		}
		_, err = rulefile.Load(files, rulefile.Options{Compat: true})
		if depth == 32 && err != nil || depth == 33 && (err == nil || !strings.Contains(err.Error(), "nested deeper than 32 levels")) {
			t.Errorf("%d deep: %v", depth, err)
		}
	}
}

// FuzzDocuments: whatever bytes a resource has, it is refused or a document in JSON.
func FuzzDocuments(f *testing.F) {
	f.Add(config("a", "a", 3).GetValue())
	f.Add([]byte{0xff})
	f.Add(resource(messageField(3, textField(1, "k"), messageField(4, textField(1, "l")))).GetValue())
	f.Fuzz(func(t *testing.T, b []byte) {
		files, err := documentsOf([]*anypb.Any{{TypeUrl: TypeURL, Value: b}})
		if err != nil {
			return
		}
		if !json.Valid(files[0].Data) {
			t.Errorf("%q is no JSON", files[0].Data)
		}
		_, _ = rulefile.Load(files, rulefile.Options{Compat: true}) // no panic
	})
}

// TestManyDescriptors: as many as a large gateway has are one answer, in any order the same.
func TestManyDescriptors(t *testing.T) {
	const domains, routes = 100, 100
	var resources []*anypb.Any
	for d := range domains {
		fields := [][]byte{textField(1, fmt.Sprint("d", d)), textField(2, fmt.Sprint("d", d))}
		for r := range routes {
			fields = append(fields, messageField(3, textField(1, "route"), textField(2, fmt.Sprint("r", r)), messageField(3, numberField(1, 3), numberField(2, 5))))
		}
		resources = append(resources, resource(fields...))
	}
	files, err := documentsOf(resources)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(resources)
	again, err := documentsOf(resources)
	if diff := cmp.Diff(files, again); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	set, err := rulefile.Load(files, rulefile.Options{Compat: true})
	if err != nil || set.NumRules() != domains*routes {
		t.Fatalf("%d rules, %v", set.NumRules(), err)
	}
}

package identity

import (
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func newTemplates(t testing.TB, list ...string) *Templates {
	t.Helper()
	set, err := NewTemplates(list...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestMatchTakesTheMostSpecific(t *testing.T) {
	set := newTemplates(t, "/", "/users", "/users/{id}", "/users/me", "/users/{id}/posts", "/users/{id}/{kind}", "/users/me/{kind}/x",
		"/static/{file...}", "/static/{dir}/index", "/a/{x}/c", "/a/b/{y}/d", "/slash/")
	for _, test := range [][2]string{
		{"/", "/"}, {"", "/"}, {"/.", "/"},
		{"/users", "/users"}, {"/users/", "/users"}, {"//users//", "/users"},
		{"/users/7", "/users/{id}"}, {"/users/./7", "/users/{id}"}, {"/x/../users/7", "/users/{id}"},
		{"/users/me", "/users/me"}, {"/Users/me", Unmatched},
		{"/users/7/posts", "/users/{id}/posts"}, {"/users/7/likes", "/users/{id}/{kind}"},
		{"/users/me/posts", "/users/{id}/posts"}, {"/users/me/posts/x", "/users/me/{kind}/x"},
		{"/static", "/static/{file...}"}, {"/static/", "/static/{file...}"}, {"/static/a/b/c", "/static/{file...}"},
		{"/static/a/index", "/static/{dir}/index"}, {"/static/a/index/b", "/static/{file...}"},
		{"/a/b/c", "/a/{x}/c"}, {"/a/b/c/d", "/a/b/{y}/d"}, {"/a/b/c/e", Unmatched},
		{"/slash", "/slash/"},
		{"/nothing", Unmatched}, {"*", Unmatched}, {"users", Unmatched}, {"/../../users", "/users"},
		{"/users/" + strings.Repeat("x", MaxPath), Unmatched},
		{"/static" + strings.Repeat("/x", MaxSegments-1), "/static/{file...}"},
		{"/static" + strings.Repeat("/x", MaxSegments), Unmatched},
	} {
		if got, ok := set.Match(test[0]); got != test[1] || ok != (test[1] != Unmatched) {
			t.Errorf("%.60q: %q, %v; want %q", test[0], got, ok, test[1])
		}
	}
	var none Templates
	if got, ok := none.Match("/"); got != Unmatched || ok {
		t.Errorf("no templates: %q, %v", got, ok)
	}
}

func TestNewTemplatesRefuses(t *testing.T) {
	for _, test := range []struct {
		templates []string
		want      string
	}{
		{[]string{"users"}, "does not start with a slash"},
		{[]string{""}, "does not start with a slash"},
		{[]string{"//users"}, "doubled slashes"},
		{[]string{"/a/../b"}, "dot segments"},
		{[]string{"/{id"}, "brace without"},
		{[]string{"/{}"}, "name that is empty"},
		{[]string{"/{...}"}, "name that is empty"},
		{[]string{"/{a...}/b"}, "segments behind"},
		{[]string{"/x{id}"}, "brace inside"},
		{[]string{"/a", "/a/"}, "fits the same paths as /a"},
		{[]string{"/{a}", "/{b}"}, "fits the same paths as /{a}"},
		{[]string{"/x/{a...}", "/x/{b...}"}, "fits the same paths"},
		{[]string{"/" + strings.Repeat("x", MaxPath)}, "longer than"},
		{[]string{strings.Repeat("/x", MaxSegments+1)}, "segments"},
		{slicesOf("/x", MaxTemplates+1), "at most"},
	} {
		if _, err := NewTemplates(test.templates...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.60q: %v, want %q", test.templates[0], err, test.want)
		}
	}
}

// plainMatch says whether a path fits a template, the slow and obvious way.
func plainMatch(template, p string) bool {
	split := func(s string) []string {
		if s = strings.Trim(s, "/"); s == "" {
			return nil
		}
		return strings.Split(s, "/")
	}
	have := split(path.Clean("/" + p))
	for _, want := range split(template) {
		if strings.HasSuffix(want, "...}") {
			return true
		}
		if len(have) == 0 || want[0] != '{' && want != have[0] {
			return false
		}
		have = have[1:]
	}
	return len(have) == 0
}

// rank orders templates: the lesser is the more specific one.
func rank(template string) string {
	var b strings.Builder
	for segment := range strings.SplitSeq(strings.Trim(template, "/"), "/") {
		switch {
		case strings.HasSuffix(segment, "...}"):
			b.WriteByte('2')
		case strings.HasPrefix(segment, "{"):
			b.WriteByte('1')
		default:
			b.WriteByte('0')
		}
	}
	return b.String()
}

func TestMatchAgreesWithTryingAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []string
		for range rapid.IntRange(0, 10).Draw(t, "templates") {
			segments := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "{x}"}), 1, 4).Draw(t, "template")
			if rapid.Bool().Draw(t, "rest") {
				segments = append(segments, "{rest...}")
			}
			template := "/" + strings.Join(segments, "/")
			if _, err := NewTemplates(append(list, template)...); err == nil {
				list = append(list, template)
			}
		}
		set, err := NewTemplates(list...)
		if err != nil {
			t.Fatal(err)
		}
		p := "/" + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", ""}), 0, 6).Draw(t, "path"), "/")
		want := Unmatched
		for _, template := range list {
			if plainMatch(template, p) && (want == Unmatched || rank(template) < rank(want)) {
				want = template
			}
		}
		if got, _ := set.Match(p); got != want {
			t.Fatalf("%q in %q: %q, want %q", p, list, got, want)
		}
	})
}

func FuzzMatch(f *testing.F) {
	f.Add("/users/{id}", "/users/7")
	f.Add("/{a}/{b...}", "/x/y/z")
	f.Add("/", "")
	f.Fuzz(func(t *testing.T, template, p string) {
		set, err := NewTemplates("/fixed", template)
		if err != nil {
			return
		}
		got, ok := set.Match(p)
		if ok && got != template && got != "/fixed" || !ok && got != Unmatched {
			t.Errorf("%q, %v", got, ok)
		}
		if ok && !plainMatch(got, p) {
			t.Errorf("%q does not fit %q", p, got)
		}
	})
}

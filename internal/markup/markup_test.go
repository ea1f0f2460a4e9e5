package markup

import (
	"errors"
	"html"
	"strings"
	"testing"
	"time"
)

type shouting struct{}

func (shouting) String() string { return "<b>" }

func TestAdd(t *testing.T) {
	var p Page
	p.Add(`<p title="%s">%s %v %d %.1f %s</p>`, `"<a>'&`, "<script>", shouting{}, 7, 1.25, Raw("<i>"))
	p.Add("%v %s %s", errors.New("<"), []byte("<"), time.Second)
	const want = `<p title="&#34;&lt;a&gt;&#39;&amp;">&lt;script&gt; &lt;b&gt; 7 1.2 <i></p>&lt; [60] 1s`
	if p.String() != want {
		t.Errorf("%s, want %s", p.String(), want)
	}
}

// FuzzAdd: a text is never markup, and is there as it was.
func FuzzAdd(f *testing.F) {
	f.Add(`<script>alert("1")</script>&amp;'`)
	f.Fuzz(func(t *testing.T, text string) {
		var p Page
		p.Add("%s", text)
		if strings.ContainsAny(p.String(), `<>"'`) || html.UnescapeString(p.String()) != text {
			t.Errorf("%q became %q", text, p.String())
		}
	})
}

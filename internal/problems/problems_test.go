package problems

import (
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"testing"
)

// Each type of errors has a heading of the page, and each heading is of one.
func TestPageHasAllSections(t *testing.T) {
	text, err := os.ReadFile("../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	var headings []string
	for _, found := range regexp.MustCompile(`(?m)^## ([a-z-]+)$`).FindAllSubmatch(text, -1) {
		headings = append(headings, string(found[1]))
	}
	for status, section := range sections {
		if !slices.Contains(headings, section) {
			t.Errorf("docs/errors.md has no heading %q, of status %d", section, status)
		}
		if Type(status) != page+section {
			t.Errorf("the type of %d is %s", status, Type(status))
		}
	}
	if len(headings) != len(sections) {
		t.Errorf("docs/errors.md has %d headings of types, want %d", len(headings), len(sections))
	}
}

func TestWrite(t *testing.T) {
	for _, c := range []struct {
		status int
		body   any
		want   string
	}{
		{410, Of(http.StatusGone, "it is over"), `{"type":"` + page + `gone","title":"Gone","status":410,"detail":"it is over"}`},
		{418, Of(http.StatusTeapot, "tea"), `{"type":"about:blank","title":"I'm a teapot","status":418,"detail":"tea"}`},
		{400, struct {
			Body
			Hint string `json:"hint"`
		}{Of(http.StatusBadRequest, "a"), "b"}, `{"type":"` + page + `malformed","title":"Bad Request","status":400,"detail":"a","hint":"b"}`},
	} {
		w := httptest.NewRecorder()
		Write(w, c.status, c.body)
		if w.Code != c.status || w.Body.String() != c.want+"\n" || w.Header().Get("Content-Type") != MediaType {
			t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
		}
	}
}

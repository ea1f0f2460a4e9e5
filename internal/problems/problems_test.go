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
	if !slices.Contains(headings, noPath) || len(headings) != len(sections)+1 {
		t.Errorf("docs/errors.md has %d headings of types, want %d and %s", len(headings), len(sections), noPath)
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

// Types are published: none of them changes, and no two statuses have the same.
func TestTypesDoNotChange(t *testing.T) {
	want := map[int]string{
		400: "malformed", 401: "no-credential", 403: "no-right", 404: "not-found", 405: "method", 409: "conflict", 410: "gone",
		412: "changed-meanwhile", 413: "too-large", 415: "media-type", 421: "other-host", 422: "invalid", 429: "too-many-requests",
		500: "internal-error", 501: "not-supported", 502: "no-admin-process", 503: "unavailable",
	}
	for status, section := range want {
		if got := Type(status); got != "https://github.com/headgate/headgate/blob/main/docs/errors.md#"+section {
			t.Errorf("the type of %d is %s, want that of %s", status, got, section)
		}
	}
	if len(sections) != len(want) || NoPath != "https://github.com/headgate/headgate/blob/main/docs/errors.md#no-path" {
		t.Errorf("there are %d types, want %d and %s", len(sections), len(want), NoPath)
	}
}

package costfile

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A path without a slash at its end is itself, and not all that begins like it.
func TestPathsThatBeginAlike(t *testing.T) {
	o, err := parse([]byte("shape: openai\npaths: [/v1/chat, /v2/]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]bool{"/v1/chat": true, "/v1/chatter": false, "/v1/chat/more": false, "/v2x": false, "/v2/x/y": true, "/v2/../v1/chatter": false} {
		if got := o.Applies(httptest.NewRequest(http.MethodPost, "http://h"+target, strings.NewReader("{}"))); got != want {
			t.Errorf("%s: %v", target, got)
		}
	}
}

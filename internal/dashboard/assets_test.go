package dashboard

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestSecurityHeaders(t *testing.T) {
	d := newDesk(t)
	cookie := d.login()
	for _, target := range []string{"/", "/nothing", "/api/me", "/api/quotas", "/login", pathOf(t, d, "main.js")} {
		h := d.ask("GET", target, "", cookie).Header()
		for name, want := range map[string]string{
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
			"Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Content-Security-Policy": contentSecurity,
		} {
			if h.Get(name) != want {
				t.Errorf("GET %s: %s is %q, want %q", target, name, h.Get(name), want)
			}
		}
	}
	for _, unsafe := range []string{"unsafe", "http", "*"} {
		if strings.Contains(contentSecurity, unsafe) {
			t.Errorf("the content security policy has %q", unsafe)
		}
	}
}

func pathOf(t *testing.T, d *desk, name string) string {
	t.Helper()
	for path := range d.handler.(*handler).files {
		if strings.HasSuffix(path, "/"+name) {
			return path
		}
	}
	t.Fatalf("there is no %s", name)
	return ""
}

func TestAssets(t *testing.T) {
	d := newDesk(t)
	for path, a := range d.handler.(*handler).files {
		plain := d.ask("GET", path, "")
		if plain.Code != 200 || plain.Header().Get("Content-Encoding") != "" || plain.Header().Get("Content-Type") != a.kind || plain.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("GET %s: %d %v", path, plain.Code, plain.Header())
		}
		if want := map[bool]string{true: askAgain, false: forever}[path == "/"]; plain.Header().Get("Cache-Control") != want {
			t.Errorf("GET %s: Cache-Control %q, want %q", path, plain.Header().Get("Cache-Control"), want)
		}
		packed := d.ask("GET", path, "", with("Accept-Encoding", "br, gzip;q=0.8"))
		unpacked, err := gzip.NewReader(packed.Body)
		if err != nil {
			t.Fatalf("GET %s: %v", path, err)
		}
		if text, err := io.ReadAll(unpacked); err != nil || string(text) != plain.Body.String() {
			t.Errorf("GET %s: compressed it is another text: %v", path, err)
		}
		tag := packed.Header().Get("ETag")
		if tag == plain.Header().Get("ETag") || !strings.HasPrefix(tag, `"`) {
			t.Errorf("GET %s: the ETags are %s and %s", path, tag, plain.Header().Get("ETag"))
		}
		again := d.ask("GET", path, "", with("Accept-Encoding", "gzip"), with("If-None-Match", `"x", `+tag))
		if again.Code != http.StatusNotModified || again.Body.Len() != 0 || again.Header().Get("ETag") != tag {
			t.Errorf("GET %s again: %d, %d bytes, %v", path, again.Code, again.Body.Len(), again.Header())
		}
		if head := d.ask("HEAD", path, ""); head.Code != 200 || head.Body.Len() != 0 || head.Header().Get("Content-Length") != fmt.Sprint(plain.Body.Len()) {
			t.Errorf("HEAD %s: %d, %d bytes, %v", path, head.Code, head.Body.Len(), head.Header())
		}
		if post := d.ask("POST", path, "{}"); post.Code != http.StatusMethodNotAllowed || post.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("POST %s: %d %v", path, post.Code, post.Header())
		}
	}
	for encoding, want := range map[string]string{"": "", "gzip;q=0": "", "identity": "", "GZIP": "gzip", "deflate, gzip": "gzip", "gzip;q=x": ""} {
		if got := d.ask("GET", "/", "", with("Accept-Encoding", encoding)).Header().Get("Content-Encoding"); got != want {
			t.Errorf("Accept-Encoding %q: %q, want %q", encoding, got, want)
		}
	}
}

// maxFirstLoad bounds what a browser loads before it has asked the API anything, in
// bytes as they are sent.
const maxFirstLoad = 60 << 10

// index.html names every other file, so that a browser asks for all at once; and nothing
// is loaded from anywhere else.
func TestFirstLoad(t *testing.T) {
	d := newDesk(t)
	files := d.handler.(*handler).files
	index := string(files["/"].plain)
	total := 0
	for path, a := range files {
		total += len(a.gzipped)
		if path != "/" && !strings.Contains(index, `"`+path+`"`) {
			t.Errorf("index.html does not name %s", path)
		}
		for _, outside := range []string{"http://", "https://", `"//`, "@import", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "eval(", "new Function"} {
			text := strings.ReplaceAll(string(a.plain), "http://www.w3.org/2000/svg", "")
			if strings.Contains(text, outside) {
				t.Errorf("%s has %s", path, outside)
			}
		}
		if strings.HasSuffix(path, ".css") && strings.Contains(string(a.plain), "url(") {
			t.Errorf("%s loads something", path)
		}
	}
	if strings.Contains(index, versionMark) || strings.Contains(index, "<script>") || strings.Contains(index, "style=") {
		t.Error("index.html has a script or style of its own, or no version")
	}
	t.Logf("a first load is %d files, %d bytes compressed", len(files), total)
	if total > maxFirstLoad {
		t.Errorf("a first load is %d bytes compressed, want at most %d", total, maxFirstLoad)
	}
}

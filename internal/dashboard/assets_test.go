package dashboard

import (
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
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

const (
	// maxFirstLoad bounds what a browser loads before somebody sees the Overview, in bytes as
	// they are sent, and maxPage what any other page loads beside that.
	maxFirstLoad, maxPage = 40 << 10, 12 << 10
)

// imported finds what a script loads: at once, and when it is asked to.
var imported = regexp.MustCompile(`(?:from |(import\())"\./(\w+\.js)"`)

// reach adds a script and all that it loads at once to loaded, and returns what it loads later.
func reach(t *testing.T, texts map[string]string, name string, loaded map[string]bool) (later []string) {
	t.Helper()
	if loaded[name] {
		return nil
	}
	loaded[name] = true
	text, there := texts[name]
	if !there {
		t.Errorf("%s is imported, and is not there", name)
	}
	for _, found := range imported.FindAllStringSubmatch(text, -1) {
		if found[1] != "" {
			later = append(later, found[2])
		} else {
			later = append(later, reach(t, texts, found[2], loaded)...)
		}
	}
	return later
}

// A first load is small; other pages are loaded when somebody goes there, and no file is never
// loaded. Nothing comes from anywhere else.
// Labels are the words that operators know, and no page says that every node does what only those do that share a
// database.
func TestWords(t *testing.T) {
	d := newDesk(t)
	for path, a := range d.handler.(*handler).files {
		text := string(a.plain)
		for _, word := range []string{
			"Refused since", "Switched off", "of the traffic\", about", "Time that decisions", "Take back", "taken back", "Forget what", "All back", "all back",
			"Another rule stood", "Stands for", "One of those that", "how it begins", "Only it denies", "Only the main ones", "very node obeys", "on every node", "refused, degraded", "Rejected",
		} {
			if strings.Contains(text, word) {
				t.Errorf("%s: %q", path, word)
			}
		}
	}
}

func TestFirstLoad(t *testing.T) {
	d := newDesk(t)
	files := d.handler.(*handler).files
	index := string(files["/"].plain)
	texts, sizes := map[string]string{}, map[string]int{}
	first := 0
	for path, a := range files {
		name := path[strings.LastIndexByte(path, '/')+1:]
		if texts[name], sizes[name] = string(a.plain), len(a.gzipped); !strings.HasSuffix(name, ".js") {
			first += len(a.gzipped)
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
	begun := map[string]bool{"theme.js": true}
	pages := reach(t, texts, "main.js", begun)
	for name := range begun {
		if !strings.Contains(index, `/`+name+`"`) {
			t.Errorf("index.html does not name %s, so that a browser asks for it late", name)
		}
	}
	reach(t, texts, "overview.js", begun)
	for name := range begun {
		first += sizes[name]
	}
	t.Logf("a first load is %d scripts, %d bytes compressed", len(begun), first)
	if first > maxFirstLoad {
		t.Errorf("a first load is %d bytes compressed, want at most %d", first, maxFirstLoad)
	}
	all := maps.Clone(begun)
	for i := 0; i < len(pages); i++ { // pages load parts by themselves, too
		page, loaded := pages[i], maps.Clone(begun)
		pages = append(pages, reach(t, texts, page, loaded)...)
		more := 0
		for name := range loaded {
			if all[name] = true; !begun[name] {
				more += sizes[name]
			}
		}
		t.Logf("%s: %d bytes more", page, more)
		if more > maxPage {
			t.Errorf("%s is %d bytes compressed beside the first load, want at most %d", page, more, maxPage)
		}
	}
	for name := range texts {
		if strings.HasSuffix(name, ".js") && !all[name] {
			t.Errorf("%s is never loaded", name)
		}
	}
}

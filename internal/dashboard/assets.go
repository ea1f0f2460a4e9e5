package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed assets
var embedded embed.FS

// kinds are the media types of files, by the end of their names.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

const (
	indexFile = "assets/index.html"
	// versionMark stands in index.html for the version of all other files.
	versionMark = "{version}"
	// Of files whose path has their version a browser need not ask again; of index.html,
	// which names the version, it asks each time.
	forever, askAgain = "public, max-age=31536000, immutable", "no-cache"
)

// asset is a file as it is sent.
type asset struct {
	kind, cache    string
	plain, gzipped []byte
	hash           string // of plain
}

// loadAssets returns all files by their paths: index.html at /, and the others below a
// folder that is named by a hash of them all. So no mixture of two versions is ever
// loaded.
func loadAssets() (map[string]*asset, error) {
	texts := map[string][]byte{}
	sum := sha256.New()
	err := fs.WalkDir(embedded, "assets", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := embedded.ReadFile(name)
		texts[name] = text
		fmt.Fprintf(sum, "%s %d\n", name, len(text))
		sum.Write(text)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the files of the dashboard: %w", err)
	}
	version := hex.EncodeToString(sum.Sum(nil)[:8])
	files := map[string]*asset{}
	for name, text := range texts {
		at, cache := "/assets/"+version+strings.TrimPrefix(name, "assets"), forever
		if name == indexFile {
			at, cache = "/", askAgain
			text = bytes.ReplaceAll(text, []byte(versionMark), []byte(version))
		}
		kind, known := kinds[path.Ext(name)]
		if !known {
			return nil, fmt.Errorf("read the files of the dashboard: %s is of no known kind", name)
		}
		if files[at], err = newAsset(kind, cache, text); err != nil {
			return nil, fmt.Errorf("compress %s: %w", name, err)
		}
	}
	return files, nil
}

func newAsset(kind, cache string, text []byte) (*asset, error) {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	return &asset{kind, cache, text, packed.Bytes(), hex.EncodeToString(sum[:])}, nil
}

// serve answers a GET or HEAD.
func (a *asset) serve(w http.ResponseWriter, r *http.Request) {
	body, tag := a.plain, `"`+a.hash+`"`
	header := w.Header()
	if takesGzip(r.Header) {
		body, tag = a.gzipped, `"`+a.hash+`-gzip"`
		header.Set("Content-Encoding", "gzip")
	}
	header.Set("Cache-Control", a.cache)
	header.Set("ETag", tag)
	header.Set("Vary", "Accept-Encoding")
	if strings.Contains(strings.Join(r.Header.Values("If-None-Match"), ","), tag) {
		header.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", a.kind)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // nobody is there to hear of an error
	}
}

// takesGzip reports whether Accept-Encoding names gzip, other than to refuse it.
func takesGzip(h http.Header) bool {
	for _, coding := range strings.Split(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		name, quality, _ := strings.Cut(strings.ReplaceAll(coding, " ", ""), ";")
		if strings.EqualFold(name, "gzip") {
			n, err := strconv.ParseFloat(strings.TrimPrefix(quality, "q="), 64)
			return quality == "" || err == nil && n > 0
		}
	}
	return false
}

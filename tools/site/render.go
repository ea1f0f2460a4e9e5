package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// indexFile is what tells a folder of ours from one of others.
const indexFile = "search-index.js"

//go:embed assets
var assets embed.FS

var layout = template.Must(template.ParseFS(assets, "assets/page.html"))

// usable lets people reach with the keyboard what may be wider than the page, and tick off what
// stands in a checklist. Text that looks like these tags is not met: it is escaped.
var usable = strings.NewReplacer(
	"<pre>", `<pre tabindex="0">`,
	"<table>", `<div class="wide" tabindex="0"><table>`,
	"</table>", "</table></div>",
	`<input disabled="" type="checkbox">`, `<input type="checkbox" aria-label="done">`,
)

// view is what the layout shows.
type view struct {
	Title      string
	Home       bool
	Root       string // the way to the root of the site: "../"
	Body       template.HTML
	Nav        []navGroup
	Parts      []part // the headings of this page, where it has several
	Next, Prev *entry
}

type navGroup struct {
	Title   string
	Entries []entry
}

type entry struct {
	Title, Address string
	Here           bool
}

type part struct{ Text, Address string }

// render returns all files of the site by their paths.
func (s *site) render() (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, name := range slices.Sorted(maps.Keys(s.pages)) {
		p := s.pages[name]
		var body bytes.Buffer
		if err := markdown.Renderer().Render(&body, p.source, p.root); err != nil {
			return nil, fmt.Errorf("render %s: %w", name, err)
		}
		v := s.view(p.title, p.out)
		v.Body = template.HTML(usable.Replace(body.String()))
		for _, h := range p.headings {
			if h.level == 2 {
				v.Parts = append(v.Parts, part{h.text, "#" + h.id})
			}
		}
		if err := s.lay(out, p.out, v); err != nil {
			return nil, err
		}
	}
	for name := range s.sources {
		source, err := fs.ReadFile(s.files, name)
		if err != nil {
			return nil, err
		}
		v := s.view(name, outOf(name))
		v.Body = template.HTML("<h1>" + template.HTMLEscapeString(name) + "</h1>\n<pre tabindex=\"0\"><code>" + template.HTMLEscapeString(string(source)) + "</code></pre>\n")
		if err := s.lay(out, outOf(name), v); err != nil {
			return nil, err
		}
	}
	for name := range s.images {
		image, err := fs.ReadFile(s.files, name)
		if err != nil {
			return nil, err
		}
		out[name] = image
	}
	for _, name := range []string{"site.css", "search.js"} {
		text, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return nil, err
		}
		out[name] = text
	}
	index, err := json.Marshal(s.index())
	if err != nil {
		return nil, err
	}
	out[indexFile] = slices.Concat([]byte("window.searchIndex = "), index, []byte(";\n"))
	return out, nil
}

// view returns what all pages have, for the one that is rendered at a path.
func (s *site) view(title, at string) view {
	v := view{Title: title, Home: at == "index.html", Root: strings.Repeat("../", strings.Count(at, "/"))}
	var previous *entry
	passed := false
	for _, g := range s.nav {
		shown := navGroup{Title: g.title}
		for _, l := range g.entries {
			e := entry{Title: l.words, Address: relative(at, l.page.out), Here: l.page.out == at}
			switch {
			case e.Here:
				v.Prev, passed = previous, true
			case passed:
				v.Next, passed = &e, false
			}
			previous = &e
			shown.Entries = append(shown.Entries, e)
		}
		v.Nav = append(v.Nav, shown)
	}
	return v
}

func (s *site) lay(out map[string][]byte, at string, v view) error {
	var page bytes.Buffer
	if err := layout.Execute(&page, v); err != nil {
		return fmt.Errorf("render %s: %w", at, err)
	}
	if out[at] != nil {
		return fmt.Errorf("render %s: two files are rendered there", at)
	}
	out[at] = page.Bytes()
	return nil
}

// indexed is a part of a page as the search knows it: what stands below one heading.
type indexed struct {
	Page    string `json:"p"` // the title
	Heading string `json:"h,omitempty"`
	Address string `json:"a"`
	Text    string `json:"t"`
}

// index returns all parts of all pages, those of the navigation first and in its order.
func (s *site) index() []indexed {
	var order []*page
	for _, g := range s.nav {
		for _, e := range g.entries {
			order = append(order, e.page)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.pages)) {
		if p := s.pages[name]; !slices.Contains(order, p) {
			order = append(order, p)
		}
	}
	var parts []indexed
	for _, p := range order {
		now := indexed{Page: p.title, Address: p.out}
		var words []string
		end := func() {
			if now.Text = strings.Join(strings.Fields(strings.Join(words, " ")), " "); now.Text != "" {
				parts = append(parts, now)
			}
			words = nil
		}
		headings := p.headings
		for n := p.root.FirstChild(); n != nil; n = n.NextSibling() {
			if _, ok := n.(*ast.Heading); !ok {
				words = append(words, textOf(n, p.source))
				continue
			}
			end()
			h := headings[0]
			headings = headings[1:]
			now = indexed{Page: p.title, Address: p.out + "#" + h.id}
			if h.text != p.title {
				now.Heading = h.text
			}
		}
		end()
	}
	return parts
}

// write puts the files into a folder in place of those of an earlier run.
func write(out string, files map[string][]byte) error {
	entries, err := os.ReadDir(out)
	if err == nil && len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(out, indexFile)); err != nil {
			return fmt.Errorf("%s has other files; hint: name a folder that is empty, or that an earlier run wrote", out)
		}
		if err := os.RemoveAll(out); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		to := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Join(out, filepath.FromSlash(path.Dir(name))), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, files[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}

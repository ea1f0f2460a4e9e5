package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

const (
	// contents is the page whose lists are the navigation.
	contents = "docs/README.md"
	// host is where links to code and to folders without pages lead.
	host = "https://github.com/headgate/headgate/"
	// maxSource is the size, in bytes, up to which a file that is linked to is a page of the
	// site; larger ones are read at the host. No file that people read is near it.
	maxSource = 256 << 10
)

// starts are the pages beside docs that readers ask for.
var starts = []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "bench/README.md"}

// markdown reads what code hosts show: CommonMark with tables, bare addresses and strikes.
var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM))

// site is a tree of pages that link to each other.
type site struct {
	files fs.FS
	// pages are by the path of their file; a folder that has pages but no README is one, too.
	pages map[string]*page
	// sources are the files that pages link to and that are no pages.
	sources map[string]bool
	// images are the files that pages show.
	images map[string]bool
	nav    []group
	faults []error
}

// page is a markdown file.
type page struct {
	path     string // "docs/rules.md"
	out      string // "docs/rules.html"
	title    string
	source   []byte
	root     ast.Node
	headings []heading
	links    []*link
}

type heading struct {
	level    int
	id, text string
}

// link leads from a page to another one, or to a file.
type link struct {
	node     *ast.Link
	to       string // the path of a page or a source
	fragment string
}

// group is a part of the navigation.
type group struct {
	title   string
	entries []listed
}

// listed is a page by the words of the link to it.
type listed struct {
	words string
	page  *page
}

// load reads the tree and resolves its links.
func load(files fs.FS) (*site, error) {
	s := &site{files: files, pages: map[string]*page{}, sources: map[string]bool{}, images: map[string]bool{}}
	for _, name := range starts {
		if s.isFile(name) {
			s.add(name)
		}
	}
	err := fs.WalkDir(files, "docs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path.Ext(name) == ".md" {
			s.add(name)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read docs: %w", err)
	}
	s.checkFragments()
	s.readNavigation()
	s.checkNavigation()
	if len(s.faults) > 0 {
		return nil, errors.Join(s.faults...)
	}
	return s, nil
}

func (s *site) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Errorf(format, args...))
}

func (s *site) isFile(name string) bool {
	info, err := fs.Stat(s.files, name)
	return err == nil && info.Mode().IsRegular()
}

// add reads a page, and the pages that it links to, unless it was read before.
func (s *site) add(name string) {
	if s.pages[name] != nil {
		return
	}
	source, err := fs.ReadFile(s.files, name)
	if err != nil {
		s.fault("%w", err)
		return
	}
	s.parse(name, outOf(name), source)
}

// addFolder makes a page of a folder that has pages but no README: a list of them.
func (s *site) addFolder(name string, entries []fs.DirEntry) {
	if s.pages[name] != nil {
		return
	}
	title := []rune(path.Base(name))
	title[0] = unicode.ToUpper(title[0])
	var list strings.Builder
	fmt.Fprintf(&list, "# %s\n\n", string(title))
	for _, e := range entries {
		if path.Ext(e.Name()) == ".md" {
			s.add(path.Join(name, e.Name()))
			fmt.Fprintf(&list, "- [%s](%s)\n", s.pages[path.Join(name, e.Name())].title, e.Name())
		}
	}
	s.parse(name, path.Join(name, "index.html"), []byte(list.String()))
}

func (s *site) parse(name, out string, source []byte) {
	p := &page{path: name, out: out, source: source, title: name}
	s.pages[name] = p
	p.root = markdown.Parser().Parse(text.NewReader(source))
	p.name()
	var links []*ast.Link
	_ = ast.Walk(p.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		var raw []byte
		switch n := n.(type) {
		case *ast.Link:
			links = append(links, n)
		case *ast.Image:
			s.show(p, n)
		case *ast.RawHTML:
			raw = n.Segments.Value(source)
		case *ast.HTMLBlock:
			raw = n.Lines().Value(source)
		}
		if len(raw) > 0 && !bytes.HasPrefix(raw, []byte("<!--")) {
			s.fault("%s: %s is HTML, which is not rendered; hint: in backquotes it is text", name, bytes.TrimSpace(raw))
		}
		return ast.WalkContinue, nil
	})
	for _, l := range links {
		s.resolve(p, l)
	}
}

// show resolves an image: a file of this tree, because a site that opens from a folder has no
// other.
func (s *site) show(p *page, node *ast.Image) {
	destination := string(node.Destination)
	name := path.Join(path.Dir(p.path), destination)
	if !s.isFile(name) {
		s.fault("%s: no image is at %s", p.path, destination)
		return
	}
	s.images[name] = true
	node.Destination = []byte(relative(p.out, name))
}

// name gives each heading the id by which code hosts know it.
func (p *page) name() {
	seen := map[string]int{}
	_ = ast.Walk(p.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		h, ok := n.(*ast.Heading)
		if !ok || !entering {
			return ast.WalkContinue, nil
		}
		words := textOf(h, p.source)
		id := slug(words)
		if again := seen[id]; again > 0 {
			seen[id]++
			id = fmt.Sprintf("%s-%d", id, again)
		}
		seen[id]++
		h.SetAttributeString("id", []byte(id))
		p.headings = append(p.headings, heading{h.Level, id, words})
		if h.Level == 1 && len(p.headings) == 1 {
			p.title = words
		}
		return ast.WalkSkipChildren, nil
	})
}

// slug returns the id that code hosts give to a heading with these words.
func slug(words string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r):
			return unicode.ToLower(r)
		}
		return -1
	}, words)
}

// textOf returns the words of a node without their markup.
func textOf(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Segment.Value(source))
				if n.SoftLineBreak() || n.HardLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.String:
			if entering {
				b.Write(n.Value)
			}
		case *ast.AutoLink:
			if entering {
				b.Write(n.Label(source))
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			if entering {
				b.Write(n.Lines().Value(source))
			}
		default:
			if n.Type() == ast.TypeBlock && !entering {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(b.String())
}

// resolve finds what a link of a page leads to. Links that leave the tree stay as they are.
func (s *site) resolve(p *page, node *ast.Link) {
	destination := string(node.Destination)
	if strings.Contains(destination, "://") || strings.HasPrefix(destination, "mailto:") {
		return
	}
	name, fragment, _ := strings.Cut(destination, "#")
	l := &link{node: node, to: p.path, fragment: fragment}
	if name != "" {
		l.to = path.Join(path.Dir(p.path), name)
		if p.out == path.Join(p.path, "index.html") { // a folder
			l.to = path.Join(p.path, name)
		}
	}
	info, err := fs.Stat(s.files, l.to)
	switch {
	case err != nil:
		s.fault("%s: nothing is at %s", p.path, destination)
		return
	case info.IsDir():
		entries, err := fs.ReadDir(s.files, l.to)
		if err != nil {
			s.fault("%s: %w", p.path, err)
			return
		}
		has := func(f func(name string) bool) bool {
			return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return f(e.Name()) })
		}
		switch {
		case has(func(name string) bool { return name == "README.md" }):
			l.to = path.Join(l.to, "README.md")
			s.add(l.to)
		case has(func(name string) bool { return path.Ext(name) == ".md" }):
			s.addFolder(l.to, entries)
		default:
			node.Destination = []byte(host + "tree/main/" + l.to)
			return
		}
	case path.Ext(l.to) == ".md":
		s.add(l.to)
	case path.Ext(l.to) == ".go" || info.Size() > maxSource:
		node.Destination = []byte(host + "blob/main/" + l.to)
		if fragment != "" {
			node.Destination = append(node.Destination, "#"+fragment...)
		}
		return
	default:
		s.sources[l.to] = true
	}
	p.links = append(p.links, l)
}

// checkFragments finds links to headings that are not there, and makes all links those of the
// rendered pages.
func (s *site) checkFragments() {
	for _, name := range slices.Sorted(maps.Keys(s.pages)) {
		p := s.pages[name]
		for _, l := range p.links {
			to := s.pages[l.to]
			if l.fragment != "" && (to == nil || !slices.ContainsFunc(to.headings, func(h heading) bool { return h.id == l.fragment })) {
				s.fault("%s: %s has no heading #%s", p.path, l.to, l.fragment)
			}
			l.node.Destination = []byte(relative(p.out, outOf(l.to)))
			if to != nil {
				l.node.Destination = []byte(relative(p.out, to.out))
			}
			if l.fragment != "" {
				l.node.Destination = append(l.node.Destination, "#"+l.fragment...)
			}
		}
	}
}

// readNavigation reads the lists of the contents: the first link of each item is a page.
func (s *site) readNavigation() {
	p := s.pages[contents]
	if p == nil {
		s.fault("%s is missing; hint: its lists are the navigation", contents)
		return
	}
	_ = ast.Walk(p.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Heading:
			if entering && n.Level == 2 {
				s.nav = append(s.nav, group{title: textOf(n, p.source)})
			}
		case *ast.ListItem:
			if first := s.firstPage(p, n); entering && first.page != nil && len(s.nav) > 0 {
				last := &s.nav[len(s.nav)-1]
				last.entries = append(last.entries, first)
			}
			return ast.WalkSkipChildren, nil
		}
		return ast.WalkContinue, nil
	})
}

// firstPage returns what the first link below a node of a page leads to.
func (s *site) firstPage(p *page, n ast.Node) (first listed) {
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		node, ok := n.(*ast.Link)
		if !ok || !entering {
			return ast.WalkContinue, nil
		}
		for _, l := range p.links {
			if l.node == node {
				first = listed{textOf(node, p.source), s.pages[l.to]}
			}
		}
		return ast.WalkStop, nil
	})
	return first
}

// checkNavigation finds pages of docs that the contents leave out, and other pages to which
// none of these links.
func (s *site) checkNavigation() {
	inNav, linked := map[string]bool{contents: true}, map[string]bool{}
	for _, g := range s.nav {
		for _, e := range g.entries {
			if inNav[e.page.path] {
				s.fault("%s lists %s twice", contents, e.page.path)
			}
			inNav[e.page.path] = true
		}
	}
	for name := range inNav {
		for _, l := range s.pages[name].links {
			linked[l.to] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.pages)) {
		switch inDocs := path.Dir(name) == "docs"; {
		case s.nav == nil || inNav[name]:
		case inDocs && path.Ext(name) == ".md":
			s.fault("%s does not list %s", contents, name)
		case !linked[name]:
			s.fault("%s is listed in %s by nothing, and linked to by no page that is", name, contents)
		}
	}
}

// outOf returns where the page of a file is rendered.
func outOf(name string) string {
	dir, base := path.Split(name)
	switch {
	case base == "README.md":
		return dir + "index.html"
	case path.Ext(base) == ".md":
		return strings.TrimSuffix(name, ".md") + ".html"
	}
	return name + ".html"
}

// relative returns the address of one rendered page as another one has to write it.
func relative(from, to string) string {
	if from == to {
		return ""
	}
	up := strings.Split(path.Dir(from), "/")
	down := strings.Split(to, "/")
	if up[0] == "." {
		up = nil
	}
	for len(up) > 0 && len(down) > 1 && up[0] == down[0] {
		up, down = up[1:], down[1:]
	}
	return strings.Repeat("../", len(up)) + strings.Join(down, "/")
}

// Command site renders the documentation of a tree as pages that need no server and no network:
//
//	go run ./site ROOT OUT
//
// The pages are the markdown files below ROOT/docs, those beside it that readers ask for, and
// whatever these link to; the navigation is what ROOT/docs/README.md lists. OUT is a folder that
// an earlier run wrote, or that has nothing in it. Its index.html can be opened as a file, and so
// can every other page. The search is a script and an index beside it, because a page that is
// opened as a file may not fetch anything.
//
// A link that leads nowhere and a page that the navigation does not lead to are errors, and
// nothing is written then.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: site ROOT OUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// run renders the tree at root into the folder out.
func run(root, out string) error {
	s, err := load(os.DirFS(root))
	if err != nil {
		return err
	}
	pages, err := s.render()
	if err != nil {
		return err
	}
	if err := write(out, pages); err != nil {
		return err
	}
	fmt.Printf("%s/index.html: %d pages\n", out, len(s.pages))
	return nil
}

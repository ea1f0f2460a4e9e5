// Command benchpage makes of the figures of one run what people read: the aims
// below each table, and the generated parts of bench/README.md, docs/capacity.md
// and README.md with its chart. See run.sh and page.sh.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/headgate/headgate/bench/internal/figures"
)

func main() {
	file := flag.String("figures", "", "`file` to which the commands here have added their figures; required")
	section := flag.String("aims", "", "print the aims of this `section`, and which are met")
	report := flag.String("report", "", "`file` with what run.sh has printed: write the pages")
	root := flag.String("root", "..", "`folder` of the repository whose pages to write")
	flag.Parse()
	if err := run(*file, *section, *report, *root); err != nil {
		fmt.Fprintln(os.Stderr, "benchpage:", err)
		os.Exit(1)
	}
}

func run(file, section, report, root string) error {
	in, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("read figures: %w; hint: -figures names the file that the other commands got", err)
	}
	defer in.Close()
	set, err := figures.Read(in)
	if err != nil {
		return err
	}
	switch {
	case section != "":
		return writeAims(os.Stdout, set, section)
	case report != "":
		text, err := os.ReadFile(report)
		if err != nil {
			return fmt.Errorf("read the report: %w", err)
		}
		return writePages(root, set, string(text))
	}
	return errors.New("nothing to do; hint: -aims or -report")
}

// writePages writes what is generated. Each file is replaced at once or not at
// all, and none is when one of them cannot be made.
func writePages(root string, set figures.Set, report string) error {
	front, benchmarks, capacity := filepath.Join(root, "README.md"), filepath.Join(root, "bench", "README.md"), filepath.Join(root, "docs", "capacity.md")
	made := make(map[string]string)
	for name, part := range map[string]func() (string, error){
		front:      func() (string, error) { return chartPart, nil },
		benchmarks: func() (string, error) { return figuresPart(set, report) },
		capacity:   func() (string, error) { return capacityPart(set, report) },
	} {
		old, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text, err := part()
		if err != nil {
			return fmt.Errorf("make the figures of %s: %w", name, err)
		}
		if made[name], err = replaced(string(old), text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	chart, err := chartOf(set)
	if err != nil {
		return err
	}
	made[filepath.Join(root, "bench", "cost.svg")] = chart
	for name, text := range made {
		if err := replace(name, text); err != nil {
			return err
		}
	}
	return nil
}

// replace writes a file beside the old one and puts it in its place.
func replace(name, text string) (err error) {
	file, err := os.CreateTemp(filepath.Dir(name), ".benchpage")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Chmod(0o644), file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return os.Rename(file.Name(), name)
}

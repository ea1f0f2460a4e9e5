package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v4"
)

// bug is a small wrong change.
type bug struct {
	area string
	// What is what goes wrong by it.
	What string `yaml:"what"`
	// File is the file that is changed, and Old the text that New replaces.
	File string `yaml:"file"`
	Old  string `yaml:"old"`
	New  string `yaml:"new"`
	// Test is the test that fails, and In its package; the default is that of File.
	Test string `yaml:"test"`
	In   string `yaml:"in"`
	// Survives says why no test fails; then there is no Test.
	Survives string `yaml:"survives"`
}

// load reads the bugs of all areas.
func load(from fs.FS) (bugs []bug, err error) {
	names, err := fs.Glob(from, "*.yaml")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := fs.ReadFile(from, name)
		if err != nil {
			return nil, err
		}
		var some []bug
		decoder := yaml.NewDecoder(bytes.NewReader(text))
		decoder.KnownFields(true)
		if err := decoder.Decode(&some); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for i := range some {
			some[i].area = strings.TrimSuffix(name, ".yaml")
			if err := some[i].check(); err != nil {
				return nil, fmt.Errorf("%s: bug %d (%s): %w", name, i+1, some[i].What, err)
			}
		}
		bugs = append(bugs, some...)
	}
	return bugs, nil
}

func (b *bug) check() error {
	switch {
	case b.What == "" || b.File == "" || b.Old == "":
		return errors.New("what, file or old is missing")
	case b.Old == b.New:
		return errors.New("old and new are the same")
	case (b.Test == "") == (b.Survives == ""):
		return errors.New("it has either the test that fails, or why it survives")
	}
	if b.In == "" {
		b.In = "./" + path.Dir(b.File)
	}
	return nil
}

// changed returns the text of the file with the bug in it.
func (b *bug) changed(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(b.File)))
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(text, []byte(b.Old)); n != 1 {
		return nil, fmt.Errorf("%s has the text %q %d times, want once", b.File, b.Old, n)
	}
	return bytes.Replace(text, []byte(b.Old), []byte(b.New), 1), nil
}

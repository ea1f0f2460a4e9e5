package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// What becomes of a bug.
const (
	killed   = "killed"
	survived = "survived"
	unfit    = "unfit" // it is no change of this tree, or does not compile
)

type outcome struct{ word, about string }

// longest and longestAll bound a test and all those of a package, for bugs by which they would not end.
const longest, longestAll = "120s", "900s"

// copies are the tests that hold a text against a copy of itself: they fail by any change, and find nothing.
const copies = "^TestExpandedScripts$"

// plant runs the test of a bug.
func plant(ctx context.Context, root string, b *bug, all bool) outcome {
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return outcome{unfit, err.Error()}
	}
	defer os.RemoveAll(dir)
	overlay, err := b.write(root, dir)
	if err != nil {
		return outcome{unfit, err.Error()}
	}
	args := []string{"test", "-tags", "disable_pgv,grpcnotrace", "-overlay", overlay, "-vet", "off", "-count", "1"}
	if all || b.Test == "" {
		args = append(args, "-timeout", longestAll, "-skip", copies)
	} else {
		args = append(args, "-timeout", longest, "-run", "^("+b.Test+")$")
	}
	module, in := moduleOf(root, b.In)
	cmd := exec.CommandContext(ctx, "go", append(args, in)...)
	cmd.Dir = module
	// What property tests draw is the same for each bug and in each run: what survives is no question of luck,
	// and a bug's failures are not drawn for the next.
	cmd.Env = append(os.Environ(), "RAPID_SEED=1", "RAPID_NOFAILFILE=true")
	out, err := cmd.CombinedOutput()
	return judge(string(out), err, all)
}

// moduleOf returns the folder of the module that a package of the tree is in, and what the package
// is called there.
func moduleOf(root, pkg string) (folder, in string) {
	pkg = path.Clean(pkg)
	module := pkg
	for ; module != "."; module = path.Dir(module) {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(module), "go.mod")); err == nil {
			break
		}
	}
	return filepath.Join(root, filepath.FromSlash(module)), "./" + strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/")
}

// write writes the changed file and what tells the compiler of it, whose path it returns.
func (b *bug) write(root, dir string) (string, error) {
	text, err := b.changed(root)
	if err != nil {
		return "", err
	}
	from, err := filepath.Abs(filepath.Join(root, filepath.FromSlash(b.File)))
	if err != nil {
		return "", err
	}
	to := filepath.Join(dir, filepath.Base(from))
	if err := os.WriteFile(to, text, 0o600); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {from: to}})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, overlay, 0o600)
}

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// judge says what a run of tests means.
func judge(out string, err error, all bool) outcome {
	exit := (*exec.ExitError)(nil)
	switch {
	case err == nil && strings.Contains(out, "no tests to run"):
		return outcome{unfit, "there is no such test"}
	case err == nil:
		return outcome{word: survived}
	case !errors.As(err, &exit):
		return outcome{unfit, err.Error()}
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
		return outcome{unfit, out}
	case !all:
		return outcome{word: killed}
	}
	var names []string
	for _, match := range failed.FindAllStringSubmatch(out, -1) {
		if !slices.Contains(names, match[1]) {
			names = append(names, match[1])
		}
	}
	return outcome{killed, strings.Join(names, ", ")}
}

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// target is a system that Headgate is built for.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "/" + t.arch }

// binary is the name of the program of t while a release is made.
func (t target) binary() string { return t.os + "_" + t.arch + "/" + t.program() }

// program is the name of the program on its system.
func (t target) program() string {
	if t.os == "windows" {
		return "headgate.exe"
	}
	return "headgate"
}

// allTargets are those of a release.
var allTargets = []target{
	{"linux", "amd64"}, {"linux", "arm64"},
	{"darwin", "amd64"}, {"darwin", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"},
}

// partsOf returns the targets and the clients that a list names; all for "".
func partsOf(list string) (targets []target, clients []client, err error) {
	if list == "" {
		return allTargets, allClients, nil
	}
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(allTargets, func(t target) bool { return t.String() == name })
		j := slices.IndexFunc(allClients, func(c client) bool { return c.name == name })
		switch {
		case i >= 0:
			targets = append(targets, allTargets[i])
		case j >= 0:
			clients = append(clients, allClients[j])
		default:
			return nil, nil, fmt.Errorf("-only: %.40q is neither target nor client; hint: of %v, typescript and python one or more, with commas between", name, allTargets)
		}
	}
	return targets, clients, nil
}

// tagVariable is the variable of the program that holds its version.
const tagVariable = "github.com/headgate/headgate/internal/cli.tag"

// compile builds the program for each target, below dir.
func (r release) compile(dir string) error {
	for _, t := range r.targets {
		out := filepath.Join(dir, t.binary())
		if err := r.compileOne(t, out); err != nil {
			return err
		}
		if err := os.Chtimes(out, r.time, r.time); err != nil {
			return err
		}
	}
	return nil
}

// compileOne builds a program in which nothing depends on the machine or the directory: no
// C, no paths, no state of the repository, no build id.
func (r release) compileOne(t target, out string) error {
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", "disable_pgv,grpcnotrace",
		"-ldflags", "-s -w -buildid= -X "+tagVariable+"="+r.version, "-o", out, "./cmd/headgate")
	build.Dir = r.root
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS="+t.os, "GOARCH="+t.arch, "GOAMD64=v1", "GOARM64=v8.0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build for %s: %w", t, err)
	}
	return nil
}

// documents are the files beside the program in every archive. Pages and completion are
// made by a program of this machine, which is built for that where it is no target.
func (r release) documents(work string) ([]file, error) {
	here := target{runtime.GOOS, runtime.GOARCH}
	program := filepath.Join(work, here.binary())
	if !slices.Contains(r.targets, here) {
		if err := r.compileOne(here, program); err != nil {
			return nil, err
		}
	}
	pages := filepath.Join(work, "man")
	if out, err := exec.Command(program, "man", pages).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("pages: %w: %s", err, out)
	}
	files, err := filesOf(pages, "man")
	if err != nil {
		return nil, err
	}
	for _, shell := range []string{"bash", "fish", "zsh"} {
		script, err := exec.Command(program, "completion", shell).Output()
		if err != nil {
			return nil, fmt.Errorf("completion for %s: %w", shell, err)
		}
		files = append(files, file{name: "completion/headgate." + shell, data: script})
	}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md"} {
		data, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: name, data: data})
	}
	return files, nil
}

// filesOf returns the files of a directory by name, each under a folder.
func filesOf(dir, folder string) ([]file, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []file
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: folder + "/" + entry.Name(), data: data})
	}
	return files, nil
}

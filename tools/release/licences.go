package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
	"golang.org/x/mod/module"
)

// linkedModule is a module that is part of a program; the standard library is "std".
type linkedModule struct{ path, version, sum string }

// licensedModule is a module with the licences that were found in it.
type licensedModule struct {
	linkedModule
	ids   []string // of SPDX, sorted
	texts []file   // whole
}

// accepted are the licences under which a binary may be given on.
var accepted = []string{"Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MPL-2.0"}

// patents is what the scanner calls a grant of patents: no licence by itself, and without an
// identifier of SPDX.
const patents = "GooglePatentsFile"

// linked returns the modules of a program, as the Go tool has written them into it, sorted
// by path, the standard library first.
func linked(binary string) ([]linkedModule, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	modules := []linkedModule{{path: "std", version: strings.TrimPrefix(info.GoVersion, "go")}}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		modules = append(modules, linkedModule{dep.Path, dep.Version, dep.Sum})
	}
	return modules, nil
}

// licences finds those of each module, and refuses a module without one and a licence that
// nobody has accepted.
func licences(modules []linkedModule) ([]licensedModule, error) {
	goroot, cache, err := goDirs()
	if err != nil {
		return nil, err
	}
	var all []licensedModule
	for _, m := range modules {
		dir := goroot
		if m.path != "std" {
			name, err := module.EscapePath(m.path)
			if err != nil {
				return nil, err
			}
			dir = filepath.Join(cache, name+"@"+m.version)
		}
		licensed, err := licencesIn(dir, m)
		if err != nil {
			return nil, fmt.Errorf("licence of %s: %w", m.path, err)
		}
		all = append(all, licensed)
	}
	return all, nil
}

func goDirs() (goroot, cache string, err error) {
	out, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE").Output()
	if err != nil {
		return "", "", err
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 2 {
		return "", "", fmt.Errorf("go env: %q", out)
	}
	return lines[0], lines[1], nil
}

var licenceFile = regexp.MustCompile(`(?i)^[a-z0-9_-]*(licen[cs]e|copying|notice|patents|copyright)[a-z0-9_.-]*$`)

func licencesIn(dir string, m linkedModule) (licensedModule, error) {
	licensed := licensedModule{linkedModule: m}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return licensed, err
	}
	for _, entry := range entries {
		if entry.IsDir() || !licenceFile.MatchString(entry.Name()) || strings.HasSuffix(entry.Name(), ".go") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return licensed, err
		}
		licensed.texts = append(licensed.texts, file{name: entry.Name(), data: data})
		for _, match := range licensecheck.Scan(data).Match {
			if !match.IsURL && match.ID != patents && !slices.Contains(licensed.ids, match.ID) {
				licensed.ids = append(licensed.ids, match.ID)
			}
		}
	}
	slices.Sort(licensed.ids)
	if len(licensed.ids) == 0 {
		return licensed, fmt.Errorf("none is known in %s; hint: read what is there", filepath.Base(dir))
	}
	for _, id := range licensed.ids {
		if !slices.Contains(accepted, id) {
			return licensed, fmt.Errorf("%s is not among those that are accepted; hint: %s", id, strings.Join(accepted, ", "))
		}
	}
	return licensed, nil
}

// notice is one text of all licences, as they ask to be given on.
func notice(modules []licensedModule) []byte {
	var b bytes.Buffer
	b.WriteString("Headgate is under the Apache License 2.0. It contains the following modules.\n")
	for _, m := range modules {
		fmt.Fprintf(&b, "\n%s\n%s %s: %s\n", strings.Repeat("=", 78), m.path, m.version, strings.Join(m.ids, ", "))
		for _, text := range m.texts {
			fmt.Fprintf(&b, "\n--- %s ---\n\n%s\n", text.name, bytes.TrimSpace(text.data))
		}
	}
	return b.Bytes()
}

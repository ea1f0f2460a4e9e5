package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// client is a package of a client in another language.
type client struct {
	name    string   // of the language and of the folder below clients
	sources []string // files and folders of that folder that the package is built of
	version string   // file that has the version
	tool    string   // what must be among the tools
	purl    string   // without version
	// number returns the version as the language writes it.
	number func(release) string
	// pack packs what lies in a folder, by tools, into another folder.
	pack func(r release, folder, tools, out string) error
}

// allClients are those of a release. Java has an example to copy, and no package.
var allClients = []client{
	{name: "typescript", sources: []string{"package.json", "tsconfig.json", "tsconfig.cjs.json", "src", "README.md"},
		version: "package.json", tool: "node_modules/typescript", purl: "pkg:npm/%40headgate/client",
		number: release.semantic, pack: release.npm},
	{name: "python", sources: []string{"pyproject.toml", "src", "README.md"},
		version: "pyproject.toml", tool: "flit_core", purl: "pkg:pypi/headgate",
		number: release.pep440, pack: release.flit},
}

// packClient builds the package of a client in a folder of its own below work, so that the
// tree stays as it is, and writes an SBOM beside it.
func (r release) packClient(c client, work string) error {
	tools, err := filepath.Abs(filepath.Join(r.tools, c.name))
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(tools, c.tool)); err != nil {
		return fmt.Errorf("%w; hint: make deps", err)
	}
	out, err := filepath.Abs(r.out)
	if err != nil {
		return err
	}
	files, err := r.clientFiles(c)
	if err != nil {
		return err
	}
	folder := filepath.Join(work, c.name)
	for _, f := range files {
		path := filepath.Join(folder, f.name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.data, 0o644); err != nil {
			return err
		}
	}
	if err := c.pack(r, folder, tools, out); err != nil {
		return err
	}
	bom, err := r.clientBOM(c)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("headgate_%s_%s.cdx.json", r.number(), c.name)
	return os.WriteFile(filepath.Join(out, name), bom, 0o644)
}

// clientFiles are what a package is built of, with the version of the release and links that
// lead to this version of the repository.
func (r release) clientFiles(c client) ([]file, error) {
	var files []file
	folder := filepath.Join(r.root, "clients", c.name)
	for _, name := range c.sources {
		path := filepath.Join(folder, name)
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if info.IsDir() {
			below, err := filesBelow(path, name)
			if err != nil {
				return nil, err
			}
			files = append(files, below...)
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		switch name {
		case c.version:
			old := []byte(strconv.Quote(treeVersion))
			if n := bytes.Count(data, old); n != 1 {
				return nil, fmt.Errorf("%s has %s %d times, want the version alone", path, old, n)
			}
			data = bytes.Replace(data, old, []byte(strconv.Quote(c.number(r))), 1)
		case "README.md":
			data = r.linkedAbroad(data)
		}
		files = append(files, file{name: name, data: data})
	}
	licence, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	return append(files, file{name: "LICENSE", data: licence}), err
}

var outOfFolder = regexp.MustCompile(`\]\(\.\./\.\./`)

// linkedAbroad makes the links of a page that lead out of its folder lead to the repository,
// because the page is read elsewhere.
func (r release) linkedAbroad(page []byte) []byte {
	return outOfFolder.ReplaceAllLiteral(page, []byte("](https://"+ownModule+"/blob/"+r.version+"/"))
}

// npm compiles and packs a package of npm. npm gives each file the same time.
func (r release) npm(folder, tools, out string) error {
	if err := os.Symlink(filepath.Join(tools, "node_modules"), filepath.Join(folder, "node_modules")); err != nil {
		return err
	}
	return r.runIn(folder, nil, "npm", "pack", "--loglevel=error", "--no-update-notifier", "--ignore-scripts=false", "--pack-destination", out)
}

// flitBuild builds a wheel and a source distribution into the folder that is its argument.
const flitBuild = "import sys; from flit_core import buildapi; buildapi.build_wheel(sys.argv[1]); buildapi.build_sdist(sys.argv[1])"

// flit packs a package of Python.
func (r release) flit(folder, tools, out string) error {
	env := []string{"PYTHONPATH=" + tools, "PYTHONDONTWRITEBYTECODE=1", "SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.time.Unix(), 10)}
	return r.runIn(folder, env, "python3", "-c", flitBuild, out)
}

// runIn runs a command in a folder, with more in its environment.
func (r release) runIn(folder string, env []string, command string, args ...string) error {
	run := exec.Command(command, args...)
	run.Dir, run.Env = folder, append(os.Environ(), env...)
	if said, err := run.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", command, err, said)
	}
	return nil
}

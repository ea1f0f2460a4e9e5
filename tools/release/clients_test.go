package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestVersions holds how tags are written for npm and Helm, and for Python, and that what is
// no tag is before all releases.
func TestVersions(t *testing.T) {
	for _, c := range []struct{ version, semantic, python string }{
		{"v1.4.0", "1.4.0", "1.4.0"},
		{"v0.10.2", "0.10.2", "0.10.2"},
		{"v1.4.0-rc.1", "1.4.0-rc.1", "1.4.0rc1"},
		{"v1.4.0-rc2", "1.4.0-rc2", "1.4.0rc2"},
		{"v1.4.0-alpha.12", "1.4.0-alpha.12", "1.4.0a12"},
		{"v1.4.0-beta.3", "1.4.0-beta.3", "1.4.0b3"},
		{"v1.4.0-rc", "1.4.0-rc", "0.0.0.dev0+1.4.0.rc"},
		{"v1.4.0-rc.1-5-g0a1b2c3", "1.4.0-rc.1-5-g0a1b2c3", "0.0.0.dev0+1.4.0.rc.1.5.g0a1b2c3"},
		{"v1.4", "0.0.0-g1.4", "0.0.0.dev0+1.4"},
		{"d1f6603-dirty", "0.0.0-gd1f6603-dirty", "0.0.0.dev0+d1f6603.dirty"},
		{"0123456", "0.0.0-g0123456", "0.0.0.dev0+0123456"},
		{"Fix-", "0.0.0-gFix-", "0.0.0.dev0+fix"},
	} {
		r := release{version: c.version}
		if got := r.semantic(); got != c.semantic {
			t.Errorf("%s is %s for npm, want %s", c.version, got, c.semantic)
		}
		if got := r.pep440(); got != c.python {
			t.Errorf("%s is %s for Python, want %s", c.version, got, c.python)
		}
	}
}

// packedClients packs the clients of the real tree into a folder.
func packedClients(t *testing.T, out string) map[string][]byte {
	t.Helper()
	r := release{root: "../..", out: out, version: "v1.4.0-rc.1", time: time.Unix(1_700_000_000, 0).UTC(), clients: allClients, tools: "../../.tools/clients"}
	for _, c := range allClients {
		_, err := os.Stat(filepath.Join(r.tools, c.name, c.tool))
		if errors.Is(err, fs.ErrNotExist) && os.Getenv("HEADGATE_TEST_SERVERS") != "required" {
			t.Skipf("%v; hint: make deps", err)
		}
	}
	if err := r.build(); err != nil {
		t.Fatal(err)
	}
	return contents(t, out)
}

const (
	npmPackage  = "headgate-client-1.4.0-rc.1.tgz"
	wheel       = "headgate-1.4.0rc1-py3-none-any.whl"
	sourceDist  = "headgate-1.4.0rc1.tar.gz"
	npmBOM      = "headgate_1.4.0-rc.1_typescript.cdx.json"
	pythonBOM   = "headgate_1.4.0-rc.1_python.cdx.json"
	wheelFolder = "headgate-1.4.0rc1.dist-info/"
)

// TestClients packs the clients twice, in folders whose names differ in length, compares every
// byte, and reads the packages: they have the version of the tag, the licence, types, pages
// whose links work elsewhere, and nothing that does not belong there.
func TestClients(t *testing.T) {
	dir := t.TempDir()
	first := packedClients(t, filepath.Join(dir, "a"))
	second := packedClients(t, filepath.Join(dir, "of", "another", "length"))
	want := []string{"SHA256SUMS", wheel, sourceDist, npmPackage, pythonBOM, npmBOM}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(first)); !slices.Equal(got, want) {
		t.Fatalf("there are %q, want %q", got, want)
	}
	for name, data := range first {
		if !bytes.Equal(data, second[name]) {
			t.Errorf("%s differs between two builds", name)
		}
		if name != "SHA256SUMS" && !bytes.Contains(first["SHA256SUMS"], []byte("  "+name+"\n")) {
			t.Errorf("SHA256SUMS has no %s", name)
		}
	}
	checkNPM(t, untarred(t, first[npmPackage]))
	checkWheel(t, unzipped(t, first[wheel]))
	checkSource(t, untarred(t, first[sourceDist]))
	checkClientBOM(t, first[npmBOM], "pkg:npm/%40headgate/client@1.4.0-rc.1")
	checkClientBOM(t, first[pythonBOM], "pkg:pypi/headgate@1.4.0rc1")
}

func untarred(t *testing.T, data []byte) map[string]string {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Gid != 0 || header.Uname != "" && header.Uname != "root" {
			t.Errorf("%s is of user %d %q", header.Name, header.Uid, header.Uname)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(text)
	}
}

func unzipped(t *testing.T, data []byte) map[string]string {
	t.Helper()
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range archive.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = string(text)
	}
	return files
}

// checkFiles holds that a package has files, none whose name does not match, none with a
// path of this machine, and a page and a licence.
func checkFiles(t *testing.T, files map[string]string, allowed, page, licence string, needed ...string) {
	t.Helper()
	names := regexp.MustCompile("^(?:" + allowed + ")$")
	here, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if !names.MatchString(name) {
			t.Errorf("%s is packed", name)
		}
		for _, path := range []string{here, os.TempDir() + "/", "node_modules/", "sourceMappingURL"} {
			if strings.Contains(text, path) {
				t.Errorf("%s names %s", name, path)
			}
		}
	}
	for _, name := range append(needed, page, licence) {
		if _, ok := files[name]; !ok {
			t.Errorf("no %s among %q", name, slices.Sorted(maps.Keys(files)))
		}
	}
	if text := files[page]; strings.Contains(text, "](../") || !strings.Contains(text, "](https://github.com/headgate/headgate/blob/v1.4.0-rc.1/docs/check-api.md)") {
		t.Errorf("links of %s:\n%s", page, text)
	}
	want, err := os.ReadFile("../../LICENSE")
	if err != nil || files[licence] != string(want) {
		t.Errorf("%s is not the licence of the tree: %v", licence, err)
	}
}

func checkNPM(t *testing.T, files map[string]string) {
	t.Helper()
	checkFiles(t, files, `package/(?:package\.json|README\.md|LICENSE|dist/cjs/package\.json|dist/(?:cjs|esm)/[a-z]+(?:\.js|\.d\.ts))`, "package/README.md", "package/LICENSE",
		"package/dist/esm/index.js", "package/dist/esm/index.d.ts", "package/dist/cjs/index.js", "package/dist/cjs/index.d.ts",
		"package/dist/esm/express.d.ts", "package/dist/cjs/fastify.js")
	var said struct {
		Name, Version, License string
		Dependencies           map[string]string
	}
	if err := json.Unmarshal([]byte(files["package/package.json"]), &said); err != nil {
		t.Fatal(err)
	}
	if said.Name != "@headgate/client" || said.Version != "1.4.0-rc.1" || said.License != "Apache-2.0" || len(said.Dependencies) != 0 {
		t.Errorf("the package of npm says %+v", said)
	}
}

func checkWheel(t *testing.T, files map[string]string) {
	t.Helper()
	checkFiles(t, files, `headgate/(?:[a-z_]+\.py|py\.typed)|`+regexp.QuoteMeta(wheelFolder)+`(?:METADATA|WHEEL|RECORD|licenses/LICENSE)`,
		wheelFolder+"METADATA", wheelFolder+"licenses/LICENSE", "headgate/__init__.py", "headgate/py.typed", "headgate/fastapi.py", "headgate/django.py")
	checkMetadata(t, files[wheelFolder+"METADATA"])
}

func checkSource(t *testing.T, files map[string]string) {
	t.Helper()
	checkFiles(t, files, `headgate-1\.4\.0rc1/(?:PKG-INFO|LICENSE|README\.md|pyproject\.toml|src/headgate/(?:[a-z_]+\.py|py\.typed))`,
		"headgate-1.4.0rc1/README.md", "headgate-1.4.0rc1/LICENSE", "headgate-1.4.0rc1/pyproject.toml", "headgate-1.4.0rc1/src/headgate/py.typed")
	checkMetadata(t, files["headgate-1.4.0rc1/PKG-INFO"])
}

func checkMetadata(t *testing.T, metadata string) {
	t.Helper()
	header, _, _ := strings.Cut(metadata, "\n\n")
	for _, line := range []string{"Name: headgate", "Version: 1.4.0rc1", "License-Expression: Apache-2.0", "Requires-Python: >=3.11", "Classifier: Typing :: Typed"} {
		if !strings.Contains(header+"\n", "\n"+line+"\n") {
			t.Errorf("no %q in\n%s", line, header)
		}
	}
	if strings.Contains(header, "Requires-Dist") {
		t.Errorf("the package asks for others:\n%s", header)
	}
}

func checkClientBOM(t *testing.T, data []byte, purl string) {
	t.Helper()
	var got bomDocument
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if c := got.Metadata.Component; c.PURL != purl || c.Type != "library" || len(c.Licences) != 1 || c.Licences[0].Licence.ID != "Apache-2.0" {
		t.Errorf("the SBOM is of %+v, want %s", c, purl)
	}
	if got.Components == nil || len(got.Components) != 0 || len(got.Dependencies) != 1 || got.Dependencies[0].Ref != purl || len(got.Dependencies[0].DependsOn) != 0 {
		t.Errorf("the SBOM of %s has %+v and %+v", purl, got.Components, got.Dependencies)
	}
}

// TestClientsWithoutTools holds that a release which cannot have all says what is missing.
func TestClientsWithoutTools(t *testing.T) {
	err := run([]string{"-version", "v1.2.3", "-only", "python", "-tools", t.TempDir(), "-out", t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "client in python") || !strings.HasSuffix(err.Error(), "hint: make deps") {
		t.Errorf("%v, want a hint", err)
	}
}

// TestToolsThatFail: a release without what a tool could not pack is none, and the error has what the tool says.
func TestToolsThatFail(t *testing.T) {
	r := release{}
	if err := r.runIn(t.TempDir(), nil, "sh", "-c", "echo no room >&2; exit 3"); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("a tool that fails: %v", err)
	}
	if err := r.runIn(t.TempDir(), []string{"SAID=yes"}, "sh", "-c", `test "$SAID" = yes`); err != nil {
		t.Errorf("a tool that does not: %v", err)
	}
}

// TestClientOfTwoVersions holds that nothing else is taken for the version.
func TestClientOfTwoVersions(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, "clients", "x")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "package.json"), []byte(`{"version": "0.0.0", "dependencies": {"a": "0.0.0"}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	r := release{root: root, version: "v1.2.3"}
	_, err := r.clientFiles(client{name: "x", sources: []string{"package.json"}, version: "package.json", number: release.semantic})
	if err == nil || !strings.Contains(err.Error(), "2 times") {
		t.Errorf("%v, want that it is there twice", err)
	}
}

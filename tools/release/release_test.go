package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// standIn is a program with the commands that a release asks for: to build the real one
// takes minutes.
var standIn = map[string]string{
	"go.mod":       "module github.com/headgate/headgate\n\ngo 1.26.0\n",
	"LICENSE":      "of the tree",
	"README.md":    "read me",
	"CHANGELOG.md": "changes",
	"SECURITY.md":  "whom to tell",

	"deploy/helm/headgate/Chart.yaml":             "name: headgate\nversion: 0.0.0\nappVersion: 0.0.0\n",
	"deploy/helm/headgate/templates/service.yaml": "kind: Service\n",

	"deploy/systemd/headgate.service": "[Service]\n",
	"deploy/headgate.sample.yaml":     "# settings\n",
	"deploy/package/installed.sh":     "#!/bin/sh\ntrue\n",
	"deploy/package/removing.sh":      "#!/bin/sh\ntrue\n",
	"internal/cli/cli.go":             "package cli\n\nvar tag string\n\nfunc Tag() string { return tag }\n",
	"cmd/headgate/main.go": `package main

import (
	"fmt"
	"os"

	"github.com/headgate/headgate/internal/cli"
)

func main() {
	switch arg := os.Args[1]; arg {
	case "man":
		if err := os.MkdirAll(os.Args[2], 0o755); err != nil {
			panic(err)
		}
		if err := os.WriteFile(os.Args[2]+"/headgate.1", []byte(".TH"), 0o644); err != nil {
			panic(err)
		}
	case "version":
		fmt.Println(os.Args[0], cli.Tag())
	default:
		fmt.Println(os.Args[1:])
	}
}
`}

func hostLinux() target { return target{"linux", runtime.GOARCH} }

// built makes a release of a stand-in that lies in dir.
func built(t *testing.T, dir string) release {
	t.Helper()
	for name, text := range standIn {
		path := filepath.Join(dir, "tree", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := release{root: filepath.Join(dir, "tree"), out: filepath.Join(dir, "out"), version: "v1.2.3",
		time: time.Unix(1_700_000_000, 0).UTC(), targets: []target{hostLinux(), {"windows", "amd64"}}}
	if err := r.build(); err != nil {
		t.Fatal(err)
	}
	return r
}

func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, entry := range entries {
		if all[entry.Name()], err = os.ReadFile(filepath.Join(dir, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestTwoBuildsAreAlike builds the same tree twice, in directories with different names, and
// compares every byte. The sums are those of the files.
func TestTwoBuildsAreAlike(t *testing.T) {
	dir := t.TempDir()
	first := contents(t, built(t, filepath.Join(dir, "a")).out)
	second := contents(t, built(t, filepath.Join(dir, "of", "another", "length")).out)
	prefix := "headgate_1.2.3_linux_" + runtime.GOARCH
	for _, name := range []string{prefix + ".tar.gz", prefix + ".cdx.json", "headgate_1.2.3_windows_amd64.zip", "headgate_1.2.3_image.tar", "headgate-1.2.3.tgz", prefix + ".deb", prefix + ".rpm", "SHA256SUMS"} {
		if len(first[name]) == 0 {
			t.Errorf("there is no %s", name)
		}
	}
	for name, data := range first {
		if !bytes.Equal(data, second[name]) {
			t.Errorf("%s differs between two builds", name)
		}
	}
	check := exec.Command("sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS")
	check.Dir = filepath.Join(dir, "a", "out")
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("sha256sum: %v: %s", err, out)
	}
	if lines := bytes.Count(first["SHA256SUMS"], []byte("\n")); lines != len(first)-1 {
		t.Errorf("%d sums of %d files", lines, len(first)-1)
	}
}

// TestArchives holds what is in them, and that the program says the tag.
//
//promise:one-binary
func TestArchives(t *testing.T) {
	dir := t.TempDir()
	r := built(t, dir)
	folder := "headgate_1.2.3_linux_" + runtime.GOARCH
	packed, err := os.Open(filepath.Join(r.out, folder+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	plain, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	names := unpack(t, plain, filepath.Join(dir, "unpacked"))
	want := []string{"headgate", "man/headgate.1", "completion/headgate.bash", "completion/headgate.fish", "completion/headgate.zsh", "LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "THIRD_PARTY_LICENCES"}
	for i, name := range want {
		want[i] = folder + "/" + name
	}
	if !slices.Equal(names, want) {
		t.Errorf("the archive has %q, want %q", names, want)
	}
	out, err := exec.Command(filepath.Join(dir, "unpacked", folder, "headgate"), "version").Output()
	if err != nil || !strings.HasSuffix(string(out), " v1.2.3\n") {
		t.Errorf("version: %q, %v", out, err)
	}
	zipped, err := zip.OpenReader(filepath.Join(r.out, "headgate_1.2.3_windows_amd64.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer zipped.Close()
	if name := zipped.File[0].Name; name != "headgate_1.2.3_windows_amd64/headgate.exe" {
		t.Errorf("the archive for Windows begins with %s", name)
	}
}

// unpack writes the files of an archive below dir and returns their names.
func unpack(t *testing.T, r io.Reader, dir string) (names []string) {
	t.Helper()
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
		path := filepath.Join(dir, header.Name)
		switch header.Typeflag {
		case tar.TypeDir:
			if err = os.MkdirAll(path, os.FileMode(header.Mode)); err == nil && os.Getuid() == 0 {
				err = os.Chown(path, header.Uid, header.Gid)
			}
		case tar.TypeLink:
			err = os.Link(filepath.Join(dir, header.Linkname), path)
		default:
			if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
				var data []byte
				if data, err = io.ReadAll(archive); err == nil {
					err = os.WriteFile(path, data, os.FileMode(header.Mode))
				}
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestImage reads the layout back, lays out its file system and runs both programs of it;
// where it may, in that file system alone and as the user of the image.
//
//promise:one-binary
func TestImage(t *testing.T) {
	dir := t.TempDir()
	r := built(t, dir)
	root := unpackImage(t, dir, filepath.Join(r.out, "headgate_1.2.3_image.tar"), "1.2.3")
	pem, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"))
	if err != nil || bytes.Count(pem, []byte("BEGIN CERTIFICATE")) < 100 {
		t.Errorf("certificates of authorities: %d bytes, %v", len(pem), err)
	}
	for _, name := range []string{"/bin/headgate", "/bin/ratelimit"} {
		run := exec.Command(filepath.Join(root, name), "version")
		if os.Getuid() == 0 {
			open(t, dir, root)
			run = inRoot(root, name, "version")
		}
		if out, err := run.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), name+" v1.2.3\n") {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
}

// inRoot is a program of an image, run as the image says and with nothing but its files.
func inRoot(root string, command ...string) *exec.Cmd {
	run := exec.Command(command[0], command[1:]...)
	run.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: imageUser, Gid: imageUser}}
	run.Dir, run.Env = "/", []string{"PATH=/bin"}
	return run
}

// unpackImage lays out, below dir, the file system of the image for this machine.
func unpackImage(t *testing.T, dir, name, version string) (root string) {
	t.Helper()
	packed, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	unpack(t, packed, filepath.Join(dir, "layout"))
	all, err := layout.ImageIndexFromPath(filepath.Join(dir, "layout"))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(all); err != nil {
		t.Fatal(err)
	}
	layers, err := platform(t, all, version).Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	root = filepath.Join(dir, "root")
	unpack(t, content, root)
	return root
}

// platform returns the image of an index for this machine, and checks how it is to be run.
func platform(t *testing.T, all v1.ImageIndex, version string) v1.Image {
	t.Helper()
	top, err := all.IndexManifest()
	if err != nil || len(top.Manifests) != 1 || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != version {
		t.Fatalf("the layout names %+v, %v", top, err)
	}
	index, err := all.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifests, err := index.IndexManifest()
	if err != nil || len(manifests.Manifests) != 1 {
		t.Fatalf("the index names %+v, %v", manifests, err)
	}
	image, err := index.Image(manifests.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if p := manifests.Manifests[0].Platform; p.OS != "linux" || p.Architecture != runtime.GOARCH || config.Architecture != runtime.GOARCH || config.OS != "linux" {
		t.Errorf("the image is for %v, and its configuration for %s/%s", p, config.OS, config.Architecture)
	}
	if c := config.Config; c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/bin/headgate"}) {
		t.Errorf("the image is run as %s, by %q", c.User, c.Entrypoint)
	}
	return image
}

// open lets other users into the directories of a test, of which only the last is the
// root of the image.
func open(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range append(dirs, filepath.Dir(dirs[0])) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBOM holds that an SBOM names what is linked, with its licences, and nothing twice.
func TestBOM(t *testing.T) {
	r := release{version: "v1.2.3", time: time.Unix(1_700_000_000, 0).UTC()}
	modules := []licensedModule{
		{linkedModule: linkedModule{path: "std", version: "1.26.8"}, ids: []string{"BSD-3-Clause"}},
		{linkedModule: linkedModule{"example.org/a", "v0.1.0", "h1:x="}, ids: []string{"ISC", "MIT"}},
	}
	data, err := r.bom(target{"linux", "arm64"}, modules)
	if err != nil {
		t.Fatal(err)
	}
	var got bomDocument
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Format != "CycloneDX" || got.Metadata.Component.PURL != "pkg:golang/github.com/headgate/headgate@v1.2.3" || got.Metadata.Timestamp != "2023-11-14T22:13:20Z" {
		t.Errorf("the document is of %+v", got.Metadata)
	}
	if a := got.Components[1]; a.PURL != "pkg:golang/example.org/a@v0.1.0" || a.Licences[0].Licence.ID != "ISC" || a.Licences[1].Licence.ID != "MIT" || a.Properties[0].Value != "h1:x=" {
		t.Errorf("a component is %+v", a)
	}
	if refs := got.Dependencies[0].DependsOn; !slices.Equal(refs, []string{"pkg:golang/std@1.26.8", "pkg:golang/example.org/a@v0.1.0"}) {
		t.Errorf("the program depends on %q", refs)
	}
	other, err := r.bom(target{"linux", "amd64"}, modules)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(other, []byte(got.SerialNumber)) || !strings.HasPrefix(got.SerialNumber, "urn:uuid:") {
		t.Errorf("two documents have the serial number %q", got.SerialNumber)
	}
}

// TestLicences holds that nothing is given on under a licence that nobody has read.
func TestLicences(t *testing.T) {
	text := func(name, text string) string {
		dir := t.TempDir()
		if name != "" {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	goroot, _, err := goDirs()
	if err != nil {
		t.Fatal(err)
	}
	bsd, err := licencesIn(goroot, linkedModule{path: "std"})
	if err != nil || !slices.Contains(bsd.ids, "BSD-3-Clause") {
		t.Errorf("the licence of Go is %q, %v", bsd.ids, err)
	}
	if !bytes.Contains(notice([]licensedModule{bsd}), []byte("Redistribution and use")) {
		t.Error("the text of a licence is not in the notice")
	}
	for _, c := range []struct{ dir, want string }{
		{text("", ""), "none is known"},
		{text("main.go", "package main"), "none is known"},
		{text("COPYING", "Licensed under AGPL, in own words."), "none is known"},
		{text("LICENSE", "This program is free software: you can redistribute it and/or modify it under the terms of the GNU Affero General Public License as published by the Free Software Foundation, either version 3 of the License, or (at your option) any later version."), "is not among those that are accepted"},
	} {
		if _, err := licencesIn(c.dir, linkedModule{path: "example.org/a"}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "old"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-version", ""}, "-version"},
		{[]string{"-version", "v1 2"}, "-version"},
		{[]string{"-version", "v1", "-only", "plan9/amd64"}, "-only"},
		{[]string{"-version", "v1"}, "-out"},
		{[]string{"-version", "v1", "-out", full}, "is not empty"},
	} {
		if err := run(c.args); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.args, err, c.want)
		}
	}
}

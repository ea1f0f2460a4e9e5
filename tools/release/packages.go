package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // the format "deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // the format "rpm"
)

// packages writes the packages for Debian and for RPM systems.
func (r release) packages(t target, binary string, documents []file) error {
	work, err := os.MkdirTemp("", "headgate-packages")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for _, format := range []string{"deb", "rpm"} {
		contents, err := r.contents(format, filepath.Join(work, format), binary, documents)
		if err != nil {
			return err
		}
		if err := r.packageIn(format, t, contents); err != nil {
			return fmt.Errorf("package %s: %w", format, err)
		}
	}
	return nil
}

func (r release) packageIn(format string, t target, contents files.Contents) error {
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "headgate", Arch: t.arch, Platform: "linux", Version: r.number(), Release: "1",
		Section: "net", Priority: "optional", License: "Apache-2.0",
		Maintainer:  "The Headgate authors <headgate@example.org>",
		Homepage:    "https://" + ownModule,
		Description: "Distributed rate limiter\nDecides how many requests each caller may make, for gateways and services,\nwith counters in Redis, memcached or memory.",
		MTime:       r.time,
		Overridables: nfpm.Overridables{
			Contents: contents,
			Umask:    0o022,
			Scripts: nfpm.Scripts{
				PostInstall: filepath.Join(r.root, "deploy/package/installed.sh"),
				PreRemove:   filepath.Join(r.root, "deploy/package/removing.sh"),
			},
			RPM: nfpm.RPM{BuildHost: "localhost", Summary: "Distributed rate limiter", Group: "System Environment/Daemons"},
		},
	})
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("headgate_%s_linux_%s.%s", r.number(), t.arch, format)
	return writeFile(filepath.Join(r.out, name), func(w io.Writer) error { return packager.Package(info, w) })
}

// places are where a package has what an archive has beside the program; both kinds of
// systems agree on all but completion for zsh.
func places(format string) map[string]string {
	zsh := "/usr/share/zsh/vendor-completions/_headgate"
	if format == "rpm" {
		zsh = "/usr/share/zsh/site-functions/_headgate"
	}
	return map[string]string{
		"completion/headgate.bash": "/usr/share/bash-completion/completions/headgate",
		"completion/headgate.fish": "/usr/share/fish/vendor_completions.d/headgate.fish",
		"completion/headgate.zsh":  zsh,
		"LICENSE":                  "/usr/share/doc/headgate/copyright",
	}
}

// contents are the files of a package. Those that are made, and are no files yet, are
// written below dir.
func (r release) contents(format, dir, binary string, documents []file) (files.Contents, error) {
	deploy := filepath.Join(r.root, "deploy")
	contents := files.Contents{
		{Source: binary, Destination: "/usr/bin/headgate", FileInfo: &files.ContentFileInfo{Mode: 0o755}},
		{Source: filepath.Join(deploy, "systemd/headgate.service"), Destination: "/usr/lib/systemd/system/headgate.service"},
		{Source: filepath.Join(deploy, "headgate.sample.yaml"), Destination: "/etc/headgate/headgate.yaml", Type: files.TypeConfigNoReplace},
	}
	known := places(format)
	for _, f := range documents {
		destination, ok := known[f.name]
		data := f.data
		switch {
		case ok:
		case strings.HasPrefix(f.name, "man/"):
			destination = "/usr/share/man/man1/" + filepath.Base(f.name) + ".gz"
			compressed, err := packed(data)
			if err != nil {
				return nil, err
			}
			data = compressed
		default:
			destination = "/usr/share/doc/headgate/" + f.name
		}
		source := filepath.Join(dir, destination)
		if err := os.MkdirAll(filepath.Dir(source), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(source, data, 0o644); err != nil {
			return nil, err
		}
		contents = append(contents, &files.Content{Source: source, Destination: destination})
	}
	for _, c := range contents {
		if c.FileInfo == nil {
			c.FileInfo = &files.ContentFileInfo{Mode: 0o644}
		}
		c.FileInfo.MTime = r.time
	}
	return contents, nil
}

// packed is data as gzip has it, without a name and a time.
func packed(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

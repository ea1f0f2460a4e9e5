package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the user and the group of the process in a container, as numbers: Kubernetes
// cannot tell from a name that it is not root.
const imageUser = 65532

// platformImage is what the image of one architecture is made of.
type platformImage struct {
	arch     string
	binary   string // path of the program
	licences []byte
}

// image writes an OCI image layout, as an archive, with an image for each architecture. An
// image is made from scratch: it has no shell and nothing that Headgate does not read.
func (r release) image(name string, platforms []platformImage) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		image, err := r.imageOf(p)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: p.arch}}})
	}
	dir, err := os.MkdirTemp("", "headgate-image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// The layout names one index by its tag, and that one an image for each architecture.
	all := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{Add: index,
		Descriptor: v1.Descriptor{Annotations: map[string]string{"org.opencontainers.image.ref.name": r.number()}}})
	if _, err := layout.Write(dir, all); err != nil {
		return err
	}
	return writeFile(name, func(w io.Writer) error { return tarOfDir(w, dir, r.time) })
}

func (r release) imageOf(p platformImage) (v1.Image, error) {
	content, err := r.layer(p)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, r.config(p.arch, image))
}

// config says how the image is run.
func (r release) config(arch string, image v1.Image) *v1.ConfigFile {
	layers, _ := image.ConfigFile() // of an image that was just made in memory
	config := layers.DeepCopy()
	config.OS, config.Architecture = "linux", arch
	config.Created = v1.Time{Time: r.time}
	config.History = []v1.History{{Created: v1.Time{Time: r.time}, CreatedBy: "headgate release"}}
	config.Config = v1.Config{
		User:         "65532:65532",
		Entrypoint:   []string{"/bin/headgate"},
		Cmd:          []string{"serve"},
		WorkingDir:   "/",
		Env:          []string{"PATH=/bin"},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}, "8081/tcp": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "Headgate",
			"org.opencontainers.image.source":   "https://" + ownModule,
			"org.opencontainers.image.version":  r.number(),
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return config
}

// layer is the root of the file system: the program under both of its names, the
// certificates of public authorities, the user, and a directory for --state-dir.
func (r release) layer(p platformImage) ([]byte, error) {
	program, err := os.ReadFile(p.binary)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, entry := range []struct {
		header tar.Header
		data   []byte
	}{
		{header: directory("bin/")},
		{tar.Header{Typeflag: tar.TypeReg, Name: "bin/headgate", Mode: 0o755}, program},
		{header: tar.Header{Typeflag: tar.TypeLink, Name: "bin/ratelimit", Linkname: "bin/headgate", Mode: 0o755}},
		{header: directory("etc/")},
		{tar.Header{Typeflag: tar.TypeReg, Name: "etc/group", Mode: 0o644}, []byte("root:x:0:\nheadgate:x:65532:\n")},
		{tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644}, []byte("root:x:0:0:root:/:/sbin/nologin\nheadgate:x:65532:65532:Headgate:/:/sbin/nologin\n")},
		{header: directory("etc/ssl/")},
		{header: directory("etc/ssl/certs/")},
		{tar.Header{Typeflag: tar.TypeReg, Name: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644}, authorities()},
		{tar.Header{Typeflag: tar.TypeReg, Name: "THIRD_PARTY_LICENCES", Mode: 0o644}, p.licences},
		{header: directory("var/")},
		{header: directory("var/lib/")},
		{header: tar.Header{Typeflag: tar.TypeDir, Name: "var/lib/headgate/", Mode: 0o700, Uid: imageUser, Gid: imageUser}},
	} {
		entry.header.ModTime, entry.header.Size = r.time, int64(len(entry.data))
		if err := w.WriteHeader(&entry.header); err != nil {
			return nil, err
		}
		if _, err := w.Write(entry.data); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return b.Bytes(), err
}

func directory(name string) tar.Header {
	return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}
}

// authorities are the certificates that a browser trusts, in PEM. They come with a module,
// so that an image does not depend on the machine on which it is built.
func authorities() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // PEM cannot say a constraint, and without it too much would be trusted.
		}
		b.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
	}
	return b.Bytes()
}

// tarOfDir archives a directory in the order of names.
func tarOfDir(w io.Writer, dir string, at time.Time) error {
	var files []file
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files = append(files, file{name: filepath.ToSlash(name), data: data})
		return err
	})
	if err != nil {
		return err
	}
	return writeTar(w, "", files, at)
}

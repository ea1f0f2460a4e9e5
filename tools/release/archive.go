package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// file is a file of an archive.
type file struct {
	name string
	data []byte
	mode int64 // 0 is 0644
}

// archive writes the program and the files beside it: as NAME.zip for Windows, as
// NAME.tar.gz for others. All is in one folder.
func (r release) archive(name string, t target, binary string, files []file) error {
	data, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	files = append([]file{{t.program(), data, 0o755}}, files...)
	folder := filepath.Base(name) + "/"
	if t.os == "windows" {
		return writeFile(name+".zip", func(w io.Writer) error { return writeZip(w, folder, files, r.time) })
	}
	return writeFile(name+".tar.gz", func(w io.Writer) error { return writeTarGz(w, folder, files, r.time) })
}

func writeFile(name string, write func(io.Writer) error) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() {
		if closing := f.Close(); err == nil {
			err = closing
		}
	}()
	return write(f)
}

func writeTarGz(w io.Writer, folder string, files []file, at time.Time) error {
	compressor, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := writeTar(compressor, folder, files, at); err != nil {
		return err
	}
	return compressor.Close()
}

func writeTar(w io.Writer, folder string, files []file, at time.Time) error {
	archive := tar.NewWriter(w)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: folder + f.name, Size: int64(len(f.data)), Mode: modeOf(f), ModTime: at, Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(f.data); err != nil {
			return err
		}
	}
	return archive.Close()
}

func writeZip(w io.Writer, folder string, files []file, at time.Time) error {
	archive := zip.NewWriter(w)
	for _, f := range files {
		header := &zip.FileHeader{Name: folder + f.name, Method: zip.Deflate, Modified: at}
		header.SetMode(os.FileMode(modeOf(f)))
		entry, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := entry.Write(f.data); err != nil {
			return err
		}
	}
	return archive.Close()
}

func modeOf(f file) int64 {
	if f.mode == 0 {
		return 0o644
	}
	return f.mode
}

// writeSums writes SHA256SUMS, in the form that sha256sum -c reads, over all in a directory.
func writeSums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), entry.Name())
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), sums.Bytes(), 0o644)
}

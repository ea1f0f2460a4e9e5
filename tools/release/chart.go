package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
)

// chartVersion stands in the chart of the tree where a release has its version.
const chartVersion = "ersion: " + treeVersion + "\n"

// chart packs the Helm chart as Helm names it, NAME-VERSION.tgz, with the version of the
// release as its own.
func (r release) chart() error {
	files, err := filesBelow(filepath.Join(r.root, "deploy/helm/headgate"), "")
	if err != nil {
		return err
	}
	number := r.semantic()
	for i := range files {
		if files[i].name != "Chart.yaml" {
			continue
		}
		if n := bytes.Count(files[i].data, []byte(chartVersion)); n != 2 {
			return fmt.Errorf("chart: Chart.yaml has %q %d times, want version and appVersion", chartVersion, n)
		}
		files[i].data = bytes.ReplaceAll(files[i].data, []byte(chartVersion), []byte("ersion: "+number+"\n"))
	}
	return writeFile(filepath.Join(r.out, "headgate-"+number+".tgz"), func(w io.Writer) error {
		return writeTarGz(w, "headgate/", files, r.time)
	})
}

// filesBelow reads all files of a directory, also those that links of it lead to, without
// tests. Names are in the order of the alphabet, and begin with prefix.
func filesBelow(dir, prefix string) (files []file, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		from, name := filepath.Join(dir, entry.Name()), path.Join(prefix, entry.Name())
		info, err := os.Stat(from)
		switch {
		case err != nil:
			return nil, err
		case info.IsDir() && entry.Name() == "tests":
			continue
		case info.IsDir():
			below, err := filesBelow(from, name)
			if err != nil {
				return nil, err
			}
			files = append(files, below...)
		default:
			data, err := os.ReadFile(from)
			if err != nil {
				return nil, err
			}
			files = append(files, file{name: name, data: data})
		}
	}
	return files, nil
}

package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// unpackedChart returns the files of a chart that was made of the real tree.
func unpackedChart(t *testing.T, version, name string) map[string]string {
	t.Helper()
	r := release{root: "../..", out: t.TempDir(), version: version, time: time.Unix(1_700_000_000, 0)}
	if err := r.chart(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(r.out, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plain, err := gzip.NewReader(f)
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
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(data)
	}
}

// TestChart holds that a chart has the version of its release, what its links lead to, and no
// tests.
func TestChart(t *testing.T) {
	files := unpackedChart(t, "v1.2.3", "headgate-1.2.3.tgz")
	if c := files["headgate/Chart.yaml"]; strings.Count(c, "ersion: 1.2.3\n") != 2 || strings.Contains(c, "0.0.0") {
		t.Errorf("Chart.yaml is\n%s", c)
	}
	for _, name := range []string{"values.yaml", "values.schema.json", "templates/deployment.yaml", "files/prometheus/prometheusrule.yaml", "files/grafana/headgate-overview.json"} {
		if files["headgate/"+name] == "" {
			t.Errorf("no %s among %q", name, slices.Sorted(maps.Keys(files)))
		}
	}
	for name := range files {
		if strings.Contains(name, "/tests/") {
			t.Errorf("%s is packed", name)
		}
	}
}

// TestChartOfNoTag holds that what is no version becomes one that Helm takes.
func TestChartOfNoTag(t *testing.T) {
	files := unpackedChart(t, "d1f6603-dirty", "headgate-0.0.0-gd1f6603-dirty.tgz")
	if c := files["headgate/Chart.yaml"]; !strings.Contains(c, "\nversion: 0.0.0-gd1f6603-dirty\n") {
		t.Errorf("Chart.yaml is\n%s", c)
	}
}

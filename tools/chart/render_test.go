package chart

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/yaml"
)

// load reads the chart once: Helm logs each link that it follows.
var load = sync.OnceValues(func() (*chart.Chart, error) { return loader.LoadDir(chartDir) })

// object is one object of Kubernetes as a template made it.
type object struct {
	file, text string
	fields     map[string]any
}

func (o object) kind() string { return fmt.Sprint(o.fields["kind"]) }

func (o object) name() string {
	meta, _ := o.fields["metadata"].(map[string]any)
	return fmt.Sprint(meta["name"])
}

// render returns what the chart makes of values in a release hg of the namespace shop.
func render(values map[string]any) ([]object, error) { return renderAs("hg", values) }

// renderAs is render for a release of another name.
func renderAs(name string, values map[string]any) ([]object, error) {
	c, err := load()
	if err != nil {
		return nil, err
	}
	release := chartutil.ReleaseOptions{Name: name, Namespace: "shop", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(c, values, release, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	var objects []object
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(file) != ".yaml" {
			continue
		}
		for text := range strings.SplitSeq("\n"+files[file], "\n---\n") {
			o := object{file: path.Base(file), text: strings.TrimSpace(text) + "\n"}
			if err := yaml.UnmarshalStrict([]byte(text), &o.fields); err != nil {
				return nil, fmt.Errorf("%s: %w in\n%s", file, err, text)
			}
			if o.fields != nil {
				objects = append(objects, o)
			}
		}
	}
	return objects, nil
}

func mustRender(t *testing.T, values map[string]any) []object {
	t.Helper()
	objects, err := render(values)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// text writes objects as one file of YAML. What is copied into them from other files of the
// tree is left out: it has tests of its own.
func text(objects []object) string {
	var b strings.Builder
	for _, o := range objects {
		fmt.Fprintf(&b, "---\n# %s\n", o.file)
		lines := strings.SplitAfter(o.text, "\n")
		if o.file == "monitoring.yaml" && len(lines) > 20 {
			lines = append(lines[:20], "# ...\n")
		}
		b.WriteString(strings.Join(lines, ""))
	}
	return b.String()
}

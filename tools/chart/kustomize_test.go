package chart

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const kustomizeDir = "../../deploy/kustomize/"

// build returns what kustomize makes of a directory.
func build(t *testing.T, dir string) []object {
	t.Helper()
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), kustomizeDir+dir)
	if err != nil {
		t.Fatal(err)
	}
	all, err := made.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return split(t, string(all))
}

// split reads a file of several objects.
func split(t *testing.T, all string) (objects []object) {
	t.Helper()
	for text := range strings.SplitSeq(all, "\n---\n") {
		o := object{text: text}
		if err := yaml.UnmarshalStrict([]byte(text), &o.fields); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	return objects
}

// TestKustomizeBaseIsTheChart holds that both ways install the same.
func TestKustomizeBaseIsTheChart(t *testing.T) {
	text, err := os.ReadFile(kustomizeDir + "base/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := yaml.UnmarshalStrict(text, &v); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("# Made by the chart from values.yaml, which says how.\n")
	for _, o := range mustRender(t, v) {
		fmt.Fprintf(&b, "---\n%s", withoutHelm(o.text))
	}
	if *update {
		if err := os.WriteFile(kustomizeDir+"base/headgate.yaml", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if base, err := os.ReadFile(kustomizeDir + "base/headgate.yaml"); err != nil || string(base) != b.String() {
		t.Errorf("base/headgate.yaml is not what the chart makes, %v; hint: go test -run Kustomize -update", err)
	}
}

// withoutHelm leaves out the labels that name the chart and its release.
func withoutHelm(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "helm.sh/chart:") && !strings.Contains(line, "managed-by: Helm") && !strings.Contains(line, "app.kubernetes.io/version:") {
			b.WriteString(strings.ReplaceAll(line, "app.kubernetes.io/instance: hg", "app.kubernetes.io/instance: headgate"))
		}
	}
	return b.String()
}

// TestKustomizeOverlay holds that the overlay is the base with another store and rules.
func TestKustomizeOverlay(t *testing.T) {
	deployments, maps := pods(t, build(t, "overlays/redis"))
	if len(deployments) != 1 {
		t.Fatalf("%d deployments", len(deployments))
	}
	d := deployments[0]
	if *d.Spec.Replicas != 3 || d.Namespace != "shop" {
		t.Errorf("%d replicas in %q", *d.Spec.Replicas, d.Namespace)
	}
	env := d.Spec.Template.Spec.Containers[0].Env
	if len(env) != 2 || env[0].Name != "HEADGATE_STORE" && env[1].Name != "HEADGATE_STORE" {
		t.Errorf("variables %v", env)
	}
	rules := maps["headgate-rules"].Data
	if len(rules) != 1 || !strings.Contains(rules["shop.yaml"], "api_key") {
		t.Errorf("rules %v", rules)
	}
}

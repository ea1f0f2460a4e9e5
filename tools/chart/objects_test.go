package chart

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/santhosh-tekuri/jsonschema/v6"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// schemaDir is where make deps puts the schemas of Kubernetes.
const schemaDir = "../../.tools/kubernetes/kubernetes_validate/kubernetes-json-schema"

// schemaURL is what the schemas call the place where they are.
const schemaURL = "https://kubernetes.io/api/"

// schemasOf loads the schemas of one version from its directory.
type schemasOf string

// Load implements jsonschema.URLLoader.
func (dir schemasOf) Load(url string) (any, error) {
	return jsonschema.FileLoader{}.Load("file://" + string(dir) + strings.TrimPrefix(url, schemaURL))
}

// TestKubernetes holds that each version of Kubernetes which is supported takes all objects.
func TestKubernetes(t *testing.T) {
	schemas, err := filepath.Abs(schemaDir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(schemas); errors.Is(err, fs.ErrNotExist) && os.Getenv("HEADGATE_TEST_SERVERS") != "required" {
		t.Skip("no schemas of Kubernetes; hint: make deps")
	}
	objects := slices.Concat(installs(t)...)
	for minor := 30; minor <= 37; minor++ {
		version := fmt.Sprintf("v1.%d.0", minor)
		compiler := jsonschema.NewCompiler()
		compiler.UseLoader(schemasOf(schemas + "/" + version + "-local-strict/"))
		checked := 0
		for _, o := range objects {
			api := fmt.Sprint(o.fields["apiVersion"])
			if strings.HasPrefix(api, "monitoring.coreos.com/") {
				continue // no part of Kubernetes: TestTypes has it
			}
			file := strings.NewReplacer(".k8s.io", "", "/", "-").Replace(strings.ToLower(o.kind()) + "-" + api + ".json")
			schema, err := compiler.Compile(schemaURL + file)
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(o.fields); err != nil {
				t.Errorf("%s: %s %s: %v", version, o.kind(), o.name(), err)
			}
			checked++
		}
		if checked < 20 {
			t.Errorf("%s: %d objects", version, checked)
		}
	}
}

// installs returns what each way to install makes: six value files, kustomize, the sidecar.
func installs(t *testing.T) [][]object {
	t.Helper()
	sidecar, err := os.ReadFile("../../examples/kubernetes/sidecar.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sets := [][]object{build(t, "base"), build(t, "overlays/redis"), split(t, string(sidecar))}
	for _, name := range cases(t) {
		sets = append(sets, mustRender(t, values(t, name)))
	}
	return sets
}

// typeOf returns an empty object of the Go type of a kind, nil for a kind that is not known.
func typeOf(kind string) any {
	switch kind {
	case "Deployment":
		return &apps.Deployment{}
	case "Service":
		return &core.Service{}
	case "ConfigMap":
		return &core.ConfigMap{}
	case "ServiceAccount":
		return &core.ServiceAccount{}
	case "HorizontalPodAutoscaler":
		return &autoscaling.HorizontalPodAutoscaler{}
	case "PodDisruptionBudget":
		return &policy.PodDisruptionBudget{}
	case "NetworkPolicy":
		return &networking.NetworkPolicy{}
	case "PodMonitor":
		return &monitoring.PodMonitor{}
	case "PrometheusRule":
		return &monitoring.PrometheusRule{}
	}
	return nil
}

// TestTypes holds that every field of every object is one that its Go type has.
func TestTypes(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range slices.Concat(installs(t)...) {
		into := typeOf(o.kind())
		if into == nil {
			t.Fatalf("no type for the kind %s", o.kind())
		}
		if err := yaml.UnmarshalStrict([]byte(o.text), into); err != nil {
			t.Errorf("%s %s: %v", o.kind(), o.name(), err)
		}
		seen[o.kind()] = true
	}
	if len(seen) != 9 {
		t.Errorf("%d kinds of objects: %v", len(seen), seen)
	}
}

// TestConfigMapsFit holds that no ConfigMap has more than Kubernetes takes.
func TestConfigMapsFit(t *testing.T) {
	for _, name := range cases(t) {
		for _, o := range mustRender(t, values(t, name)) {
			if o.kind() == "ConfigMap" && len(o.text) > 900<<10 {
				t.Errorf("%s: %s has %d bytes", name, o.name(), len(o.text))
			}
		}
	}
}

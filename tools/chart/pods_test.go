package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// pods returns the deployments and the ConfigMaps among objects.
func pods(t *testing.T, objects []object) (deployments []apps.Deployment, maps map[string]core.ConfigMap) {
	t.Helper()
	maps = map[string]core.ConfigMap{}
	for _, o := range objects {
		var err error
		switch o.kind() {
		case "Deployment":
			var d apps.Deployment
			err = yaml.UnmarshalStrict([]byte(o.text), &d)
			deployments = append(deployments, d)
		case "ConfigMap":
			var m core.ConfigMap
			err = yaml.UnmarshalStrict([]byte(o.text), &m)
			maps[m.Name] = m
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return deployments, maps
}

// TestSettingsAreTaken holds that Headgate would start by the settings, arguments and
// variables of each container of it.
func TestSettingsAreTaken(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "headgate")
	build := exec.Command("go", "build", "-tags", "disable_pgv,grpcnotrace", "-o", binary, "./cmd/headgate")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	checked := 0
	for _, objects := range installs(t) {
		deployments, maps := pods(t, objects)
		for _, d := range deployments {
			spec := d.Spec.Template.Spec
			for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
				if c.Name == "headgate" {
					checkSettings(t, binary, c, maps[d.Name].Data["headgate.yaml"])
					checked++
				}
			}
		}
	}
	if checked < 11 {
		t.Errorf("%d containers", checked)
	}
}

func checkSettings(t *testing.T, binary string, c core.Container, settings string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "headgate.yaml")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	line := slices.Concat([]string{"config", "check"}, c.Args)
	for i := range line {
		line[i] = strings.Replace(line[i], "/etc/headgate/settings/headgate.yaml", file, 1)
	}
	check := exec.Command(binary, line...)
	for _, e := range c.Env {
		switch e.Name {
		case "HEADGATE_STORE":
			e.Value = "redis://redis:6379/0"
		case "HEADGATE_TENANTS":
			e.Value = "postgres://headgate@postgres/headgate"
		}
		check.Env = append(check.Env, e.Name+"="+e.Value)
	}
	if out, err := check.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "ok: ") {
		t.Errorf("%q: %v\n%s", line, err, out)
	}
}

// TestFilesAreMounted holds that every file of the settings stands in a volume that the pod
// mounts, and that each mount has its volume.
func TestFilesAreMounted(t *testing.T) {
	for _, name := range cases(t) {
		deployments, maps := pods(t, mustRender(t, values(t, name)))
		for _, d := range deployments {
			spec := d.Spec.Template.Spec
			files := map[string]bool{}
			for _, m := range spec.Containers[0].VolumeMounts {
				at := slices.IndexFunc(spec.Volumes, func(v core.Volume) bool { return v.Name == m.Name })
				if at < 0 {
					t.Errorf("%s: %s: no volume %s", name, d.Name, m.Name)
					continue
				}
				addFiles(files, m.MountPath, spec.Volumes[at], maps)
			}
			var settings map[string]any
			if err := yaml.UnmarshalStrict([]byte(maps[d.Name].Data["headgate.yaml"]), &settings); err != nil {
				t.Fatal(err)
			}
			for setting, value := range settings {
				path, _ := value.(string)
				if _, in, ok := strings.Cut(path, "password_file="); ok {
					path = in
				}
				if strings.HasPrefix(path, "/") && !files[path] {
					t.Errorf("%s: %s: %s: no volume has %s", name, d.Name, setting, path)
				}
			}
		}
	}
}

// addFiles notes the paths that a volume has where it is mounted.
func addFiles(files map[string]bool, at string, v core.Volume, maps map[string]core.ConfigMap) {
	files[at] = true
	switch {
	case v.ConfigMap != nil:
		for file := range maps[v.ConfigMap.Name].Data {
			files[at+"/"+file] = true
		}
	case v.Secret != nil && len(v.Secret.Items) == 0: // of the type kubernetes.io/tls
		files[at+"/tls.crt"], files[at+"/tls.key"] = true, true
	case v.Secret != nil:
		for _, item := range v.Secret.Items {
			files[at+"/"+item.Path] = true
		}
	}
}

// TestPodsAreHardened holds what the restricted profile of Kubernetes asks for, and that
// nothing secret is a plain value.
func TestPodsAreHardened(t *testing.T) {
	for _, name := range cases(t) {
		deployments, _ := pods(t, mustRender(t, values(t, name)))
		for _, d := range deployments {
			spec := d.Spec.Template.Spec
			c := spec.Containers[0]
			if p := spec.SecurityContext; p == nil || !*p.RunAsNonRoot || p.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
				t.Errorf("%s: %s: the pod is not restricted", name, d.Name)
			}
			if s := c.SecurityContext; s == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) {
				t.Errorf("%s: %s: the container is not restricted", name, d.Name)
			}
			if *spec.AutomountServiceAccountToken || *spec.EnableServiceLinks {
				t.Errorf("%s: %s: the pod gets a token or variables of services", name, d.Name)
			}
			for _, e := range c.Env {
				if strings.HasPrefix(e.Name, "HEADGATE_") && strings.Contains(e.Value, "://") {
					t.Errorf("%s: %s: %s is a plain value", name, d.Name, e.Name)
				}
			}
		}
	}
}

// TestDecidersHoldNoSecretOfOperators holds that roles apart are apart: a pod that decides
// has neither the tokens nor the signing key, nor with snapshots the database.
func TestDecidersHoldNoSecretOfOperators(t *testing.T) {
	deployments, _ := pods(t, mustRender(t, values(t, "snapshots")))
	if len(deployments) != 2 {
		t.Fatalf("%d deployments", len(deployments))
	}
	for _, d := range deployments {
		admin := d.Labels["app.kubernetes.io/component"] == "admin"
		whole, err := yaml.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"headgate-tokens", "headgate-sign", "headgate-database"} {
			if strings.Contains(string(whole), secret) != admin {
				t.Errorf("%s: has the secret %s: %t", d.Name, secret, !admin)
			}
		}
	}
}

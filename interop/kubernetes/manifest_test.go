// Package kubernetes holds the manifests in deploy/kubernetes against the types of Kubernetes: a field that does not exist
// there, or that has another type, fails. What the manifests promise in docs/cluster.md is checked, too.
package kubernetes

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const manifests = "../../deploy/kubernetes"

// serviceMonitor is the part of the Prometheus operator's type that the manifests use.
type serviceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port, Scheme, Path, Interval string
			Authorization                struct {
				Credentials corev1.SecretKeySelector `json:"credentials"`
			} `json:"authorization"`
			TLSConfig struct {
				ServerName string `json:"serverName"`
				CA         struct {
					Secret corev1.SecretKeySelector `json:"secret"`
				} `json:"ca"`
			} `json:"tlsConfig"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// kustomization is the part of Kustomize's type that is used.
type kustomization struct {
	metav1.TypeMeta    `json:",inline"`
	Namespace          string   `json:"namespace"`
	Resources          []string `json:"resources"`
	ConfigMapGenerator []struct {
		Name string   `json:"name"`
		Envs []string `json:"envs"`
	} `json:"configMapGenerator"`
	Images []struct {
		Name, NewName, NewTag string
	} `json:"images"`
}

// kinds makes an object of each type that may occur.
var kinds = map[string]func() any{
	"v1/Namespace":                            func() any { return new(corev1.Namespace) },
	"v1/ConfigMap":                            func() any { return new(corev1.ConfigMap) },
	"v1/Service":                              func() any { return new(corev1.Service) },
	"apps/v1/StatefulSet":                     func() any { return new(appsv1.StatefulSet) },
	"apps/v1/Deployment":                      func() any { return new(appsv1.Deployment) },
	"policy/v1/PodDisruptionBudget":           func() any { return new(policyv1.PodDisruptionBudget) },
	"monitoring.coreos.com/v1/ServiceMonitor": func() any { return new(serviceMonitor) },
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(manifests, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func load(t *testing.T) map[string]any {
	t.Helper()
	var k kustomization
	if err := yaml.UnmarshalStrict(read(t, "kustomization.yaml"), &k); err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{"kustomization.yaml": true}
	objects := map[string]any{}
	for _, file := range k.Resources {
		listed[file] = true
		for _, doc := range bytes.Split(read(t, file), []byte("\n---\n")) {
			var meta metav1.PartialObjectMetadata
			if err := yaml.Unmarshal(doc, &meta); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			kind := meta.APIVersion + "/" + meta.Kind
			if kinds[kind] == nil {
				t.Errorf("%s: the type %s is not known here", file, kind)
				continue
			}
			o := kinds[kind]()
			if err := yaml.UnmarshalStrict(doc, o); err != nil {
				t.Errorf("%s: %s %s: %v", file, kind, meta.Name, err)
			}
			objects[meta.Kind+"/"+meta.Name] = o
		}
	}
	all, err := filepath.Glob(filepath.Join(manifests, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if !listed[filepath.Base(path)] {
			t.Errorf("%s is in no resource of kustomization.yaml", filepath.Base(path))
		}
	}
	return objects
}

func TestManifests(t *testing.T) {
	o := load(t)
	nats := o["StatefulSet/nats"].(*appsv1.StatefulSet)
	node := o["Deployment/sluice"].(*appsv1.Deployment)
	if a := nats.Spec.Template.Spec.Affinity; a == nil || a.PodAntiAffinity == nil || len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) != 1 {
		t.Error("two NATS servers may run on one machine")
	}
	if *nats.Spec.Replicas != 3 {
		t.Errorf("got %d NATS servers, want 3", *nats.Spec.Replicas)
	}
	config := o["ConfigMap/nats"].(*corev1.ConfigMap).Data["nats.conf"]
	for _, want := range []string{"sync_interval: always", "max_payload: 8MB"} {
		if !strings.Contains(config, want) {
			t.Errorf("nats.conf has no %q", want)
		}
	}
	for name, spec := range map[string]corev1.PodSpec{"nats": nats.Spec.Template.Spec, "sluice": node.Spec.Template.Spec} {
		c := spec.Containers[0]
		if c.LivenessProbe == nil || c.ReadinessProbe == nil || c.StartupProbe == nil {
			t.Errorf("%s has not all probes", name)
		}
		if c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s has no memory request or limit", name)
		}
		for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
			if !hasPort(c, probe.HTTPGet.Port.StrVal) {
				t.Errorf("%s: a probe asks the port %q, which it does not have", name, probe.HTTPGet.Port.StrVal)
			}
		}
	}
	for name, labels := range map[string]map[string]string{"nats": nats.Spec.Template.Labels, "sluice": node.Spec.Template.Labels} {
		pdb := o["PodDisruptionBudget/"+name].(*policyv1.PodDisruptionBudget)
		if pdb.Spec.Selector.MatchLabels["app"] != labels["app"] || pdb.Spec.MaxUnavailable.IntValue() != 1 {
			t.Errorf("%s: got %+v, want a budget of 1 for its own pods", name, pdb.Spec)
		}
	}
	ops := o["Service/sluice-ops"].(*corev1.Service)
	monitor := o["ServiceMonitor/sluice"].(*serviceMonitor)
	for k, v := range monitor.Spec.Selector.MatchLabels {
		if ops.Labels[k] != v {
			t.Errorf("the ServiceMonitor looks for %s=%s, the Service has %q", k, v, ops.Labels[k])
		}
	}
	if len(monitor.Spec.Endpoints) != 1 || monitor.Spec.Endpoints[0].Port != ops.Spec.Ports[0].Name {
		t.Errorf("the ServiceMonitor asks another port than the Service has")
	}
}

func hasPort(c corev1.Container, name string) bool {
	for _, p := range c.Ports {
		if p.Name == name {
			return true
		}
	}
	return false
}

// Every variable in the settings, and in the pod, is one that the program knows.
func TestSettings(t *testing.T) {
	cmd := exec.Command("go", "run", "./cmd/sluice", "config")
	cmd.Dir = "../.."
	cmd.Env = os.Environ()
	for line := range strings.Lines(string(read(t, "settings.env"))) {
		cmd.Env = append(cmd.Env, strings.TrimSpace(line))
	}
	for _, e := range load(t)["Deployment/sluice"].(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Env {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"my-bucket/sluice", "SLUICE_DRAIN_WAIT", "SLUICE_OPS_TLS_CERT"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the program does not take %s up:\n%s", want, out)
		}
	}
}

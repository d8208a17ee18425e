package deploy

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
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
	"networking.k8s.io/v1/NetworkPolicy":      func() any { return new(networkingv1.NetworkPolicy) },
	"policy/v1/PodDisruptionBudget":           func() any { return new(policyv1.PodDisruptionBudget) },
	"monitoring.coreos.com/v1/ServiceMonitor": func() any { return new(serviceMonitor) },
}

func read(t testing.TB, name string) []byte {
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
	for name, spec := range map[string]corev1.PodSpec{"nats": nats.Spec.Template.Spec, "sluice": node.Spec.Template.Spec} {
		c := spec.Containers[0]
		restricted(t, name, spec)
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

// restricted is what the pod security standard of this name asks for, and that no pod gets a token of the Kubernetes API.
func restricted(t *testing.T, name string, spec corev1.PodSpec) {
	t.Helper()
	pod, c := spec.SecurityContext, spec.Containers[0].SecurityContext
	if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
		t.Errorf("%s gets a token of the Kubernetes API", name)
	}
	if !*pod.RunAsNonRoot || *pod.RunAsUser == 0 || *pod.RunAsGroup == 0 || pod.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s: got %+v", name, pod)
	}
	if *c.AllowPrivilegeEscalation || !*c.ReadOnlyRootFilesystem || len(c.Capabilities.Drop) != 1 || c.Capabilities.Drop[0] != "ALL" || len(c.Capabilities.Add) > 0 {
		t.Errorf("%s: got %+v", name, c)
	}
}

// Every image has a version of its own.
func TestImageVersions(t *testing.T) {
	var k kustomization
	must(t, yaml.UnmarshalStrict(read(t, "kustomization.yaml"), &k))
	o := load(t)
	for _, image := range []string{
		o["StatefulSet/nats"].(*appsv1.StatefulSet).Spec.Template.Spec.Containers[0].Image,
		o["Deployment/sluice"].(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Image,
	} {
		for _, set := range k.Images {
			if set.Name == image {
				image = set.NewName + ":" + set.NewTag
			}
		}
		if _, tag, _ := strings.Cut(image, ":"); tag == "" || tag == "latest" {
			t.Errorf("the image %s has no version", image)
		}
	}
}

// peer is who connects: a pod of this namespace, or of another one.
type peer struct{ namespace, app string }

// admits says whether a rule lets a peer in.
func admits(rule networkingv1.NetworkPolicyIngressRule, from peer, port string) bool {
	named := slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool { return p.Port.StrVal == port })
	return named && slices.ContainsFunc(rule.From, func(p networkingv1.NetworkPolicyPeer) bool {
		if p.NamespaceSelector != nil && p.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != from.namespace || p.NamespaceSelector == nil && from.namespace != "sluice" {
			return false
		}
		return p.PodSelector == nil || p.PodSelector.MatchLabels["app"] == from.app
	})
}

// Only nodes reach NATS, and only the ingress controller reaches the port of senders.
func TestNetworkPolicies(t *testing.T) {
	o := load(t)
	ports := map[string][]corev1.ContainerPort{
		"nats":   o["StatefulSet/nats"].(*appsv1.StatefulSet).Spec.Template.Spec.Containers[0].Ports,
		"sluice": o["Deployment/sluice"].(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Ports,
	}
	if all := o["NetworkPolicy/nobody"].(*networkingv1.NetworkPolicy).Spec; len(all.Ingress) > 0 || len(all.PodSelector.MatchLabels) > 0 || all.PolicyTypes[0] != networkingv1.PolicyTypeIngress {
		t.Errorf("got %+v, want a policy for all pods that lets nobody in", all)
	}
	node, server, other := peer{"sluice", "sluice"}, peer{"sluice", "nats"}, peer{"sluice", "other"}
	ingress, monitoring, stranger := peer{"ingress-nginx", "x"}, peer{"monitoring", "x"}, peer{"default", "sluice"}
	want := map[string][]peer{
		"nats client": {node}, "nats monitor": {node}, "nats cluster": {server}, "sluice api": {ingress}, "sluice ops": {monitoring},
	}
	for app, list := range ports {
		policy := o["NetworkPolicy/"+app].(*networkingv1.NetworkPolicy).Spec
		if policy.PodSelector.MatchLabels["app"] != app {
			t.Errorf("the policy %s is for %v", app, policy.PodSelector.MatchLabels)
		}
		for _, port := range list {
			for _, from := range []peer{node, server, other, ingress, monitoring, stranger} {
				got := slices.ContainsFunc(policy.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool { return admits(r, from, port.Name) })
				if got != slices.Contains(want[app+" "+port.Name], from) {
					t.Errorf("%v reaches the port %s of %s: %v", from, port.Name, app, got)
				}
			}
		}
	}
}

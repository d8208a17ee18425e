package deploy

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"sluice/internal/enginetest"
	"sluice/internal/servicetest"
)

// namespace is what kubectl has made: secrets, and the pods of the manifests.
type namespace struct {
	*site
	objects  map[string]any
	secrets  map[string]map[string]string
	settings []string // of every node, beside those of the manifests
	pods     map[string]corev1.Container
}

// kubectl answers the commands of the page.
func (n *namespace) kubectl(c call) (string, error) {
	args := c.args
	if args[0] == "-n" {
		args = args[2:]
	}
	switch words := strings.Join(args, " "); {
	case strings.HasPrefix(words, "apply -f "):
		_, err := os.Stat(filepath.Join(c.dir, args[2]))
		return "", err
	case strings.HasPrefix(words, "create secret "):
		return "", n.secret(c.dir, args[3], args[4:])
	case words == "apply -k deploy/kubernetes":
		n.apply()
		return "", nil
	case words == "rollout status deployment/sluice":
		for name, container := range n.pods {
			if err := n.probe(name, container); err != nil {
				return "", err
			}
		}
		return "", nil
	case strings.HasPrefix(words, "exec deployment/sluice -- "):
		return n.containers["sluice-0"].run(nil, args[3:]...)
	}
	return "", fmt.Errorf("kubectl %q is not known here", c.args)
}

// secret makes one of files.
func (n *namespace) secret(dir, name string, args []string) error {
	n.secrets[name] = map[string]string{}
	for _, a := range args {
		flag, value, _ := strings.Cut(a, "=")
		key, path, _ := strings.Cut(value, "=")
		switch flag {
		case "--cert":
			key, path = "tls.crt", value
		case "--key":
			key, path = "tls.key", value
		case "--from-env-file":
			path = value
		case "--from-file":
		default:
			return fmt.Errorf("kubectl create secret %s is not known here", a)
		}
		text, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			return err
		}
		if flag != "--from-env-file" {
			n.secrets[name][key] = string(text)
			continue
		}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			n.secrets[name][key] = value
		}
	}
	return nil
}

// apply starts the pods.
func (n *namespace) apply() {
	servers := n.objects["StatefulSet/nats"].(*appsv1.StatefulSet)
	nodes := n.objects["Deployment/sluice"].(*appsv1.Deployment)
	for i := range *servers.Spec.Replicas {
		n.pod(fmt.Sprintf("nats-%d", i), fmt.Sprintf("nats-%d.%s", i, servers.Spec.ServiceName), servers.Spec.Template.Spec)
	}
	for i := range *nodes.Spec.Replicas {
		n.pod(fmt.Sprintf("sluice-%d", i), fmt.Sprintf("sluice-%d", i), nodes.Spec.Template.Spec)
	}
}

// pod starts a pod.
func (n *namespace) pod(name, host string, spec corev1.PodSpec) {
	t := n.t
	t.Helper()
	d := spec.Containers[0]
	user := int(*spec.SecurityContext.RunAsUser)
	var c *container
	if image, _, _ := strings.Cut(d.Image, ":"); image == "nats" {
		c = n.container(host, user, enginetest.Build(t), append([]string{"/nats-server"}, d.Args...)...)
	} else {
		owner, env, entrypoint, _, _ := imageOfSluice(t)
		if owner != user {
			t.Errorf("the pod runs as %d, the image as %d", user, owner)
		}
		program, err := sluiceOnce()
		must(t, err)
		c = n.container(host, user, program, append(entrypoint, d.Args...)...)
		c.env = append(env, n.settings...)
	}
	c.env = append(c.env, n.environment(name, d)...)
	for _, m := range d.VolumeMounts {
		n.mount(c, spec, m)
	}
	n.pods[host] = d
	c.start()
}

// environment is the variables of a container.
func (n *namespace) environment(pod string, d corev1.Container) (env []string) {
	for _, from := range d.EnvFrom {
		switch {
		case from.ConfigMapRef != nil && from.ConfigMapRef.Name == "sluice-settings":
			env = append(env, strings.Split(strings.TrimSpace(string(read(n.t, "settings.env"))), "\n")...)
		case from.SecretRef != nil && n.secrets[from.SecretRef.Name] != nil:
			for k, v := range n.secrets[from.SecretRef.Name] {
				env = append(env, k+"="+v)
			}
		default:
			n.t.Errorf("%s: variables from %+v, which is not there", pod, from)
		}
	}
	for _, e := range d.Env {
		if e.ValueFrom != nil && e.ValueFrom.FieldRef.FieldPath == "metadata.name" {
			e.Value = pod
		}
		env = append(env, e.Name+"="+strings.ReplaceAll(e.Value, "$(POD_NAME)", pod))
	}
	return env
}

// mount gives a container what one of its mounts names. The group of a secret is that of the pod.
func (n *namespace) mount(c *container, spec corev1.PodSpec, m corev1.VolumeMount) {
	t := n.t
	t.Helper()
	i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
	switch {
	case i < 0 || spec.Volumes[i].EmptyDir != nil: // the first is a claim
		c.volume(m.MountPath)
	case spec.Volumes[i].ConfigMap != nil:
		for name, text := range n.objects["ConfigMap/"+spec.Volumes[i].ConfigMap.Name].(*corev1.ConfigMap).Data {
			c.file(filepath.Join(m.MountPath, name), text, 0o644, 0)
		}
	default:
		from := spec.Volumes[i].Secret
		if n.secrets[from.SecretName] == nil {
			t.Errorf("the page makes no secret %s", from.SecretName)
		}
		for name, text := range n.secrets[from.SecretName] {
			c.file(filepath.Join(m.MountPath, name), text, os.FileMode(*from.DefaultMode), int(*spec.SecurityContext.FSGroup))
		}
	}
}

// probe asks what Kubernetes asks, until every answer is 200.
func (n *namespace) probe(name string, d corev1.Container) error {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // as Kubernetes does
	for _, p := range []*corev1.Probe{d.StartupProbe, d.LivenessProbe, d.ReadinessProbe} {
		port := d.Ports[slices.IndexFunc(d.Ports, func(c corev1.ContainerPort) bool { return c.Name == p.HTTPGet.Port.StrVal })].ContainerPort
		scheme := "http"
		if p.HTTPGet.Scheme != "" {
			scheme = strings.ToLower(string(p.HTTPGet.Scheme))
		}
		url := scheme + "://127.0.0.1:" + n.port(name, fmt.Sprint(port)) + p.HTTPGet.Path
		err := servicetest.Await(time.Minute, name+" "+p.HTTPGet.Path, func() error {
			a, err := client.Get(url)
			if err == nil && a.StatusCode != http.StatusOK {
				err = fmt.Errorf("got %d", a.StatusCode)
			}
			if a != nil {
				a.Body.Close()
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// scraped reads the metrics of a node as the ServiceMonitor says.
func (n *namespace) scraped(name string) {
	t := n.t
	t.Helper()
	e := n.objects["ServiceMonitor/sluice"].(*serviceMonitor).Spec.Endpoints[0]
	secret := n.secrets[e.Authorization.Credentials.Name]
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM([]byte(secret[e.TLSConfig.CA.Secret.Key]))
	r, err := http.NewRequest(http.MethodGet, e.Scheme+"://127.0.0.1:"+n.port(name, "8081")+e.Path, nil)
	must(t, err)
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(secret[e.Authorization.Credentials.Key]))
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities, ServerName: e.TLSConfig.ServerName}}}
	a, err := client.Do(r)
	must(t, err)
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		t.Errorf("the metrics of %s: got %d", name, a.StatusCode)
	}
}

// The commands of docs/cluster.md make a cluster of the manifests that takes events, and that strangers cannot use.
func TestKubernetes(t *testing.T) {
	dir := copied(t)
	n := &namespace{
		site:    newSite(t, "bucket", "nats-0.nats", "nats-1.nats", "nats-2.nats", "sluice-0", "sluice-1", "sluice-2"),
		objects: load(t), secrets: map[string]map[string]string{}, pods: map[string]corev1.Container{},
	}
	n.settings = n.bucket("my-bucket")
	must(t, os.WriteFile(filepath.Join(dir, "bucket.env"), []byte("AWS_ACCESS_KEY_ID="+bucketKey+"\nAWS_SECRET_ACCESS_KEY="+bucketSecret+"\n"), 0o600))
	script := with(t, blocks(t, "cluster.md", "## Set up Kubernetes"), "kubectl apply -k")
	out := shell(t, dir, script, map[string]func(call) (string, error){"kubectl": n.kubectl})
	if strings.Count(out, "sync_interval is always: true") != 3 || strings.Contains(out, "failed ") {
		t.Errorf("cluster check: got\n%s", out)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for _, name := range []string{"sluice-0", "sluice-1", "sluice-2"} {
		n.takesEvents(name, lines[len(lines)-1])
		n.scraped(name)
	}
	n.containers["sluice-0"].strangers("nats", filepath.Join(dir, "certs"))
}

package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/autosched/autosched/internal/cli"
	"github.com/autosched/autosched/internal/cli/clitest"
	"github.com/autosched/autosched/service/jet"
)

const deployDir = "../../../../deploy"

func deployed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// manifest is an object of deploy/kubernetes with the fields that are used there, by the reference of
// the Kubernetes API. A field that is not here is refused.
type manifest struct {
	APIVersion                   string `yaml:"apiVersion"`
	Kind                         string
	Metadata                     objectMeta
	AutomountServiceAccountToken *bool `yaml:"automountServiceAccountToken"`
	Data                         map[string]string
	Spec                         manifestSpec
}

type (
	objectMeta struct {
		Name   string
		Labels map[string]string
	}
	labelSelector struct {
		MatchLabels map[string]string `yaml:"matchLabels"`
	}
	manifestSpec struct { // of a Service, a StatefulSet, a NetworkPolicy, a PodDisruptionBudget or a claim
		ClusterIP                string `yaml:"clusterIP"`
		PublishNotReadyAddresses bool   `yaml:"publishNotReadyAddresses"`
		MaxUnavailable           int    `yaml:"maxUnavailable"`
		PodManagementPolicy      string `yaml:"podManagementPolicy"`

		Selector             yaml.Node
		Ports                []servicePort
		Replicas             int
		ServiceName          string `yaml:"serviceName"`
		Template             podTemplate
		VolumeClaimTemplates []claim       `yaml:"volumeClaimTemplates"`
		PodSelector          labelSelector `yaml:"podSelector"`
		PolicyTypes          []string      `yaml:"policyTypes"`
		Ingress              []struct {
			From []struct {
				NamespaceSelector labelSelector `yaml:"namespaceSelector"`
				PodSelector       labelSelector `yaml:"podSelector"`
			}
			Ports []struct{ Port string }
		}
		Egress []struct {
			To []struct {
				PodSelector labelSelector `yaml:"podSelector"`
			}
			Ports []struct{ Port, Protocol string }
		}
	}
	servicePort struct {
		Name       string
		Port       int
		TargetPort string `yaml:"targetPort"`
	}
	claim struct {
		Metadata objectMeta
		Spec     struct {
			AccessModes []string `yaml:"accessModes"`
			Resources   resources
		}
	}
	resources   struct{ Requests, Limits map[string]string }
	podTemplate struct {
		Metadata objectMeta
		Spec     podSpec
	}
	podSpec struct {
		ServiceAccountName            string `yaml:"serviceAccountName"`
		AutomountServiceAccountToken  *bool  `yaml:"automountServiceAccountToken"`
		EnableServiceLinks            *bool  `yaml:"enableServiceLinks"`
		TerminationGracePeriodSeconds int    `yaml:"terminationGracePeriodSeconds"`
		Affinity                      struct {
			PodAntiAffinity struct {
				Required []struct {
					TopologyKey   string        `yaml:"topologyKey"`
					LabelSelector labelSelector `yaml:"labelSelector"`
				} `yaml:"requiredDuringSchedulingIgnoredDuringExecution"`
			} `yaml:"podAntiAffinity"`
		}
		SecurityContext struct {
			RunAsNonRoot        bool                  `yaml:"runAsNonRoot"`
			RunAsUser           int                   `yaml:"runAsUser"`
			RunAsGroup          int                   `yaml:"runAsGroup"`
			FSGroup             int                   `yaml:"fsGroup"`
			FSGroupChangePolicy string                `yaml:"fsGroupChangePolicy"`
			SeccompProfile      struct{ Type string } `yaml:"seccompProfile"`
		} `yaml:"securityContext"`
		Containers []container
		Volumes    []volume
	}
	container struct {
		Name, Image string
		Args        []string
		Ports       []struct {
			Name          string
			ContainerPort int `yaml:"containerPort"`
		}
		StartupProbe    probe `yaml:"startupProbe"`
		LivenessProbe   probe `yaml:"livenessProbe"`
		ReadinessProbe  probe `yaml:"readinessProbe"`
		Resources       resources
		SecurityContext struct {
			AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
			ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
			Capabilities             struct{ Drop []string }
		} `yaml:"securityContext"`
		VolumeMounts []struct {
			Name      string
			MountPath string `yaml:"mountPath"`
			SubPath   string `yaml:"subPath"`
			ReadOnly  bool   `yaml:"readOnly"`
		} `yaml:"volumeMounts"`
	}
	probe struct {
		HTTPGet          struct{ Path, Port, Scheme string } `yaml:"httpGet"`
		PeriodSeconds    int                                 `yaml:"periodSeconds"`
		TimeoutSeconds   int                                 `yaml:"timeoutSeconds"`
		FailureThreshold int                                 `yaml:"failureThreshold"`
	}
	volume struct {
		Name      string
		ConfigMap struct{ Name string } `yaml:"configMap"`
		Secret    struct {
			SecretName  string `yaml:"secretName"`
			DefaultMode int    `yaml:"defaultMode"`
		}
	}
)

func strictYAML(t *testing.T, name, text string, into any) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// manifests are the objects of deploy/kubernetes/autosched.yaml by kind.
func manifests(t *testing.T) map[string]*manifest {
	t.Helper()
	out := map[string]*manifest{}
	for name, m := range objects(t, "kubernetes/autosched.yaml") {
		kind, _, _ := strings.Cut(name, "/")
		if out[kind] != nil {
			t.Fatalf("%s is there twice", kind)
		}
		out[kind] = m
	}
	if len(out) != 5 {
		t.Fatalf("there are %d objects, want 5", len(out))
	}
	return out
}

// objects are those of a file, by kind/name.
func objects(t *testing.T, file string) map[string]*manifest {
	t.Helper()
	versions := map[string]string{"ServiceAccount": "v1", "ConfigMap": "v1", "Service": "v1", "StatefulSet": "apps/v1",
		"NetworkPolicy": "networking.k8s.io/v1", "PodDisruptionBudget": "policy/v1"}
	out := map[string]*manifest{}
	d := yaml.NewDecoder(strings.NewReader(deployed(t, file)))
	d.KnownFields(true)
	for {
		m := &manifest{}
		if err := d.Decode(m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		name := m.Kind + "/" + m.Metadata.Name
		if versions[m.Kind] != m.APIVersion || out[name] != nil {
			t.Fatalf("%s of %s, or twice", name, m.APIVersion)
		}
		out[name] = m
	}
	return out
}

// TestManifestsAgree: names, labels, ports, volumes and times of the Kubernetes objects fit one
// another, the settings and the image.
func TestManifestsAgree(t *testing.T) {
	all := manifests(t)
	set := all["StatefulSet"].Spec
	pod := set.Template.Spec
	c := pod.Containers[0]
	matches := func(what string, want map[string]string) {
		t.Helper()
		for k, v := range want {
			if set.Template.Metadata.Labels[k] != v {
				t.Errorf("%s selects %s=%s, which the pod is not", what, k, v)
			}
		}
		if len(want) == 0 {
			t.Errorf("%s selects all pods", what)
		}
	}
	var ofService map[string]string
	if err := all["Service"].Spec.Selector.Decode(&ofService); err != nil {
		t.Fatal(err)
	}
	var ofSet labelSelector
	if err := set.Selector.Decode(&ofSet); err != nil {
		t.Fatal(err)
	}
	matches("the Service", ofService)
	matches("the StatefulSet", ofSet.MatchLabels)
	matches("the NetworkPolicy", all["NetworkPolicy"].Spec.PodSelector.MatchLabels)
	if set.Replicas != 1 || set.ServiceName != all["Service"].Metadata.Name ||
		pod.ServiceAccountName != all["ServiceAccount"].Metadata.Name {
		t.Errorf("replicas %d, service %q, account %q", set.Replicas, set.ServiceName, pod.ServiceAccountName)
	}

	// Ports: of the settings, the container, the service and the image.
	settings := settingsOf(t, all["ConfigMap"].Data["serve.yaml"])
	ports := map[string]string{}
	for _, p := range c.Ports {
		ports[p.Name] = strconv.Itoa(p.ContainerPort)
	}
	if ports["grpc"] != portOf(settings.listen) || ports["operations"] != portOf(settings.operations) {
		t.Errorf("ports %v, settings %s and %s", ports, settings.listen, settings.operations)
	}
	for _, p := range all["Service"].Spec.Ports {
		if ports[p.TargetPort] != strconv.Itoa(p.Port) {
			t.Errorf("port %s of the Service is %d, the container's %q is %s", p.Name, p.Port, p.TargetPort,
				ports[p.TargetPort])
		}
	}
	for _, in := range all["NetworkPolicy"].Spec.Ingress {
		for _, p := range in.Ports {
			if ports[p.Port] == "" {
				t.Errorf("the NetworkPolicy names port %q", p.Port)
			}
		}
	}
	image := dockerfile(t)
	if got, want := image["EXPOSE"], ports["grpc"]+" "+ports["operations"]; got != want {
		t.Errorf("the image exposes %s, want %s", got, want)
	}
	var cmd []string
	if err := json.Unmarshal([]byte(image["CMD"]), &cmd); err != nil {
		t.Fatal(err)
	}
	if why := clitest.Refusal(cmd); why != "" {
		t.Errorf("the image's CMD %v: %s", cmd, why)
	}
	rules, err := os.ReadFile("../../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	dir := regexp.MustCompile(`(?m)^RELEASE_DIR *\?= *(\S+)$`).FindSubmatch(rules)
	program := regexp.MustCompile(`-o \$\(RELEASE_DIR\)/(\S+)\$\$arch`).FindSubmatch(rules)
	if dir == nil || program == nil ||
		!strings.HasPrefix(image["COPY"], string(dir[1])+"/"+string(program[1])+"${TARGETARCH} ") {
		t.Errorf("the image has %s, make release writes %q/%q", image["COPY"], dir, program)
	}
	if user := strconv.Itoa(pod.SecurityContext.RunAsUser); image["USER"] != user+":"+user || user == "0" ||
		pod.SecurityContext.FSGroup != pod.SecurityContext.RunAsGroup {
		t.Errorf("the image runs as %s, the pod as %s", image["USER"], user)
	}
	if s := c.SecurityContext; !s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil ||
		*s.AllowPrivilegeEscalation || !pod.SecurityContext.RunAsNonRoot {
		t.Errorf("security context %+v", s)
	}
	if why := clitest.Refusal(c.Args); why != "" {
		t.Errorf("args %v: %s", c.Args, why)
	}
	if grace := time.Duration(pod.TerminationGracePeriodSeconds) * time.Second; grace <= settings.drain {
		t.Errorf("the pod is killed after %v, calls have %v to finish", grace, settings.drain)
	}
	volumes := []string{set.VolumeClaimTemplates[0].Metadata.Name}
	for _, v := range pod.Volumes {
		if v.ConfigMap.Name != "" && v.ConfigMap.Name != all["ConfigMap"].Metadata.Name {
			t.Errorf("volume %s is of ConfigMap %q", v.Name, v.ConfigMap.Name)
		}
		volumes = append(volumes, v.Name)
	}
	for _, m := range c.VolumeMounts {
		if !slices.Contains(volumes, m.Name) {
			t.Errorf("%s mounts volume %q", m.MountPath, m.Name)
		}
	}
}

// settingsOf are the options that a settings file gives.
func settingsOf(t *testing.T, text string) *serveOptions {
	t.Helper()
	path := filepath.Join(t.TempDir(), "serve.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, o := serveCommand()
	if err := cli.ReadSettings(path, cmd.Flags()); err != nil {
		t.Fatal(err)
	}
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	return o
}

func portOf(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

// dockerfile are the instructions of the Dockerfile, of which there is one each.
func dockerfile(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for line := range strings.Lines(deployed(t, "Dockerfile")) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		known := []string{"FROM", "ARG", "COPY", "USER", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT", "CMD"}
		if !slices.Contains(known, name) || out[name] != "" {
			t.Fatalf("Dockerfile: %s", line)
		}
		out[name] = rest
	}
	return out
}

// TestUnit: the systemd unit starts the service with settings that are correct, leaves it time to drain, and is
// accepted by systemd.
func TestUnit(t *testing.T) {
	unit := deployed(t, "autosched.service")
	value := func(key string) string {
		m := regexp.MustCompile(`(?m)^` + key + `=(.*)$`).FindStringSubmatch(unit)
		if m == nil {
			t.Fatalf("the unit has no %s", key)
		}
		return m[1]
	}
	words := strings.Fields(value("ExecStart"))
	if why := clitest.Refusal(words[1:]); why != "" {
		t.Errorf("ExecStart: %s", why)
	}
	o := settingsOf(t, deployed(t, "serve.yaml"))
	if want := "/var/lib/" + value("StateDirectory"); o.dir != want {
		t.Errorf("the service writes to %s, the unit lets it write to %s", o.dir, want)
	}
	stop, err := time.ParseDuration(value("TimeoutStopSec"))
	if err != nil || stop <= o.drain {
		t.Errorf("killed after %v (%v), calls have %v to finish", stop, err, o.drain)
	}
	// Lines that are commented out are settings for other hosts.
	public := regexp.MustCompile(`(?m)^(listen|operations):.*\n`).ReplaceAllString(deployed(t, "serve.yaml"), "")
	public = regexp.MustCompile(`(?m)^# ([a-z-]+: [^ ]+)$`).ReplaceAllString(public, "$1")
	if o := settingsOf(t, public); o.access.Files.Roles == "" || !strings.HasPrefix(o.listen, "0.0.0.0:") {
		t.Errorf("settings for other hosts: %+v", o)
	}

	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	file := filepath.Join(t.TempDir(), "autosched.service")
	here := strings.Replace(unit, words[0], os.Args[0], 1) // verify looks for the program
	here = regexp.MustCompile(`(?m)^(User|Group)=.*\n`).ReplaceAllString(here, "")
	if err := os.WriteFile(file, []byte(here), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", "--man=no", "--recursive-errors=no", file},
		{"security", "--offline=yes", "--threshold=20", "--no-pager", file}} {
		if out, err := exec.Command(analyze, args...).CombinedOutput(); err != nil ||
			args[0] == "verify" && len(bytes.TrimSpace(out)) > 0 {
			t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, out)
		}
	}
}

// TestNodesManifests: the objects of three nodes fit one another, the settings and the cluster file.
func TestNodesManifests(t *testing.T) {
	all := objects(t, "kubernetes/autosched-nodes.yaml")
	one := objects(t, "kubernetes/autosched.yaml")
	set, data := all["StatefulSet/autosched"].Spec, all["ConfigMap/autosched"].Data
	pod := set.Template.Spec
	c := pod.Containers[0]
	t.Setenv("HOSTNAME", "autosched-1")
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(data["cluster.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster, err := jet.ReadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	mounted := "/etc/autosched/cluster.yaml"
	if !strings.Contains(data["serve.yaml"], "cluster: "+mounted+"\n") {
		t.Errorf("serve.yaml does not name %s:\n%s", mounted, data["serve.yaml"])
	}
	settings := settingsOf(t, strings.Replace(data["serve.yaml"], mounted, file, 1))
	ports := map[string]string{}
	for _, p := range c.Ports {
		ports[p.Name] = strconv.Itoa(p.ContainerPort)
	}
	want := map[string]string{"grpc": portOf(settings.listen), "operations": portOf(settings.operations),
		"peer": portOf(cluster.Peer), "engine": portOf(cluster.Embedded.Cluster)}
	if !maps.Equal(ports, want) {
		t.Errorf("ports %v, want %v", ports, want)
	}
	nodes := all["Service/autosched-nodes"]
	for _, p := range append(nodes.Spec.Ports, all["Service/autosched"].Spec.Ports...) {
		if ports[p.TargetPort] != strconv.Itoa(p.Port) {
			t.Errorf("port %s of a Service is %d, the container's %q is %s", p.Name, p.Port, p.TargetPort,
				ports[p.TargetPort])
		}
	}
	if set.ServiceName != nodes.Metadata.Name || nodes.Spec.ClusterIP != "None" ||
		!nodes.Spec.PublishNotReadyAddresses || set.PodManagementPolicy != "Parallel" ||
		set.Replicas != cluster.Replicas {
		t.Errorf("service %q of %+v, %s, %d pods of %d replicas", set.ServiceName, nodes.Spec, set.PodManagementPolicy,
			set.Replicas, cluster.Replicas)
	}
	var routes []string
	for i := range set.Replicas {
		routes = append(routes, "autosched-"+strconv.Itoa(i)+"."+nodes.Metadata.Name+":"+ports["engine"])
	}
	if !slices.Equal(cluster.Embedded.Routes, routes) || cluster.Node != "autosched-1" ||
		cluster.Peer != "autosched-1."+nodes.Metadata.Name+":"+ports["peer"] {
		t.Errorf("%+v, routes %v, want %v", cluster, cluster.Embedded.Routes, routes)
	}
	labels := set.Template.Metadata.Labels
	affinity := pod.Affinity.PodAntiAffinity.Required
	budget := all["PodDisruptionBudget/autosched"].Spec
	var selected labelSelector
	if err := budget.Selector.Decode(&selected); err != nil {
		t.Fatal(err)
	}
	if len(affinity) != 1 || !maps.Equal(affinity[0].LabelSelector.MatchLabels, labels) ||
		affinity[0].TopologyKey != "kubernetes.io/hostname" || budget.MaxUnavailable != 1 ||
		!maps.Equal(selected.MatchLabels, labels) {
		t.Errorf("affinity %+v, budget %+v of %v", affinity, budget, selected)
	}
	mounts := map[string]bool{}
	for _, m := range c.VolumeMounts {
		mounts[m.MountPath] = true
	}
	if !mounts[cluster.Dir] || !mounts[mounted] || !mounts[filepath.Dir(cluster.TLS.Cert)] {
		t.Errorf("mounts %v of %+v", mounts, cluster)
	}
	policy := all["NetworkPolicy/autosched"].Spec
	for name, rules := range map[string]int{"ingress": len(policy.Ingress), "egress": len(policy.Egress)} {
		if rules < 2 {
			t.Errorf("%d rules of %s", rules, name)
		}
	}
	for _, to := range policy.Egress[0].Ports {
		if ports[to.Port] == "" {
			t.Errorf("egress to port %q", to.Port)
		}
	}
	alone := one["StatefulSet/autosched"].Spec.Template.Spec
	if pod.SecurityContext != alone.SecurityContext || !reflect.DeepEqual(c.SecurityContext,
		alone.Containers[0].SecurityContext) || c.Image != alone.Containers[0].Image {
		t.Error("a node runs with other rights than the service of one process, or as another program")
	}
}

// TestClusterFile: the file of a node that systemd starts is whole.
func TestClusterFile(t *testing.T) {
	c, err := jet.ReadConfig(filepath.Join(deployDir, "cluster.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if o := settingsOf(t, deployed(t, "serve.yaml")); c.Dir != o.dir {
		t.Errorf("a node writes to %s, the unit lets it write to %s", c.Dir, o.dir)
	}
}

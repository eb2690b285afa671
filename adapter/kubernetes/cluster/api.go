package cluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// API asks an API server for its versions and schemas, and for the rights of the account.
type API struct {
	client *http.Client
	base   string
}

// NewAPI returns the API of a cluster. It calls nothing.
func NewAPI(c *rest.Config) (*API, error) {
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, err
	}
	url, _, err := rest.DefaultServerUrlFor(c)
	if err != nil {
		return nil, err
	}
	return &API{client, strings.TrimSuffix(url.String(), "/")}, nil
}

// maxDocument is how long an answer may be, in bytes: the schemas of Kueue's group are 2 MB.
const maxDocument = 32 << 20

// Read reads a document in JSON.
func (a *API) Read(ctx context.Context, path string, into any) error {
	return a.call(ctx, http.MethodGet, path, nil, http.StatusOK, into)
}

func (a *API) call(ctx context.Context, method, path string, body []byte, code int, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Content-Type", "application/json")
	answer, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != code {
		return fmt.Errorf("%s: %s", path, answer.Status)
	}
	return json.NewDecoder(io.LimitReader(answer.Body, maxDocument)).Decode(into)
}

// Server returns the version of the API server, such as v1.35.4.
func (a *API) Server(ctx context.Context) (string, error) {
	var version struct{ GitVersion string }
	err := a.Read(ctx, "/version", &version)
	return version.GitVersion, err
}

// Version is the preferred version of a resource's group; of the core group it is v1.
func (a *API) Version(ctx context.Context, r schema.GroupResource) (string, error) {
	if r.Group == "" {
		return "v1", nil
	}
	var group struct {
		PreferredVersion struct {
			Version string
		}
	}
	if err := a.Read(ctx, "/apis/"+r.Group, &group); err != nil {
		return "", fmt.Errorf("%v is not served: %w", r, err)
	}
	return group.PreferredVersion.Version, nil
}

// Right is a right on a resource: on all objects, or on one by its name.
type Right struct {
	Verb string
	schema.GroupResource
	Namespace, Name string
}

// String names the right as kubectl auth can-i does.
func (r Right) String() string {
	out := r.Verb + " " + r.GroupResource.String()
	if r.Name != "" {
		out += "/" + r.Name
	}
	if r.Namespace != "" {
		out += " in " + r.Namespace
	}
	return out
}

// Allowed reports whether the account has a right.
func (a *API) Allowed(ctx context.Context, r Right) (bool, error) {
	body, err := json.Marshal(map[string]any{"apiVersion": "authorization.k8s.io/v1",
		"kind": "SelfSubjectAccessReview", "spec": map[string]any{"resourceAttributes": map[string]any{
			"verb": r.Verb, "group": r.Group, "resource": r.Resource, "namespace": r.Namespace, "name": r.Name}}})
	if err != nil {
		return false, err
	}
	var review struct{ Status struct{ Allowed bool } }
	err = a.call(ctx, http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body,
		http.StatusCreated, &review)
	return review.Status.Allowed, err
}

// Scheduler is a scheduler of Kubernetes.
type Scheduler struct {
	// Name is that of its model and of --scheduler.
	Name string
	// Queues, LocalQueues, Jobs and Pods are its resources; without a name where it has none. Configuration is the
	// ConfigMap of its text, and Namespace where it runs.
	Queues, LocalQueues, Jobs, Pods schema.GroupResource
	Namespace, Configuration        string
	// PodLabels and PodFields select the pods of its jobs. MayLackPods says that jobs are known without them.
	PodLabels, PodFields string
	MayLackPods          bool
}

// Nodes are the nodes of a cluster, and Leases where the active adapter is named.
var (
	Nodes      = schema.GroupResource{Resource: "nodes"}
	ConfigMaps = schema.GroupResource{Resource: "configmaps"}
	Leases     = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
)

// GPU is the resource of nodes and quotas that counts.
const GPU = "nvidia.com/gpu"

// LeaseName names the lease of the adapter.
const LeaseName = "autosched-kube"

// Schedulers are the ones that the adapter knows.
var Schedulers = []Scheduler{
	{Name: "kueue", Namespace: "kueue-system",
		Queues:      schema.GroupResource{Group: "kueue.x-k8s.io", Resource: "clusterqueues"},
		LocalQueues: schema.GroupResource{Group: "kueue.x-k8s.io", Resource: "localqueues"},
		Jobs:        schema.GroupResource{Group: "kueue.x-k8s.io", Resource: "workloads"},
		Pods:        schema.GroupResource{Resource: "pods"}, PodLabels: "kueue.x-k8s.io/podset", MayLackPods: true},
	{Name: "volcano", Namespace: "volcano-system", Configuration: "volcano-scheduler-configmap",
		Queues: schema.GroupResource{Group: "scheduling.volcano.sh", Resource: "queues"},
		Jobs:   schema.GroupResource{Group: "scheduling.volcano.sh", Resource: "podgroups"},
		Pods:   schema.GroupResource{Resource: "pods"}, PodFields: "spec.schedulerName=volcano"},
}

// Find returns a scheduler by its name.
func Find(name string) (Scheduler, error) {
	i := slices.IndexFunc(Schedulers, func(s Scheduler) bool { return s.Name == name })
	if i < 0 {
		return Scheduler{}, fmt.Errorf("%q is not kueue or volcano", cmp.Or(name, "nothing"))
	}
	return Schedulers[i], nil
}

// Watched are the resources whose objects become events.
func (s Scheduler) Watched() (out []schema.GroupResource) {
	for _, r := range []schema.GroupResource{s.Jobs, s.LocalQueues, s.Pods, Nodes} {
		if r.Resource != "" {
			out = append(out, r)
		}
	}
	return out
}

// ReadsOf are the rights to read a resource.
func ReadsOf(r schema.GroupResource) (out []Right) {
	for _, verb := range []string{"get", "list", "watch"} {
		out = append(out, Right{Verb: verb, GroupResource: r})
	}
	return out
}

// Reads are the rights without which the adapter observes nothing.
func (s Scheduler) Reads() (out []Right) {
	for _, r := range append(s.Watched(), s.Queues) {
		if r != s.Pods || !s.MayLackPods {
			out = append(out, ReadsOf(r)...)
		}
	}
	if s.Configuration != "" {
		out = append(out, Right{Verb: "get", GroupResource: ConfigMaps, Namespace: s.Namespace, Name: s.Configuration})
	}
	return out
}

// Writes are the rights to configure queues, by their names, and the scheduler's text.
func (s Scheduler) Writes(queues []string) (out []Right) {
	for _, name := range queues {
		out = append(out, Right{Verb: "patch", GroupResource: s.Queues, Name: name})
	}
	if s.Configuration != "" {
		out = append(out, Right{Verb: "patch", GroupResource: ConfigMaps, Namespace: s.Namespace,
			Name: s.Configuration})
	}
	return out
}

// Holds are the rights to hold the lease of a namespace.
func Holds(namespace string) (out []Right) {
	for _, verb := range []string{"get", "update"} {
		out = append(out, Right{Verb: verb, GroupResource: Leases, Namespace: namespace, Name: LeaseName})
	}
	return append(out, Right{Verb: "create", GroupResource: Leases, Namespace: namespace})
}

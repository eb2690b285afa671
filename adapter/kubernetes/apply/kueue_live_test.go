package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	pb "github.com/autosched/autosched/api/autosched/v1"

	"github.com/autosched/autosched/adapter"
	"github.com/autosched/autosched/adapter/kubernetes/cluster"
	"github.com/autosched/autosched/adapter/kubernetes/lease"
	"github.com/autosched/autosched/adapter/kubernetes/rig"
	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/space"
)

const queueText = `{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: %s}, spec: {
 cohortName: all, namespaceSelector: {}, resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: gpu,
  resources: [{name: nvidia.com/gpu, nominalQuota: %d, borrowingLimit: 8}]}]}]}}
---
`

const tunerText = `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: tuner}, rules: [
 {apiGroups: [kueue.x-k8s.io], resources: [clusterqueues], resourceNames: %s, verbs: %s},
 {apiGroups: [kueue.x-k8s.io], resources: [clusterqueues, cohorts], verbs: [list]},
 {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: tuner},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: tuner}, subjects: [{kind: User, name: tuner,
  apiGroup: rbac.authorization.k8s.io}]}
`

var kueueV1 = schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "clusterqueues"}

// liveQueues is a driver on a real API server with Kueue.
type liveQueues struct {
	t *testing.T
	r *rig.Rig
	o Options
}

func (l *liveQueues) open() *Driver {
	l.t.Helper()
	d, err := Open(l.t.Context(), l.o)
	if err != nil {
		l.t.Fatal(err)
	}
	return d
}

func (l *liveQueues) create(text string) {
	l.t.Helper()
	if err := l.r.Create(l.t.Context(), []byte(text)); err != nil {
		l.t.Fatal(err)
	}
}

func (l *liveQueues) get(queue string) *unstructured.Unstructured {
	l.t.Helper()
	o, err := l.r.Client("admin").Resource(kueueV1).Get(l.t.Context(), queue, metav1.GetOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	return o
}

func (l *liveQueues) has(queue, path, want string) {
	l.t.Helper()
	if got := text(at(l.get(queue).Object, path)); got != want {
		l.t.Errorf("%s %s is %s, want %s", queue, path, got, want)
	}
}

// edit merges a patch as a user.
func (l *liveQueues) edit(user, queue, patch string) {
	l.t.Helper()
	_, err := l.r.Client(user).Resource(kueueV1).Patch(l.t.Context(), queue, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{FieldManager: user})
	if err != nil {
		l.t.Fatal(err)
	}
}

// apply applies a configuration, and returns the acknowledgement, which must be of a state and have a text.
func (l *liveQueues) apply(d *Driver, c *pb.Configuration, want pb.Acknowledgement_State, said string) {
	l.t.Helper()
	got, err := d.Apply(l.t.Context(), c)
	ack := client.Outcome(c, got, err)
	if ack.GetState() != want || !strings.Contains(ack.GetError(), said) {
		l.t.Fatalf("revision %d: %v %s, want %v %s", c.GetRevision(), ack.GetState(), ack.GetError(), want, said)
	}
}

const liveQuota = "/spec/resourceGroups/0/flavors/0/resources/0/"

// TestLiveKueue: on the real API server with Kueue, all settings are applied and read back with the tuner's rights,
// and each fault leaves the cluster whole and is not acknowledged.
func TestLiveKueue(t *testing.T) {
	r := rig.Start(t, rig.Options{Kueue: true})
	l := &liveQueues{t: t, r: r}
	l.create("{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: gpu}}\n---\n" +
		fmt.Sprintf(queueText, "a", 40) + fmt.Sprintf(queueText, "b", 24) +
		fmt.Sprintf(tunerText, "[a, b]", "[get, patch]"))
	tuner, err := cluster.Open(r.Config("tuner"))
	if err != nil {
		t.Fatal(err)
	}
	var tuned []string
	for _, q := range []string{"a.", "b."} {
		for _, name := range kueueNames {
			if name != "fairSharing.weight" { // the rig's Kueue runs without
				tuned = append(tuned, q+name)
			}
		}
	}
	l.o = Options{Client: tuner, Config: r.Config("tuner"), Tuned: tuned, HandOver: []string{"*"},
		Scheduler: &Kueue{Mapping: byName{}}}
	whole := func(revision int64, values ...string) *pb.Configuration { return config(t, revision, values...) }

	o := l.o
	o.HandOver = nil
	t.Run("owned", func(t *testing.T) {
		l.t = t
		d, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		l.apply(d, whole(1, "a.queueingStrategy=StrictFIFO"), pb.Acknowledgement_FAILED, "belongs to another manager")
	})
	t.Run("settings", func(t *testing.T) {
		l.t = t
		d := l.open()
		values := []string{"a.queueingStrategy=StrictFIFO", "a.preemption.withinClusterQueue=LowerPriority",
			"a.preemption.reclaimWithinCohort=Any", "a.borrowingLimit=4", "a.lendingLimit=16",
			"b.queueingStrategy=StrictFIFO", "b.preemption.withinClusterQueue=LowerOrNewerEqualPriority",
			"b.preemption.reclaimWithinCohort=LowerPriority", "b.borrowingLimit=12",
			"b.lendingLimit=0"}
		l.apply(d, whole(2, values...), pb.Acknowledgement_APPLIED, "")
		for _, s := range values {
			id, want, _ := strings.Cut(s, "=")
			q, name, _ := strings.Cut(id, ".")
			path, err := l.o.Scheduler.(*Kueue).path(l.get(q), name)
			if err != nil {
				t.Fatal(err)
			}
			l.has(q, path, want)
			if got := managers(l.get(q), path); len(got) != 1 || got[0] != Manager {
				t.Errorf("%s is of %v", id, got)
			}
		}
		if d.Level() != Accepted {
			t.Error(d.Level())
		}
		version := l.get("a").GetGeneration()
		l.apply(l.open(), whole(2, values...), pb.Acknowledgement_APPLIED, "")
		if l.get("a").GetGeneration() != version {
			t.Error("written twice")
		}
		if req, news, _ := d.Look(t.Context()); req != nil {
			t.Error(news)
		}
	})
	t.Run("parameters", func(t *testing.T) {
		l.t = t
		o := l.o
		o.Scheduler, o.Tuned = NewKueue(), []string{"borrowingLimit", "queueingStrategy",
			"preemption.reclaimWithinCohort", "preemption.borrowWithinCohort.policy"}
		o.Evidence = Metrics(func(ctx context.Context) ([]byte, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.KueueMetrics(), nil)
			if err != nil {
				return nil, err
			}
			answer, err := http.DefaultClient.Do(req)
			if err != nil {
				return nil, err
			}
			defer answer.Body.Close()
			return io.ReadAll(answer.Body)
		})
		d, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		c := whole(2)
		c.Parameters, err = adapter.ToProto(space.Values{"borrowingLimit": space.Num(.2),
			"queueingStrategy": space.Text("StrictFIFO")})
		if err != nil {
			t.Fatal(err)
		}
		l.apply(d, c, pb.Acknowledgement_APPLIED, "")
		l.has("a", liveQuota+"borrowingLimit", "13")
		l.has("b", liveQuota+"borrowingLimit", "13")
		if d.Level() != Accepted { // the rig's Kueue runs without metrics.enableClusterQueueResources
			t.Error(d.Level())
		}
		// Kueue's own rule: borrowing does not preempt where queues do not reclaim.
		c.Revision++
		c.Parameters, err = adapter.ToProto(space.Values{"preemption.reclaimWithinCohort": space.Text("Never"),
			"preemption.borrowWithinCohort.policy": space.Text("LowerPriority")})
		if err != nil {
			t.Fatal(err)
		}
		d.o.Now = func() time.Time { return time.Now().Add(betweenPreemptions) }
		l.apply(d, c, pb.Acknowledgement_REJECTED, "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never")
	})
	t.Run("refused", func(t *testing.T) {
		l.t = t
		l.apply(l.open(), whole(3, "a.borrowingLimit=2", "b.queueingStrategy=Fastest"), pb.Acknowledgement_REJECTED,
			"Unsupported value")
		l.apply(l.open(), whole(3, "a.lendingLimit=few"), pb.Acknowledgement_REJECTED, "should match")
		l.has("a", liveQuota+"borrowingLimit", "13")
	})
	t.Run("person", func(t *testing.T) {
		l.t = t
		d := l.open()
		l.apply(d, whole(4, "a.queueingStrategy=StrictFIFO", "a.borrowingLimit=4"), pb.Acknowledgement_APPLIED, "")
		l.edit("person", "a", `{"spec": {"queueingStrategy": "BestEffortFIFO"}}`)
		req, news, _ := d.Look(t.Context())
		if got, _ := adapter.FromProto(req.GetAcknowledgement().GetEffectiveParameters()); len(got) == 0 ||
			!strings.Contains(news, "spec.queueingStrategy by person") {
			t.Errorf("%v: %s", req, news)
		}
		l.apply(d, whole(5, "a.queueingStrategy=StrictFIFO", "a.borrowingLimit=2"), pb.Acknowledgement_FAILED,
			"changed by someone else")
		l.has("a", strategy, "BestEffortFIFO")
		o := l.o
		o.TakeOver = true
		d, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		l.apply(d, whole(5, "a.queueingStrategy=StrictFIFO", "a.borrowingLimit=2"), pb.Acknowledgement_APPLIED, "")
	})
	t.Run("gitops", func(t *testing.T) {
		l.t = t
		// It applies the same value, and so owns the field, too.
		_, err := r.Client("gitops").Resource(kueueV1).Apply(t.Context(), "a", &unstructured.Unstructured{
			Object: map[string]any{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue",
				"metadata": map[string]any{"name": "a"}, "spec": map[string]any{"queueingStrategy": "StrictFIFO"}}},
			metav1.ApplyOptions{FieldManager: "argocd"})
		if err != nil {
			t.Fatal(err)
		}
		l.apply(l.open(), whole(6, "a.queueingStrategy=BestEffortFIFO"), pb.Acknowledgement_FAILED, "argocd's")
		// Another manager comes between the look and the request.
		d := l.open()
		live, err := d.read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		rev := revision{number: 7, at: time.Now()}
		step := func(queue, path string, from, to any) Step {
			o, _ := live.find(clusterQueues, queue)
			return Step{Object: o, Patch: isListed(path), Changes: []Change{{Field{o, path}, from, to}}}
		}
		l.edit("person", "b", `{"spec": {"queueingStrategy": "BestEffortFIFO"}}`)
		err = d.request(t.Context(), live, step("b", strategy, "StrictFIFO", "StrictFIFO"), rev, false)
		if !errors.Is(err, ErrOwned) || !strings.Contains(err.Error(), `conflict with "person"`) {
			t.Error(err)
		}
		patch := strings.ReplaceAll(string(encode(at(l.get("b").Object, "/spec/resourceGroups"))),
			`"lendingLimit":"0"`, `"lendingLimit":"2"`)
		l.edit("person", "b", `{"spec": {"resourceGroups": `+patch+`}}`)
		err = d.request(t.Context(), live, step("b", liveQuota+"lendingLimit", "0", "4"), rev, false)
		if !errors.Is(err, ErrChanged) {
			t.Error(err)
		}
		l.has("b", liveQuota+"lendingLimit", "2")
	})
	t.Run("restore", func(t *testing.T) {
		l.t = t
		l.o.TakeOver = true
		d := l.open()
		if err := d.Release(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		l.o.TakeOver = false
		l.has("a", strategy, "BestEffortFIFO")
		l.has("a", within, "Never")
		l.has("a", liveQuota+"lendingLimit", "")
		l.has("b", liveQuota+"lendingLimit", "")
		for _, e := range l.get("a").GetManagedFields() {
			if e.Manager == Manager {
				t.Errorf("still owns %s", e.FieldsV1.GetRawString())
			}
		}
		l.apply(l.open(), whole(8, "a.queueingStrategy=StrictFIFO"), pb.Acknowledgement_FAILED,
			"an operator took its fields back")
	})
	t.Run("rights", func(t *testing.T) {
		l.t = t
		l.o.TakeOver = true
		defer func() { l.o.TakeOver = false }()
		l.apply(l.open(), whole(9, "a.queueingStrategy=StrictFIFO", "b.queueingStrategy=StrictFIFO"),
			pb.Acknowledgement_APPLIED, "")
		rules := func(names, verbs string) {
			l.t.Helper()
			_, err := r.Client("admin").Resource(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io",
				Version: "v1", Resource: "clusterroles"}).Patch(t.Context(), "tuner", types.JSONPatchType,
				[]byte(`[{"op": "replace", "path": "/rules/0/resourceNames", "value": `+names+`},
					{"op": "replace", "path": "/rules/0/verbs", "value": `+verbs+`}]`), metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
		}
		allowed := func(verb, queue string) bool {
			body := map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
				"spec": map[string]any{"resourceAttributes": map[string]any{"group": "kueue.x-k8s.io",
					"resource": "clusterqueues", "name": queue, "verb": verb}}}
			review, err := tuner.Resource(schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1",
				Resource: "selfsubjectaccessreviews"}).Create(t.Context(), &unstructured.Unstructured{Object: body},
				metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return at(review.Object, "/status/allowed") == true
		}
		d := l.open()
		rules(`["a", "b"]`, `["get"]`)
		for allowed("patch", "a") {
			time.Sleep(10 * time.Millisecond) // the authorizer watches the roles
		}
		both := whole(10, "a.queueingStrategy=BestEffortFIFO", "b.borrowingLimit=2")
		l.apply(d, both, pb.Acknowledgement_FAILED, `cannot patch resource "clusterqueues"`)
		rules(`["a", "b"]`, `["get", "patch"]`)
		for !allowed("patch", "a") {
			time.Sleep(10 * time.Millisecond)
		}
		l.apply(d, both, pb.Acknowledgement_APPLIED, "")
	})
	t.Run("killed", func(t *testing.T) {
		l.t = t
		// The API server dies after each of the requests in turn.
		values := [2][]string{
			{"a.queueingStrategy=StrictFIFO", "a.lendingLimit=16", "b.lendingLimit=24",
				"b.queueingStrategy=StrictFIFO"},
			{"a.queueingStrategy=BestEffortFIFO", "a.lendingLimit=32", "b.lendingLimit=8",
				"b.queueingStrategy=BestEffortFIFO"}}
		l.apply(l.open(), whole(20, values[1]...), pb.Acknowledgement_APPLIED, "")
		kills := []int{3}
		if os.Getenv("AUTOSCHED_LONG") == "1" {
			kills = []int{1, 2, 3, 4}
		}
		for i, kill := range kills {
			o := l.o
			config := r.Config("tuner")
			cut := &cutter{after: kill, cut: func() { r.StopAPI() }}
			config.Wrap(func(next http.RoundTripper) http.RoundTripper { cut.next = next; return cut })
			if o.Client, err = cluster.Open(config); err != nil {
				t.Fatal(err)
			}
			o.Timeout = 5 * time.Second
			d, err := Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			c := whole(int64(21+i), values[i%2]...)
			l.apply(d, c, pb.Acknowledgement_FAILED, "could not be put back")
			if err := r.StartAPI(t.Context()); err != nil {
				t.Fatal(err)
			}
			sum := 0
			for _, q := range []string{"a", "b"} {
				var n int
				_, _ = fmt.Sscan(text(at(l.get(q).Object, liveQuota+"lendingLimit")), &n)
				sum += n
			}
			if sum > 40 {
				t.Errorf("%d GPUs may be lent of 40", sum)
			}
			l.apply(l.open(), c, pb.Acknowledgement_APPLIED, "")
			for _, s := range values[i%2] {
				id, want, _ := strings.Cut(s, "=")
				q, name, _ := strings.Cut(id, ".")
				path, err := l.o.Scheduler.(*Kueue).path(l.get(q), name)
				if err != nil {
					t.Fatal(err)
				}
				l.has(q, path, want)
			}
		}
	})
	t.Run("lease", func(t *testing.T) {
		l.t = t
		o := l.o
		config := r.Config("tuner")
		until := time.Now().Add(time.Hour)
		lost := &cutter{dry: true, after: 1, cut: func() { until = time.Now() }}
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { lost.next = next; return lost })
		if o.Client, err = cluster.Open(config); err != nil {
			t.Fatal(err)
		}
		o.Until = func() time.Time { return until }
		d, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		_ = lease.Run(t.Context(), lease.Options{Client: tuner, Namespace: "default", Name: "autosched-kube"},
			func(ctx context.Context, held *lease.Lease) error {
				d := l.open()
				d.o.Until = held.Until
				l.apply(d, whole(29, "a.borrowingLimit=6"), pb.Acknowledgement_APPLIED, "")
				return nil
			})
		leases := r.Client("admin").Resource(schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1",
			Resource: "leases"}).Namespace("default")
		given, err := leases.Get(t.Context(), "autosched-kube", metav1.GetOptions{})
		if err != nil || at(given.Object, "/spec/holderIdentity") != "" {
			t.Errorf("%v, %v", given, err)
		}
		before := l.get("a").GetGeneration()
		l.apply(d, whole(30, "a.borrowingLimit=3"), pb.Acknowledgement_FAILED, ErrLost.Error())
		if l.get("a").GetGeneration() != before {
			t.Error("written without the lease")
		}
	})
	t.Run("lacking", func(t *testing.T) {
		l.t = t
		d := l.open()
		definitions := r.Client("admin").Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io",
			Version: "v1", Resource: "customresourcedefinitions"})
		o, err := definitions.Get(t.Context(), "clusterqueues.kueue.x-k8s.io", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var ops []operation
		versions, _ := at(o.Object, "/spec/versions").([]any)
		for i := range versions {
			base := Pointer("spec", "versions", fmt.Sprint(i), "schema", "openAPIV3Schema", "properties", "spec",
				"properties", "queueingStrategy")
			if at(o.Object, base) != nil {
				ops = append(ops, operation{"remove", base, nil})
			}
		}
		if _, err := definitions.Patch(t.Context(), o.GetName(), types.JSONPatchType, encode(ops),
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		f := Field{Object{Resource: kueueV1, Name: "a"}, strategy}
		for has(t.Context(), d.api, f, "ClusterQueue") == nil {
			time.Sleep(10 * time.Millisecond) // the schema is published a while later
		}
		l.apply(d, whole(40, "a.borrowingLimit=5", "a.queueingStrategy=StrictFIFO"), pb.Acknowledgement_FAILED,
			"has no such field")
		if _, err := Open(t.Context(), l.o); err == nil || !strings.Contains(err.Error(), "has no such field") {
			t.Error(err)
		}
	})
}

// cutter calls a function after a number of writes, or of dry runs.
type cutter struct {
	next  http.RoundTripper
	dry   bool
	after int
	cut   func()
	n     int
}

func (c *cutter) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(req)
	if req.Method == http.MethodPatch && (req.URL.Query().Get("dryRun") != "") == c.dry {
		if c.n++; c.n == c.after {
			c.cut()
		}
	}
	return resp, err
}

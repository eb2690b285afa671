package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/autosched/autosched/client"
)

// queues returns two queues of Kueue of 32 GPUs in one cohort.
func queues(strategy, preemption string) []byte {
	text := "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: gpu}}\n"
	for i := range 2 {
		text += fmt.Sprintf(`---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: tenant-%[1]d}, spec: {cohortName: all,
 namespaceSelector: {}, queueingStrategy: %[2]s, preemption: {withinClusterQueue: %[3]s, reclaimWithinCohort: %[3]s},
 resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: gpu,
  resources: [{name: nvidia.com/gpu, nominalQuota: 32}]}]}]}}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: tenant-%[1]d, namespace: default},
 spec: {clusterQueue: tenant-%[1]d}}
`, i, strategy, preemption)
	}
	return []byte(text)
}

// most returns the largest number of GPUs that jobs held at a time.
func most(rows []Row) int {
	type change struct {
		at   time.Duration
		gpus int
	}
	var all []change
	for _, r := range rows {
		for _, s := range r.Stays {
			all = append(all, change{s.Start, r.Pods * r.GPUs}, change{s.End, -r.Pods * r.GPUs})
		}
	}
	slices.SortFunc(all, func(a, b change) int { return int(a.at - b.at) })
	held, top := 0, 0
	for _, c := range all {
		held += c.gpus
		top = max(top, held)
	}
	return top
}

// TestLiveKueue: Kueue admits within its quotas, evicts for a job of higher priority, and the evicted job runs again;
// the API server is killed on the way.
func TestLiveKueue(t *testing.T) {
	began := time.Now()
	r := Start(t, Options{Kueue: true})
	t.Logf("ready in %v", time.Since(began))
	ctx := t.Context()
	if err := r.Create(ctx, queues("BestEffortFIFO", "LowerPriority")); err != nil {
		t.Fatal(err)
	}
	jobs := []Job{
		{Name: "wide", Queue: "tenant-0", Pods: 8, GPUs: 8, Run: 6 * time.Second},
		{Name: "small", At: 100 * time.Millisecond, Queue: "tenant-1", Pods: 1, GPUs: 8, Run: time.Second},
		{Name: "urgent", At: 2 * time.Second, Queue: "tenant-0", Priority: 10, Pods: 1, GPUs: 8, Run: 2 * time.Second},
	}
	rows, err := Driver{Client: r.Client("admin"), Kueue: true, Prefix: "one-"}.Run(ctx, jobs)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(rows[0].Stays); n != 2 {
		t.Errorf("the wide job was evicted %d times", n-1)
	}
	if again := rows[0].Stays[len(rows[0].Stays)-1].Start; again < rows[1].End() || again < rows[2].End() {
		t.Errorf("out of order: %+v", rows)
	}
	if top := most(rows); top > 64 {
		t.Errorf("%d of 64 GPUs are held", top)
	}
	var text strings.Builder
	if err := get(ctx, http.DefaultClient, r.KueueMetrics(), &text); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), `kueue_evicted_workloads_total{cluster_queue="tenant-0"`) {
		t.Error("no metric of the eviction")
	}
	list, err := r.Export(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var saved struct{ Items []map[string]any }
	if err := json.Unmarshal(list, &saved); err != nil || len(saved.Items) != 1+2+2+3+8 {
		t.Errorf("%d objects are saved: %v", len(saved.Items), err)
	}

	// What a user may do is up to roles alone, and the objects outlive the server.
	r.StopAPI()
	if err := r.StartAPI(ctx); err != nil {
		t.Fatal(err)
	}
	jobsOf := r.Client("person").Resource(workloads).Namespace(namespace)
	if _, err := jobsOf.Get(ctx, "one-wide", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	as, err := dynamic.NewForConfig(r.As("system:serviceaccount:default:nobody"))
	if err != nil {
		t.Fatal(err)
	}
	for name, client := range map[string]dynamic.Interface{"reader": r.Client("reader"), "a service account": as} {
		if _, err := client.Resource(nodes).List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("%s lists nodes: %v", name, err)
		}
	}
}

// TestLiveVolcano: Volcano binds whole gangs to nodes that have room, by the configuration in force.
func TestLiveVolcano(t *testing.T) {
	r := Start(t, Options{Volcano: true})
	ctx := t.Context()
	if err := r.Create(ctx, []byte(`{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue,
 metadata: {name: tenant-0}, spec: {weight: 1, reclaimable: true}}`)); err != nil {
		t.Fatal(err)
	}
	jobs := []Job{{Name: "first", Queue: "tenant-0", Pods: 1, GPUs: 1, Run: 8 * time.Second}}
	for i := range 4 {
		jobs = append(jobs, Job{Name: fmt.Sprint("gang", i), At: 500 * time.Millisecond, Queue: "tenant-0",
			Pods: 2, GPUs: 8, Run: 2 * time.Second})
	}
	jobs = append(jobs, Job{Name: "last", At: time.Second, Queue: "tenant-0", Pods: 1, GPUs: 1, Run: time.Second})
	rows, err := Driver{Client: r.Client("admin")}.Run(ctx, jobs)
	if err != nil {
		t.Fatal(err)
	}
	if top := most(rows); top > 64 {
		t.Errorf("%d of 64 GPUs are held", top)
	}
	// Seven nodes are left for four gangs of two.
	waited := 0
	for _, row := range rows[1:5] {
		if row.Stays[0].Start-row.Submit > 2*time.Second {
			waited++
		}
	}
	if waited != 1 {
		t.Errorf("%d of four gangs waited for another: %+v", waited, rows)
	}
	var text strings.Builder
	if err := get(ctx, http.DefaultClient, r.VolcanoMetrics(), &text); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "volcano_queue_") {
		t.Error("no metrics of queues")
	}

	// A text is in force within a session, and a text that is not one changes nothing.
	if err := r.SetConf(strings.Replace(DefaultConf, "name: drf", "name: none-such", 1)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		log, err := os.ReadFile(filepath.Join(r.o.Dir, "vc-scheduler.log"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(log), "none-such") {
			break
		}
		if !client.Sleep(ctx, pollInterval) {
			t.Fatal("the scheduler does not take up its configuration")
		}
	}
	if err := get(ctx, http.DefaultClient, r.VolcanoMetrics(), io.Discard); err != nil {
		t.Error(err)
	}
}

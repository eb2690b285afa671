package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/autosched/autosched/client"
)

// A Driver submits jobs and simulates the programs that run them. It changes nothing that a scheduler decides.
type Driver struct {
	Client dynamic.Interface
	// Kueue's jobs are Workloads, which run while they are admitted. Volcano's are a PodGroup and Pods, which a kubelet
	// that is simulated runs once they are bound to a node.
	Kueue bool
	// Prefix comes before the jobs' names, which are unique in a cluster.
	Prefix string
}

// Run submits the jobs at their times and returns once all have finished, in the order of the jobs.
func (d Driver) Run(ctx context.Context, jobs []Job) ([]Row, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	seen := map[string]chan watch.Event{}
	rows := make([]Row, len(jobs))
	for i, j := range jobs {
		j.Name = d.Prefix + j.Name
		if seen[j.Name] != nil {
			return nil, fmt.Errorf("rig: two jobs are called %s", j.Name)
		}
		seen[j.Name] = make(chan watch.Event, 1000)
		rows[i].Job = j
	}
	which := pods
	if d.Kueue {
		which = workloads
	}
	watched := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		if err := d.watch(ctx, which, seen, watched); err != nil && ctx.Err() == nil {
			cancel(err)
		}
	})
	select {
	case <-ctx.Done():
	case <-watched:
	}
	began := time.Now()
	var running sync.WaitGroup
	for i := range rows {
		running.Go(func() {
			row := &rows[i]
			since := func() time.Duration { return time.Since(began) }
			run := &run{d: d, job: row.Job, events: seen[row.Name], since: since}
			if !client.Sleep(ctx, row.At) {
				return
			}
			row.Submit = run.since()
			var err error
			if d.Kueue {
				err = run.kueue(ctx)
			} else {
				err = run.volcano(ctx)
			}
			row.Stays = run.stays
			if err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("rig: job %s: %w", row.Name, err))
			}
		})
	}
	running.Wait()
	err := context.Cause(ctx)
	cancel(nil)
	all.Wait()
	for i := range rows {
		rows[i].Name = strings.TrimPrefix(rows[i].Name, d.Prefix)
	}
	return rows, err
}

const label = "rig.autosched.dev/job"

// watch passes on all that happens to objects, each to the channel of its job, and closes ready once nothing is missed.
func (d Driver) watch(ctx context.Context, which schema.GroupVersionResource, to map[string]chan watch.Event,
	ready chan struct{}) error {
	send := func(e watch.Event, o *unstructured.Unstructured) {
		if c := to[o.GetLabels()[label]]; c != nil {
			select {
			case c <- e:
			case <-ctx.Done():
			}
		}
	}
	objects := d.Client.Resource(which).Namespace(namespace)
	for ctx.Err() == nil {
		list, err := objects.List(ctx, metav1.ListOptions{LabelSelector: label})
		if err != nil {
			return err
		}
		for i := range list.Items {
			send(watch.Event{Type: watch.Modified, Object: &list.Items[i]}, &list.Items[i])
		}
		w, err := objects.Watch(ctx, metav1.ListOptions{LabelSelector: label,
			ResourceVersion: list.GetResourceVersion()})
		if err != nil {
			return err
		}
		if ready != nil {
			close(ready)
			ready = nil
		}
		for e := range w.ResultChan() {
			if o, ok := e.Object.(*unstructured.Unstructured); ok && e.Type != watch.Error {
				send(e, o)
			}
		}
	}
	return ctx.Err()
}

// A run is that of one job.
type run struct {
	d      Driver
	job    Job
	events chan watch.Event
	since  func() time.Duration
	stays  []Stay
}

func (r *run) meta(name string, annotations map[string]any) map[string]any {
	m := map[string]any{"name": name, "namespace": namespace, "labels": map[string]any{label: r.job.Name}}
	if annotations != nil {
		m["annotations"] = annotations
	}
	return m
}

// podSpec is that of each pod, with further requests.
func (r *run) podSpec(more map[string]any) map[string]any {
	amount := map[string]any{"nvidia.com/gpu": fmt.Sprint(r.job.GPUs)}
	maps.Copy(amount, more)
	return map[string]any{"restartPolicy": "Never", "terminationGracePeriodSeconds": int64(0),
		"containers": []any{map[string]any{"name": "main", "image": "none",
			"resources": map[string]any{"requests": amount, "limits": maps.Clone(amount)}}}}
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }

func condition(o map[string]any, kind, status, reason, message string) map[string]any {
	generation, _, _ := unstructured.NestedInt64(o, "metadata", "generation")
	return map[string]any{"type": kind, "status": status, "reason": reason, "message": message,
		"lastTransitionTime": now(), "observedGeneration": generation}
}

// kueue creates the job's Workload and, as the controller of a job does, finishes it or, after an eviction, gives its
// reservation back.
func (r *run) kueue(ctx context.Context) error {
	objects := r.d.Client.Resource(workloads).Namespace(namespace)
	if _, err := objects.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": workloads.GroupVersion().String(), "kind": "Workload", "metadata": r.meta(r.job.Name, nil),
		"spec": map[string]any{"queueName": r.job.Queue, "active": true, "priority": int64(r.job.Priority),
			"podSets": []any{map[string]any{"name": "main", "count": int64(r.job.Pods),
				"template": map[string]any{"metadata": map[string]any{}, "spec": r.podSpec(nil)}}}},
	}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	var over <-chan time.Time // the end of the run while it is admitted
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-over:
			finished := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": workloads.GroupVersion().String(), "kind": "Workload",
				"metadata": map[string]any{"name": r.job.Name, "namespace": namespace},
				"status": map[string]any{"conditions": []any{
					condition(nil, "Finished", "True", "Succeeded", "The job has finished")}}}}
			if _, err := objects.ApplyStatus(ctx, r.job.Name, finished,
				metav1.ApplyOptions{FieldManager: "driver", Force: true}); err != nil {
				return err
			}
			r.stays[len(r.stays)-1].End = r.since()
			return nil
		case e := <-r.events:
			o := e.Object.(*unstructured.Unstructured)
			if e.Type == watch.Deleted {
				return errors.New("was deleted")
			}
			evicted := conditionIs(o, "Evicted")
			switch {
			case over == nil && conditionIs(o, "Admitted") && !evicted:
				over = time.After(r.job.Run)
				r.stays = append(r.stays, Stay{Start: r.since()})
			case over != nil && evicted && conditionIs(o, "QuotaReserved"):
				if err := giveBack(ctx, objects, o); apierrors.IsConflict(err) {
					continue // a newer one comes
				} else if err != nil {
					return err
				}
				over = nil
				r.stays[len(r.stays)-1].End = r.since()
			}
		}
	}
}

// giveBack takes the quota from a Workload that is evicted, which queues it again.
func giveBack(ctx context.Context, objects dynamic.ResourceInterface, o *unstructured.Unstructured) error {
	list, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	if err != nil {
		return err
	}
	var kept []any
	for _, c := range list {
		switch kind := c.(map[string]any)["type"]; kind {
		case "QuotaReserved", "Admitted", "Requeued":
		default:
			kept = append(kept, c)
		}
	}
	kept = append(kept, condition(o.Object, "QuotaReserved", "False", "Pending", "The job was stopped"),
		condition(o.Object, "Admitted", "False", "NoReservation", "The workload has no reservation"),
		condition(o.Object, "Requeued", "True", "Preempted", "The job was stopped"))
	if err := unstructured.SetNestedSlice(o.Object, kept, "status", "conditions"); err != nil {
		return err
	}
	unstructured.RemoveNestedField(o.Object, "status", "admission")
	_, err = objects.UpdateStatus(ctx, o, metav1.UpdateOptions{})
	return err
}

// volcano creates the job's PodGroup and Pods, simulates the kubelet of the bound ones, and creates all pods again
// where one is evicted.
func (r *run) volcano(ctx context.Context) error {
	class := map[string]any{}
	if r.job.Priority > 0 {
		class["priorityClassName"] = fmt.Sprintf("p%d", r.job.Priority)
	}
	spec := map[string]any{"queue": r.job.Queue, "minMember": int64(r.job.Pods),
		"minResources": map[string]any{"nvidia.com/gpu": fmt.Sprint(r.job.Pods * r.job.GPUs)}}
	maps.Copy(spec, class)
	if _, err := r.d.Client.Resource(podGroups).Namespace(namespace).Create(ctx, &unstructured.Unstructured{
		Object: map[string]any{"apiVersion": podGroups.GroupVersion().String(), "kind": "PodGroup",
			"metadata": r.meta(r.job.Name, nil), "spec": spec}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	for try := 0; ; try++ {
		done, err := r.gang(ctx, try, class)
		if err != nil || done {
			return err
		}
	}
}

// gang runs the job's pods once and reports whether they came to their end; no pod is left otherwise.
func (r *run) gang(ctx context.Context, try int, class map[string]any) (bool, error) {
	objects := r.d.Client.Resource(pods).Namespace(namespace)
	phase := map[string]string{} // of the pods that are there
	for i := range r.job.Pods {
		name := fmt.Sprintf("%s-%d-%d", r.job.Name, try, i)
		// Volcano spreads jobs by the share of CPUs and memory that is taken.
		spec := r.podSpec(map[string]any{"cpu": fmt.Sprint(8 * r.job.GPUs),
			"memory": fmt.Sprintf("%dGi", 64*r.job.GPUs)})
		maps.Copy(spec, class)
		spec["schedulerName"] = "volcano"
		if _, err := objects.Create(ctx, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod",
			"metadata": r.meta(name, map[string]any{"scheduling.k8s.io/group-name": r.job.Name}), "spec": spec,
		}}, metav1.CreateOptions{}); err != nil {
			return false, err
		}
		phase[name] = "Pending"
	}
	began := map[string]string{} // when each pod that is bound did
	over := make(chan string, r.job.Pods)
	evicted, held := false, false
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case name := <-over:
			if err := r.succeed(ctx, name, began[name]); err != nil {
				return false, err
			}
		case e := <-r.events:
			o := e.Object.(*unstructured.Unstructured)
			name := o.GetName()
			if phase[name] == "" {
				continue // of an earlier gang
			}
			if e.Type == watch.Deleted {
				delete(phase, name)
				if held {
					r.stays[len(r.stays)-1].End = r.since()
				}
				for other := range phase {
					err := objects.Delete(ctx, other, metav1.DeleteOptions{})
					if err != nil && !apierrors.IsNotFound(err) {
						return false, err
					}
				}
				if len(phase) == 0 {
					return false, nil
				}
				evicted, held = true, false
				continue
			}
			phase[name], _, _ = unstructured.NestedString(o.Object, "status", "phase")
			node, _, _ := unstructured.NestedString(o.Object, "spec", "nodeName")
			if node != "" && began[name] == "" && !evicted {
				began[name] = now()
				time.AfterFunc(r.job.Run, func() { over <- name })
				if err := r.setPod(ctx, name, map[string]any{"phase": "Running", "startTime": began[name],
					"conditions": []any{condition(nil, "Ready", "True", "Started", "")}}); err != nil {
					return false, err
				}
			}
			switch count := phases(phase); {
			case evicted:
			case !held && count["Running"] == r.job.Pods:
				held = true
				r.stays = append(r.stays, Stay{Start: r.since()})
			case held && count["Succeeded"] == r.job.Pods:
				r.stays[len(r.stays)-1].End = r.since()
				return true, nil
			}
		}
	}
}

func phases(of map[string]string) map[string]int {
	n := map[string]int{}
	for _, phase := range of {
		n[phase]++
	}
	return n
}

func (r *run) succeed(ctx context.Context, pod, began string) error {
	end := map[string]any{"exitCode": int64(0), "reason": "Completed", "startedAt": began, "finishedAt": now()}
	return r.setPod(ctx, pod, map[string]any{"phase": "Succeeded",
		"conditions": []any{condition(nil, "Ready", "False", "PodCompleted", "")},
		"containerStatuses": []any{map[string]any{"name": "main", "image": "none", "imageID": "none", "ready": false,
			"restartCount": int64(0), "state": map[string]any{"terminated": end}}}})
}

// setPod changes a pod's status; one that was deleted meanwhile has none.
func (r *run) setPod(ctx context.Context, pod string, status map[string]any) error {
	text, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = r.d.Client.Resource(pods).Namespace(namespace).Patch(ctx, pod, types.StrategicMergePatchType, text,
		metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

package apply

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/autosched/autosched/space"
)

// Setting is a setting of a queue, by the name of the scheduler's field. A value that is empty is absent.
type Setting struct{ Queue, Name, Value string }

// Mapping maps the parameters of a scheduler to settings of its queues, and back. Queues are objects as the API server
// has them.
type Mapping interface {
	// Settings returns the settings that parameters stand for. Parameters that are not of queues have none.
	Settings(values space.Values, queues []map[string]any) ([]Setting, error)
	// Values returns the values of parameters of queues by their settings. It is an error if queues differ that share
	// one.
	Values(tuned []string, settings []Setting, queues []map[string]any) (space.Values, error)
	// Names are the names of settings.
	Names() []string
}

// Kueue are ClusterQueues.
type Kueue struct {
	Mapping
	// Queues are the names of the ClusterQueues.
	Queues []string
	// GPU is the name of the resource whose quotas are set; nvidia.com/gpu if empty.
	GPU string
}

var clusterQueues = schema.GroupVersionResource{Group: "kueue.x-k8s.io", Resource: "clusterqueues"}

// Objects implements [Scheduler].
func (k *Kueue) Objects() []Object { return objects(clusterQueues, k.Queues) }

func objects(r schema.GroupVersionResource, names []string) []Object {
	var out []Object
	for _, name := range names {
		out = append(out, Object{Resource: r, Name: name})
	}
	return out
}

// quotas are the settings that are quantities of a resource, in lists.
var quotas = []string{"nominalQuota", "borrowingLimit", "lendingLimit"}

// path is where an object has a setting.
func (k *Kueue) path(o *unstructured.Unstructured, name string) (string, error) {
	if !slices.Contains(quotas, name) {
		return Pointer(append([]string{"spec"}, strings.Split(name, ".")...)...), nil
	}
	var found []string
	groups, _ := at(o.Object, "/spec/resourceGroups").([]any)
	for i, g := range groups {
		flavors, _ := at(g, "/flavors").([]any)
		for j, f := range flavors {
			resources, _ := at(f, "/resources").([]any)
			for n, r := range resources {
				if at(r, "/name") == cmp.Or(k.GPU, "nvidia.com/gpu") {
					found = append(found, Pointer("spec", "resourceGroups", strconv.Itoa(i), "flavors", strconv.Itoa(j),
						"resources", strconv.Itoa(n), name))
				}
			}
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%s: %s: %d flavors have %s, not one", o.GetName(), name, len(found),
			cmp.Or(k.GPU, "nvidia.com/gpu"))
	}
	return found[0], nil
}

// Fields implements [Scheduler].
func (k *Kueue) Fields(values space.Values, live Live) (map[Field]any, error) {
	settings, err := k.Settings(values, all(live, k.Objects()))
	if err != nil {
		return nil, err
	}
	return fieldsOfQueues(settings, live, k.path, func(name string) bool {
		return name == "preemption.borrowWithinCohort.maxPriorityThreshold"
	})
}

// fieldsOfQueues places settings in their objects. Those that whole says are whole numbers of the schema.
func fieldsOfQueues(settings []Setting, live Live, path func(*unstructured.Unstructured, string) (string, error),
	whole func(name string) bool) (map[Field]any, error) {
	out := map[Field]any{}
	for _, s := range settings {
		name, o := queueOf(live, s.Queue)
		if o == nil {
			return nil, fmt.Errorf("%s: there is no such queue", s.Queue)
		}
		p, err := path(o, s.Name)
		if err != nil {
			return nil, err
		}
		var v any
		if s.Value != "" {
			v = s.Value
		}
		switch {
		case v == nil:
		case whole(s.Name):
			if v, err = strconv.ParseInt(s.Value, 10, 64); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", s.Queue, s.Name, err)
			}
		case s.Value == "true" || s.Value == "false":
			v = s.Value == "true"
		}
		out[Field{name, p}] = v
	}
	return out, nil
}

// all returns objects in the order of their names.
func all(live Live, objects []Object) []map[string]any {
	var out []map[string]any
	for _, o := range objects {
		if _, u := queueOf(live, o.Name); u != nil {
			out = append(out, u.Object)
		}
	}
	return out
}

func queueOf(live Live, name string) (Object, *unstructured.Unstructured) {
	for o, u := range live {
		if o.Name == name && o.Namespace == "" {
			return o, u
		}
	}
	return Object{}, nil
}

// settingsOf reads the settings of queues.
func settingsOf(live Live, queues, names []string, path func(*unstructured.Unstructured, string) (string, error)) (
	[]Setting, error) {
	var out []Setting
	for _, q := range queues {
		_, o := queueOf(live, q)
		if o == nil {
			return nil, fmt.Errorf("%s: there is no such queue", q)
		}
		for _, name := range names {
			p, err := path(o, name)
			if err != nil {
				continue // it is not tuned, or Fields says why it cannot be
			}
			out = append(out, Setting{q, name, text(at(o.Object, p))})
		}
	}
	return out, nil
}

// Values implements [Scheduler].
func (k *Kueue) Values(tuned []string, live Live) (space.Values, error) {
	settings, err := settingsOf(live, k.Queues, k.Names(), k.path)
	if err != nil {
		return nil, err
	}
	return k.Mapping.Values(tuned, settings, all(live, k.Objects()))
}

// Effect implements [Scheduler].
func (k *Kueue) Effect(f Field, _ space.Values, live Live) error {
	o := live[f.Object].Object
	// The manager writes it where it runs with fair sharing, and only there.
	fair := at(o, "/status/fairSharing") != nil
	switch path := dotted(f.Path); {
	case path == "spec.fairSharing.weight" && !fair:
		return errors.New("the weight has no effect: Kueue's manager runs without fair sharing")
	case strings.HasPrefix(path, "spec.preemption.borrowWithinCohort") && fair:
		return errors.New("borrowWithinCohort has no effect: Kueue's manager runs with fair sharing")
	case at(o, "/spec/cohortName") != nil:
	case strings.HasSuffix(path, ".borrowingLimit"), strings.HasSuffix(path, ".lendingLimit"),
		strings.HasPrefix(path, "spec.preemption.borrowWithinCohort"),
		path == "spec.preemption.reclaimWithinCohort":
		return errors.New("the queue is in no cohort: the setting has no effect")
	}
	return nil
}

// Accepted implements [Scheduler].
func (k *Kueue) Accepted(o *unstructured.Unstructured) (bool, error) {
	all, _ := at(o.Object, "/status/conditions").([]any)
	for _, c := range all {
		if at(c, "/type") != "Active" {
			continue
		}
		seen, _ := at(c, "/observedGeneration").(int64)
		switch {
		case seen < o.GetGeneration():
			return false, nil
		case at(c, "/status") != "True":
			return false, fmt.Errorf("Kueue stops the queue: %s: %s", text(at(c, "/reason")), text(at(c, "/message")))
		}
		return true, nil
	}
	return false, nil
}

// Preempts implements [Scheduler].
func (k *Kueue) Preempts(c Change) bool { return strings.HasPrefix(c.Path, "/spec/preemption/") }

// Settle implements [Scheduler]: Kueue says when it has taken an object.
func (k *Kueue) Settle() time.Duration { return 0 }

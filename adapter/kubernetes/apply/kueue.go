package apply

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/schedulers/kueue"
	"github.com/autosched/autosched/schedulers/kueue/conf"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Setting is a setting of a queue, by the name of the scheduler's field. A value that is empty is absent.
type Setting = conf.Setting

// Mapping maps the parameters of a scheduler to settings of its queues, and back. Objects are
// the scheduler's, as the API server has them.
type Mapping interface {
	// Settings returns the settings that parameters stand for. Parameters that are not of queues have none.
	Settings(values space.Values, objects []map[string]any) ([]Setting, error)
	// Values returns the values of parameters of queues by their settings. It is an error if queues differ that share
	// one.
	Values(tuned []string, settings []Setting, objects []map[string]any) (space.Values, error)
	// Names are the names of settings.
	Names() []string
}

// kueueConf maps parameters of package schedulers/kueue.
type kueueConf struct{}

// Names implements [Mapping].
func (kueueConf) Names() []string { return kueue.Tunable }

// cluster has the queues with their quotas and settings.
func (kueueConf) cluster(objects []map[string]any) (workload.Cluster, error) {
	site, err := conf.Read(map[string][]byte{"cluster": encode(map[string]any{"items": objects})})
	if err != nil {
		return workload.Cluster{}, err
	}
	return site.Cluster, nil
}

// Settings implements [Mapping].
func (k kueueConf) Settings(values space.Values, objects []map[string]any) ([]Setting, error) {
	c, err := k.cluster(objects)
	if err != nil {
		return nil, err
	}
	settings, err := conf.Settings(values, c)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", client.ErrRefused, err)
	}
	return settings, nil
}

// Values implements [Mapping].
func (k kueueConf) Values(tuned []string, settings []Setting, objects []map[string]any) (space.Values, error) {
	c, err := k.cluster(objects)
	if err != nil {
		return nil, err
	}
	return conf.Values(tuned, settings, c)
}

// NewKueue returns the ClusterQueues whose settings are parameters of Kueue's model.
func NewKueue() *Kueue { return &Kueue{kueueConf{}} }

// Kueue are its ClusterQueues.
type Kueue struct{ Mapping }

var (
	clusterQueues = schema.GroupVersionResource{Group: "kueue.x-k8s.io", Resource: "clusterqueues"}
	cohorts       = schema.GroupVersionResource{Group: "kueue.x-k8s.io", Resource: "cohorts"}
)

// Objects implements [Scheduler]. Quotas of cohorts say what part of one a limit is.
func (k *Kueue) Objects() []Object { return []Object{{Resource: clusterQueues}, {Resource: cohorts}} }

// path is where an object has a setting.
func (k *Kueue) path(o *unstructured.Unstructured, name string) (string, error) {
	fields, err := conf.Path(o.Object, name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", o.GetName(), err)
	}
	return Pointer(fields...), nil
}

// Fields implements [Scheduler].
func (k *Kueue) Fields(values space.Values, live Live) (map[Field]any, error) {
	settings, err := k.Settings(values, live.all())
	if err != nil {
		return nil, err
	}
	return fieldsOfQueues(settings, live, clusterQueues, k.path, "")
}

// fieldsOfQueues places settings in their objects. Whole names one that is a whole number of the schema.
func fieldsOfQueues(settings []Setting, live Live, queues schema.GroupVersionResource,
	path func(*unstructured.Unstructured, string) (string, error), whole string) (map[Field]any, error) {
	out := map[Field]any{}
	for _, s := range settings {
		name, there := live.find(queues, s.Queue)
		if !there {
			return nil, fmt.Errorf("%s: there is no such queue", s.Queue)
		}
		o := live[name]
		p, err := path(o, s.Name)
		if err != nil {
			return nil, err
		}
		if out[Field{name, p}], err = s.Field(whole); err != nil {
			return nil, fmt.Errorf("%w: %s: %s: %w", client.ErrRefused, s.Queue, s.Name, err)
		}
	}
	return out, nil
}

// find returns an object of a resource, of whatever version.
func (live Live) find(r schema.GroupVersionResource, name string) (Object, bool) {
	for o := range live {
		if o.Resource.GroupResource() == r.GroupResource() && o.Name == name {
			return o, true
		}
	}
	return Object{}, false
}

// all are the objects in a fixed order.
func (live Live) all() []map[string]any {
	var out []map[string]any
	for _, o := range sorted(live) {
		out = append(out, live[o].Object)
	}
	return out
}

// settingsOf reads the settings of all queues.
func settingsOf(live Live, queues schema.GroupVersionResource, names []string,
	path func(*unstructured.Unstructured, string) (string, error)) []Setting {
	var out []Setting
	for _, o := range sorted(live) {
		if o.Resource.GroupResource() != queues.GroupResource() {
			continue
		}
		for _, name := range names {
			p, err := path(live[o], name)
			if err != nil {
				continue // it is not tuned, or Fields says why it cannot be
			}
			out = append(out, Setting{Queue: o.Name, Name: name, Value: text(at(live[o].Object, p))})
		}
	}
	return out
}

// Values implements [Scheduler].
func (k *Kueue) Values(tuned []string, live Live) (space.Values, error) {
	return k.Mapping.Values(tuned, settingsOf(live, clusterQueues, k.Names(), k.path), live.all())
}

// Effect implements [Scheduler].
func (k *Kueue) Effect(f Field, values space.Values, live Live) error {
	o := live[f.Object].Object
	// The manager writes it where it runs with fair sharing, and only there.
	fair := at(o, "/status/fairSharing") != nil
	cohort, _ := at(o, "/spec/cohortName").(string)
	const borrow = "spec.preemption.borrowWithinCohort"
	switch path := dotted(f.Path); {
	case path == "spec.fairSharing.weight" && !fair:
		return errors.New("the weight has no effect: Kueue's manager runs without fair sharing")
	case strings.HasPrefix(path, borrow) && fair:
		return errors.New("borrowWithinCohort has no effect: Kueue's manager runs with fair sharing")
	case strings.HasPrefix(path, borrow) && values == nil &&
		slices.Contains([]any{nil, kueue.Never}, at(o, "/spec/preemption/reclaimWithinCohort")):
		return errors.New("borrowWithinCohort has no effect: the queue reclaims nothing within its cohort")
	case cohort != "" && live.shared(f.Name, cohort):
	case path != "spec.fairSharing.weight" && !strings.HasSuffix(path, ".borrowingLimit") &&
		!strings.HasSuffix(path, ".lendingLimit") && !strings.HasPrefix(path, borrow) &&
		path != "spec.preemption.reclaimWithinCohort":
	case cohort == "":
		return errors.New("the queue is in no cohort: the setting has no effect")
	default:
		return fmt.Errorf("the queue is alone in cohort %s: the setting has no effect", cohort)
	}
	return nil
}

// shared reports whether a cohort has more than a queue: others, or quotas or cohorts of its own.
func (live Live) shared(queue, cohort string) bool {
	for o, u := range live {
		if o.Resource.GroupResource() == cohorts.GroupResource() && o.Name == cohort ||
			o.Resource.GroupResource() == clusterQueues.GroupResource() && o.Name != queue &&
				at(u.Object, "/spec/cohortName") == cohort {
			return true
		}
	}
	return false
}

// idle implements [Scheduler].
func (k *Kueue) idle(Live) []Idle { return nil }

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

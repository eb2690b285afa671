package apply

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/autosched/autosched/client"
	"github.com/autosched/autosched/schedulers/native"
	"github.com/autosched/autosched/schedulers/volcano"
	"github.com/autosched/autosched/schedulers/volcano/conf"
	"github.com/autosched/autosched/space"
)

// volcanoConf maps parameters of package schedulers/volcano.
type volcanoConf struct{}

// Names implements [Mapping].
func (volcanoConf) Names() []string { return conf.Names() }

// Settings implements [Mapping].
func (volcanoConf) Settings(values space.Values, objects []map[string]any) ([]Setting, error) {
	var names []string
	for _, o := range objects {
		if name, is := at(o, "/metadata/name").(string); is && at(o, "/kind") == "Queue" && name != rootQueue {
			names = append(names, name)
		}
	}
	settings, err := conf.Settings(values, names)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", client.ErrRefused, err)
	}
	return settings, nil
}

// Values implements [Mapping].
func (volcanoConf) Values(tuned []string, settings []Setting, _ []map[string]any) (space.Values, error) {
	return conf.Values(tuned, slices.DeleteFunc(slices.Clone(settings), func(s Setting) bool {
		return s.Queue == rootQueue
	}))
}

// rootQueue is the parent of all queues, which Volcano makes.
const rootQueue = "root"

// NewVolcano returns the text and the Queues whose settings are parameters of Volcano's model, where Volcano's chart
// has them.
func NewVolcano() *Volcano {
	return &Volcano{Mapping: volcanoConf{}, Form: &conf.Form{}, InText: conf.InText}
}

// Volcano are the text of Volcano's scheduler in a ConfigMap, and its Queues.
type Volcano struct {
	Mapping
	// Form is the text, and InText reports whether a parameter is in it; others are of queues.
	Form   native.Form
	InText func(id string) bool
}

var (
	volcanoQueues = schema.GroupVersionResource{Group: "scheduling.volcano.sh", Resource: "queues"}
	// configMap is where Volcano's chart puts the text.
	configMap = Object{Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		Namespace: "volcano-system", Name: "volcano-scheduler-configmap"}
)

// agentConfKey is the key of the text of the agent scheduler, a second binary: it logs that it has loaded a new text
// and goes on with the plugins of the old one.
const agentConfKey = "agent-scheduler.conf"

// Objects implements [Scheduler].
func (v *Volcano) Objects() []Object { return []Object{{Resource: volcanoQueues}, configMap} }

func (*Volcano) path(_ *unstructured.Unstructured, name string) (string, error) {
	return Pointer("spec", name), nil
}

// text returns the text in place, and its parameters. One with lines that Volcano ignores, or that the adapter does
// not know, is an error: it cannot be rendered again.
func (v *Volcano) text(live Live) (string, space.Values, error) {
	o := live[configMap]
	text, is := at(o.Object, Pointer("data", conf.Key)).(string)
	switch {
	case at(o.Object, Pointer("data", agentConfKey)) != nil:
		return "", nil, fmt.Errorf("configmap %s is the agent scheduler's, which does not load what it says it loads",
			o.GetName())
	case !is || strings.TrimSpace(text) == "":
		return "", nil, fmt.Errorf("configmap %s has no %s", o.GetName(), conf.Key)
	}
	values, err := v.Form.Parse([]byte(text))
	if err != nil {
		return "", nil, fmt.Errorf("configmap %s: %s: %w", o.GetName(), conf.Key, err)
	}
	return text, values, nil
}

// Fields implements [Scheduler].
func (v *Volcano) Fields(values space.Values, live Live) (map[Field]any, error) {
	settings, err := v.Settings(values, live.all())
	if err != nil {
		return nil, err
	}
	out, err := fieldsOfQueues(settings, live, volcanoQueues, v.path, volcano.Weight)
	if err != nil || !slices.ContainsFunc(slices.Collect(maps.Keys(values)), v.InText) {
		return out, err
	}
	text, _, err := v.text(live)
	if err != nil {
		return nil, err
	}
	inText := maps.Clone(values)
	maps.DeleteFunc(inText, func(id string, _ space.Value) bool { return !v.InText(id) })
	next, err := native.Changed(v.Form, []byte(text), inText)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", client.ErrRefused, err)
	}
	out[Field{configMap, Pointer("data", conf.Key)}] = string(next)
	return out, nil
}

// Values implements [Scheduler].
func (v *Volcano) Values(tuned []string, live Live) (space.Values, error) {
	ofQueues := slices.DeleteFunc(slices.Clone(tuned), v.InText)
	out, err := v.Mapping.Values(ofQueues, settingsOf(live, volcanoQueues, v.Names(), v.path), live.all())
	if err != nil || len(ofQueues) == len(tuned) {
		return out, err
	}
	_, have, err := v.text(live)
	for _, id := range tuned {
		if x, there := have[id]; there && v.InText(id) {
			out[id] = x
		}
	}
	return out, err
}

// Effect implements [Scheduler].
func (v *Volcano) Effect(f Field, values space.Values, live Live) error {
	if f.Path == Pointer("spec", volcano.Weight) {
		for o := range live {
			if o.Resource.GroupResource() == volcanoQueues.GroupResource() && o.Name != f.Name && o.Name != rootQueue {
				return nil
			}
		}
		return errors.New("the setting has no effect: there is no other queue")
	}
	if f.Path != Pointer("spec", "reclaimable") || !values[volcano.ActionsID].IsZero() {
		return nil
	}
	_, have, err := v.text(live)
	if err != nil {
		return err
	}
	if !strings.Contains(have[volcano.ActionsID].Text(), "reclaim") {
		return errors.New("the setting has no effect: Volcano's actions have no reclaim")
	}
	return nil
}

// idle implements [Scheduler]: the parameters of the text that others switch off, or all where it cannot be rendered.
func (v *Volcano) idle(live Live) (out []Idle) {
	_, have, err := v.text(live)
	if err != nil {
		return []Idle{{Setting: conf.Key, Why: err.Error()}}
	}
	for _, r := range volcano.Rules() {
		if a := r.Activation; a != nil && have[a.Param].IsZero() {
			out = append(out, Idle{Setting: a.Param, Why: "has an effect only while " + a.When + " is above 0"})
		}
	}
	return out
}

// Accepted implements [Scheduler]. Volcano says nothing of the values that it has.
func (v *Volcano) Accepted(o *unstructured.Unstructured) (bool, error) {
	if state, is := at(o.Object, "/status/state").(string); is && state != "Open" {
		return false, fmt.Errorf("the queue is %s", state)
	}
	return true, nil
}

// Preempts implements [Scheduler].
func (v *Volcano) Preempts(c Change) bool {
	if c.Path != Pointer("data", conf.Key) {
		return c.Path == Pointer("spec", "reclaimable")
	}
	var of [2]string
	for i, x := range []any{c.Old, c.New} {
		values, err := v.Form.Parse([]byte(text(x)))
		if err != nil {
			return true
		}
		for a := range strings.SplitSeq(values[volcano.ActionsID].Text(), ",") {
			if strings.Contains(a, "preempt") || strings.Contains(a, "reclaim") {
				of[i] += a + " "
			}
		}
	}
	return of[0] != of[1]
}

// Settle implements [Scheduler]: a kubelet renews mounted files within about two minutes, and a session reads them.
func (v *Volcano) Settle() time.Duration { return 150 * time.Second }

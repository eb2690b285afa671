package conf

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/autosched/autosched/internal/kubejson"
	"github.com/autosched/autosched/schedulers/internal/queues"
	"github.com/autosched/autosched/schedulers/volcano"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/kube"
	mapping "github.com/autosched/autosched/workload/volcano"
)

// Site is a cluster as its objects and the scheduler's text describe it.
type Site struct {
	// Cluster has the queues as virtual clusters, and the nodes there are.
	Cluster workload.Cluster
	// Text is the scheduler's text, of Volcano's chart if there is none, and ConfigMap the object that has it.
	Text      Text
	ConfigMap *kubejson.Object
	// Queues are the settings in force.
	Queues []volcano.Queue
	// Findings are the settings that are not simulated or have no effect, with their objects and fields.
	Findings []string
	// Mapper has seen the PodGroups and Pods. Events are theirs, in order of time.
	Mapper mapping.Mapper
	Events []workload.Event
}

// Read reads objects, of Queues, Nodes, PodGroups, Pods and PriorityClasses, in JSON files as kubectl get -o json
// prints them, and a scheduler's text in its ConfigMap or in a file whose name ends in .conf. Errors name file, object
// and field.
func Read(files map[string][]byte) (*Site, error) {
	s := &Site{Text: Text{Settings: volcano.Defaults(), Values: valuesOf(volcano.Defaults())}}
	derived := kube.Derived{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".conf") {
			if err := s.text(name, files[name]); err != nil {
				return nil, err
			}
			continue
		}
		objects, err := kubejson.Read(name, files[name])
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			switch o.Kind() {
			case "Queue":
				s.queue(o)
			case "Node":
				s.node(o)
			case "ConfigMap":
				if err := s.configMap(o); err != nil {
					return nil, err
				}
			default:
				events, err := s.Mapper.Take(o)
				if err != nil {
					return nil, err
				}
				derived.Put(events)
			}
			if o.Err() != nil {
				return nil, o.Err()
			}
		}
	}
	s.Events = derived.Events()
	slices.SortFunc(s.Cluster.VCs, func(a, b workload.VC) int { return cmp.Compare(a.Tenant, b.Tenant) })
	for i := 1; i < len(s.Cluster.VCs); i++ {
		if name := s.Cluster.VCs[i].Tenant; name == s.Cluster.VCs[i-1].Tenant {
			return nil, fmt.Errorf("queue %s: is there twice", name)
		}
	}
	s.Queues = volcano.Queues(&s.Cluster, nil)
	s.wide()
	return s, nil
}

// text reads the scheduler's text in a file or field.
func (s *Site) text(name string, text []byte) (err error) {
	if s.Text, err = ReadText(text); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, f := range s.Text.Findings {
		s.Findings = append(s.Findings, fmt.Sprintf("%s: %s", name, f))
	}
	return nil
}

// Key is the field of the scheduler's text among the data of a ConfigMap.
const Key = "volcano-scheduler.conf"

// configMap reads the scheduler's text. A ConfigMap without one has no effect.
func (s *Site) configMap(o *kubejson.Object) error {
	text := o.Get("data", Key)
	switch {
	case !text.Has():
		return o.Err()
	case s.ConfigMap != nil:
		return fmt.Errorf("%s: data.%s: is in %s, too", o, Key, s.ConfigMap)
	}
	s.ConfigMap = o
	return s.text(fmt.Sprintf("%s: data.%s", o, Key), []byte(text.Text()))
}

// wide finds the queues with gangs that do not start while all queues ask for more than there is.
func (s *Site) wide() {
	widest, weights := map[string]int{}, 0.
	for _, e := range s.Events {
		if e.Kind == workload.Submitted {
			widest[e.Job.Tenant] = max(widest[e.Job.Tenant], e.Job.GPUs.Whole())
		}
	}
	for _, q := range s.Queues {
		weights += q.Weight
	}
	for _, q := range s.Queues {
		share := float64(s.Cluster.TotalGPUs()) * q.Weight / weights
		if n := widest[q.Name]; share > 0 && float64(n) > share {
			s.Findings = append(s.Findings, fmt.Sprintf("Queue %s: spec.weight: while all queues ask for more than there "+
				"is it deserves %.1f GPUs, and its gangs of up to %d do not start then", q.Name, share, n))
		}
	}
}

func (s *Site) find(o *kubejson.Object, field, format string, args ...any) {
	s.Findings = append(s.Findings, fmt.Sprintf("%s: %s: %s", o, field, fmt.Sprintf(format, args...)))
}

// queue reads a Queue. The queue root has no jobs.
func (s *Site) queue(o *kubejson.Object) {
	name, spec := o.Name(), o.Get("spec")
	if name == "root" {
		return
	}
	weight := 1
	if w := spec.Get("weight"); w.Has() {
		if weight = w.Whole(); weight < 1 || weight > 65535 {
			w.Fail("%d is not between 1 and 65535", weight)
		}
	}
	s.Cluster.VCs = append(s.Cluster.VCs, workload.VC{Tenant: name, Weight: float64(weight)})
	setting := func(field, value string) {
		if s.Cluster.Site.Settings == nil {
			s.Cluster.Site.Settings = map[string]string{}
		}
		s.Cluster.Site.Settings[queues.ID(name, field)] = value
	}
	if r := spec.Get("reclaimable"); r.Has() && !r.Bool() {
		setting(volcano.Reclaimable, "false")
	}
	if p := spec.Get("priority"); p.Has() && p.Whole() != 0 {
		setting(volcano.Priority, strconv.Itoa(p.Whole()))
	}
	if c := spec.Get("capability"); kubejson.HasGPUs(c) {
		s.Cluster.Site.Limits = append(s.Cluster.Site.Limits, workload.Limit{Scope: workload.Scope{Account: name},
			Resource: workload.LimitedGPUs, Own: int64(kubejson.ListGPUs(c))})
	}
	if kubejson.HasGPUs(spec.Get("deserved")) {
		s.find(o, "spec.deserved", "has no effect with the plugin proportion, which is simulated")
	}
	if kubejson.HasGPUs(spec.Get("guarantee", "resource")) {
		s.find(o, "spec.guarantee", "is not simulated")
	}
	if parent := spec.Get("parent").Text(); parent != "" && parent != "root" {
		s.find(o, "spec.parent", "hierarchies of queues are not simulated")
	}
	if spec.Get("dequeueStrategy").Has() {
		s.find(o, "spec.dequeueStrategy", "Volcano 1.15 stores it and does not read it")
	}
	if state := o.Get("status", "state").Text(); state != "" && state != "Open" {
		s.find(o, "status.state", "%s queues take no jobs, which is not simulated", state)
	}
}

// node counts a Node with GPUs that takes jobs among its equals.
func (s *Site) node(o *kubejson.Object) {
	n := kube.ReadNode(o)
	switch {
	case n.GPUs == 0:
	case n.Cordoned:
		s.find(o, "spec.unschedulable", "takes no jobs and is left out")
	default:
		s.Cluster.Groups = n.Count(s.Cluster.Groups)
	}
}

// Space returns the parameters of Volcano with a weight for each queue, opened as far as the values in force need, with
// these values for defaults.
func (s *Site) Space() (params []space.Param, rules []space.Rule, values space.Values) {
	values = maps.Clone(s.Text.Values)
	params = volcano.Space()
	widen := func(id string) {
		wide, known := volcano.SiteParam(id)
		v, has := values[id]
		i := slices.IndexFunc(params, func(p space.Param) bool { return p.ID == id })
		switch {
		case !known || !has:
		case i < 0:
			params = append(params, wide)
		case params[i].Kind == space.KindCategorical && !slices.Contains(params[i].Categories, v.Text()) &&
			slices.Contains(wide.Categories, v.Text()):
			params[i].Categories = append(slices.Clone(params[i].Categories), v.Text())
		}
	}
	for _, id := range slices.Sorted(maps.Keys(values)) {
		widen(id)
	}
	if len(s.Queues) > 1 {
		for _, q := range s.Queues {
			id := queues.ID(q.Name, volcano.Weight)
			if isQueues(id) && len(id) <= queues.MaxID {
				values[id] = space.Int(int(q.Weight))
				widen(id)
			}
		}
	}
	for i := range params {
		if v, ok := values[params[i].ID]; ok {
			params[i].Default = v
		}
	}
	return params, volcano.Rules(), values
}

// Package conf reads Kueue's objects as kubectl get -o json prints them, and turns configurations of the scheduler
// into settings of named queues and back.
package conf

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/autosched/autosched/internal/kubejson"
	"github.com/autosched/autosched/schedulers/kueue"
	"github.com/autosched/autosched/workload"
	"github.com/autosched/autosched/workload/kube"
	objects "github.com/autosched/autosched/workload/kueue"
)

// Site is an installation of Kueue.
type Site struct {
	// Cluster has the ClusterQueues as virtual clusters, in order of name, and the nodes.
	Cluster workload.Cluster
	// FairSharing says that the manager divides borrowed quota by share.
	FairSharing bool
	// Findings name objects and fields that are not simulated.
	Findings []string
	// Events are of the Workloads, in order of time since 1970.
	Events []workload.Event
}

// own begins the tenant that stands for a cohort's own quota, of which no job is.
const own = "cohort/"

// Read reads files by their names. Kinds that it does not know have no effect.
func Read(files map[string][]byte) (*Site, error) {
	s := &Site{Cluster: workload.Cluster{Site: workload.Site{Settings: map[string]string{}}}}
	var mapper objects.Mapper
	events := kube.Derived{}
	seen := map[string]string{}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		all, err := kubejson.Read(file, files[file])
		if err != nil {
			return nil, err
		}
		for _, o := range all {
			name := o.Kind() + " " + o.Namespace() + "/" + o.Name()
			if o.Kind() == "ClusterQueue" || o.Kind() == "Cohort" {
				if seen[name] != "" {
					return nil, fmt.Errorf("%s: is in %s, too", o, seen[name])
				}
				seen[name] = file
			}
			switch o.Kind() {
			case "ClusterQueue":
				s.queue(o)
			case "Cohort":
				s.cohort(o)
			case "ResourceFlavor":
				if t := o.Get("spec", "topologyName"); t.Text() != "" {
					s.find(t, o, "topology-aware scheduling is not simulated")
				}
			case "Node":
				s.node(o)
			case "ConfigMap", "Configuration":
				err = s.manager(o)
			default:
				var derived []workload.Event
				derived, err = mapper.Take(o)
				events.Put(derived)
			}
			if err == nil {
				err = o.Err()
			}
			if err != nil {
				return nil, err
			}
		}
	}
	s.Events = events.Events()
	return s, s.finish(mapper.Waiting())
}

// find keeps a finding about a field.
func (s *Site) find(v kubejson.Value, o *kubejson.Object, text string) {
	s.Findings = append(s.Findings, fmt.Sprintf("%s: %s: %s", o, v.At(), text))
}

// finish puts the site into an order that the order of objects does not change.
func (s *Site) finish(waiting int) error {
	c := &s.Cluster
	if len(c.VCs) == 0 {
		return errors.New("there is no ClusterQueue with GPUs among the objects: save kubectl get clusterqueues -o json")
	}
	slices.SortFunc(c.VCs, func(a, b workload.VC) int { return cmp.Compare(a.Tenant, b.Tenant) })
	quota := 0
	for _, v := range c.VCs {
		quota += v.GPUs
	}
	const perNode = 8
	switch total := c.TotalGPUs(); {
	case total == 0:
		c.Groups = workload.Uniform(max(1, (quota+perNode-1)/perNode), perNode).Groups
		s.Findings = append(s.Findings, fmt.Sprintf(
			"there is no Node with GPUs among the objects: the quotas are taken to be on nodes of %d", perNode))
	case total < quota:
		s.Findings = append(s.Findings, fmt.Sprintf("the quotas are %d GPUs and the nodes have %d: admitted jobs may wait "+
			"for a node", quota, total))
	}
	if waiting > 0 {
		s.Findings = append(s.Findings,
			fmt.Sprintf("%d Workloads have a LocalQueue that is not among the objects", waiting))
	}
	slices.Sort(s.Findings)
	return c.Validate()
}

// queue reads a ClusterQueue.
func (s *Site) queue(o *kubejson.Object) {
	spec := o.Get("spec")
	v := workload.VC{Tenant: o.Name(), Cohort: cmp.Or(spec.Get("cohortName").Text(), spec.Get("cohort").Text())}
	if !s.quota(o, &v) {
		s.Findings = append(s.Findings, fmt.Sprintf("%s: has no quota of GPUs and is left out", o))
		return
	}
	for _, field := range []string{"admissionChecks", "admissionChecksStrategy"} {
		if spec.Get(field).Has() {
			s.find(spec.Get(field), o, "admission checks are not simulated")
		}
	}
	if p := spec.Get("stopPolicy"); p.Text() != "" && p.Text() != "None" {
		s.find(p, o, "a stopped queue is simulated as an open one")
	}
	if a := spec.Get("admissionScope"); a.Has() {
		s.find(a, o, "admission fair sharing is not simulated")
	}
	q := kueue.Defaults(v.Tenant)
	for _, setting := range append(slices.Clone(kueue.Tunable), kueue.BorrowThreshold) {
		at := spec.Get(strings.Split(setting, ".")...)
		if !at.Has() {
			continue
		}
		text := ""
		switch setting {
		case kueue.Weight:
			text = strconv.FormatFloat(at.Float(), 'g', -1, 64)
		case kueue.BorrowThreshold:
			text = strconv.FormatInt(at.Int(), 10)
		default:
			text = at.Text()
		}
		if err := q.Set(setting, text); err != nil {
			at.Fail("%q is not one that Kueue has", text)
		}
		s.Cluster.Site.Settings[kueue.Key(v.Tenant, setting)] = text
	}
	s.Cluster.VCs = append(s.Cluster.VCs, v)
}

// quota reads the quota of GPUs and its limits, and reports whether there is one.
func (s *Site) quota(o *kubejson.Object, v *workload.VC) bool {
	flavors, others := 0, []string{}
	borrows, lends := true, true
	for _, group := range o.Get("spec", "resourceGroups").Items() {
		for _, flavor := range group.Get("flavors").Items() {
			for _, r := range flavor.Get("resources").Items() {
				name := r.Get("name").Text()
				if !kubejson.IsGPU(name) {
					if !slices.Contains(others, name) {
						others = append(others, name)
					}
					continue
				}
				flavors++
				v.GPUs += natural(r.Get("nominalQuota"))
				b, l := r.Get("borrowingLimit"), r.Get("lendingLimit")
				borrows, lends = borrows && b.Has(), lends && l.Has()
				v.Borrow.GPUs += natural(b)
				v.Lend.GPUs += natural(l)
			}
		}
	}
	v.Borrow.Set, v.Lend.Set = borrows && flavors > 0 && v.Cohort != "", lends && flavors > 0 && v.Cohort != ""
	if !v.Borrow.Set {
		v.Borrow = workload.Bound{}
	}
	if !v.Lend.Set {
		v.Lend = workload.Bound{}
	}
	v.Lend.GPUs = min(v.Lend.GPUs, v.GPUs)
	groups := o.Get("spec", "resourceGroups")
	if flavors > 1 {
		s.find(groups, o, "flavors of GPUs are simulated as one")
	}
	if slices.Sort(others); len(others) > 0 && flavors > 0 {
		s.find(groups, o, "quotas of "+strings.Join(others, ", ")+" are not simulated")
	}
	return flavors > 0
}

// natural is a whole number from 0.
func natural(v kubejson.Value) int {
	n := v.Whole()
	if n < 0 {
		v.Fail("%d is negative", n)
	}
	return max(0, n)
}

// cohort reads a Cohort: its own quota is a virtual cluster that lends all of it.
func (s *Site) cohort(o *kubejson.Object) {
	for _, field := range []string{"parentName", "parent"} {
		if p := o.Get("spec", field); p.Text() != "" {
			s.find(p, o, "cohorts of cohorts are not simulated")
		}
	}
	if w := o.Get("spec", "fairSharing"); w.Has() {
		s.find(w, o, "the weight of a cohort is not simulated")
	}
	v := workload.VC{Tenant: own + o.Name(), Cohort: o.Name()}
	if s.quota(o, &v); v.GPUs > 0 {
		v.Borrow, v.Lend = workload.Bound{}, workload.Bound{}
		s.Cluster.VCs = append(s.Cluster.VCs, v)
	}
}

// node counts a Node with GPUs that takes jobs. Kueue's quotas are of GPUs alone.
func (s *Site) node(o *kubejson.Object) {
	n := kube.ReadNode(o)
	if n.Cordoned && n.GPUs > 0 {
		s.find(o.Get("spec", "unschedulable"), o, "takes no jobs and is left out")
	} else if n.GPUs > 0 {
		n.CPUs, n.Memory = 0, 0
		s.Cluster.Groups = n.Count(s.Cluster.Groups)
	}
}

// manager reads the configuration of Kueue's manager, or the ConfigMap that has it.
func (s *Site) manager(o *kubejson.Object) error {
	if o.Kind() == "ConfigMap" {
		const key = "controller_manager_config.yaml"
		text := o.Get("data", key).Text()
		if text == "" {
			return nil
		}
		var config map[string]any
		if err := yaml.Unmarshal([]byte(text), &config); err != nil {
			return fmt.Errorf("%s: data.%s: %w", o, key, err)
		}
		o = kubejson.Of(config)
	}
	fair := o.Get("fairSharing")
	if enable := fair.Get("enable"); !fair.Has() || enable.Has() && !enable.Bool() {
		return o.Err()
	}
	s.FairSharing = true
	s.Cluster.Site.Settings[kueue.FairSharing] = "true"
	return o.Err()
}

package conf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/autosched/autosched/schedulers/internal/queues"
	"github.com/autosched/autosched/schedulers/kueue"
	"github.com/autosched/autosched/space"
)

// Space returns the parameters of the settings that have an effect in the installation, by default as they are in
// force, with their rules and the values in force. Queues that agree on a setting share its parameter: all of them, or
// the ones with a common beginning of their names up to the first "-"; the others have one each. Findings about queues
// that cannot have a parameter are added.
func (s *Site) Space() (params []space.Param, rules []space.Rule, values space.Values, err error) {
	settings := InForce(s.Cluster)
	var ids []string
	for _, name := range kueue.Tunable {
		switch {
		case !s.acts(name):
		case name == kueue.BorrowPolicy: // only beside the policy that it needs
			for _, of := range ids {
				group, reclaim, _ := queues.Split(of, kueue.Tunable)
				id := queues.ID(group, name)
				_, err := Values([]string{id}, settings, s.Cluster)
				if _, known := kueue.SiteParam(id); reclaim == kueue.ReclaimWithinCohort && known && err == nil {
					ids = append(ids, id)
				}
			}
		default:
			ids = append(ids, s.group(name, settings)...)
		}
	}
	if values, err = Values(ids, settings, s.Cluster); err != nil {
		return nil, nil, nil, err
	}
	for _, id := range ids {
		p, ok := kueue.SiteParam(id)
		if !ok {
			return nil, nil, nil, fmt.Errorf("%s: is not a parameter of the scheduler", id)
		}
		group, name, _ := queues.Split(id, kueue.Tunable)
		if name == kueue.BorrowPolicy {
			rule := "borrow_within_cohort"
			if group != "" {
				rule += "." + group
			}
			rules = append(rules, kueue.RuleFor(group, rule))
		}
		if v, ok := values[id]; ok {
			p.Default = v
			if name == kueue.Weight {
				p.Min, p.Max = min(p.Min, v.Float()), max(p.Max, v.Float())
			}
		}
		params = append(params, p)
	}
	return params, rules, values, nil
}

// acts reports whether a setting has an effect: the ones about cohorts where queues share one, the weight with fair
// sharing only, and the policy of borrowing only without it.
func (s *Site) acts(name string) bool {
	shared := false
	for i, v := range s.Cluster.VCs {
		for _, o := range s.Cluster.VCs[:i] {
			shared = shared || v.Cohort != "" && v.Cohort == o.Cohort
		}
	}
	switch name {
	case kueue.QueueingStrategy, kueue.WithinClusterQueue:
		return true
	case kueue.Weight:
		return shared && s.FairSharing
	case kueue.BorrowPolicy:
		return shared && !s.FairSharing
	}
	return shared
}

// group returns the ids of a setting's parameters: as few as there are different values.
func (s *Site) group(name string, settings []Setting) []string {
	agree := func(group string) bool {
		_, err := Values([]string{queues.ID(group, name)}, settings, s.Cluster)
		return err == nil
	}
	if name != kueue.Weight && agree("") { // equal weights have no effect
		return []string{name}
	}
	var ids []string
	for _, v := range s.Cluster.VCs {
		if strings.HasPrefix(v.Tenant, own) {
			continue
		}
		group := v.Tenant
		if i := strings.IndexByte(group, '-'); i >= 0 && agree(group[:i+1]) {
			group = group[:i+1]
		}
		id := queues.ID(group, name)
		if slices.Contains(ids, id) {
			continue
		}
		if first := id[0]; len(id) > queues.MaxID || '0' <= first && first <= '9' {
			s.Findings = append(s.Findings, fmt.Sprintf("ClusterQueue %s: %s: is not tuned, as the name of the queue begins "+
				"with a digit or is too long", v.Tenant, name))
			continue
		}
		ids = append(ids, id)
	}
	return ids
}

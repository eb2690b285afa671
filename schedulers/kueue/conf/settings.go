package conf

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/autosched/autosched/internal/kubejson"
	"github.com/autosched/autosched/schedulers/internal/queues"
	"github.com/autosched/autosched/schedulers/kueue"
	"github.com/autosched/autosched/space"
	"github.com/autosched/autosched/workload"
)

// Setting is a setting of a ClusterQueue by the name of its field. Limits are in GPUs; the empty value is none.
type Setting = queues.Setting

// Path returns the names of the fields in which a ClusterQueue has a setting.
func Path(queue map[string]any, name string) ([]string, error) {
	if name != kueue.BorrowingLimit && name != kueue.LendingLimit {
		return append([]string{"spec"}, strings.Split(name, ".")...), nil
	}
	var found []string
	quotas := 0
	for i, g := range kubejson.Of(queue).Get("spec", "resourceGroups").Items() {
		for j, flavor := range g.Get("flavors").Items() {
			for k, r := range flavor.Get("resources").Items() {
				if kubejson.IsGPU(r.Get("name").Text()) {
					quotas++
					found = []string{"spec", "resourceGroups", strconv.Itoa(i), "flavors", strconv.Itoa(j), "resources",
						strconv.Itoa(k), name}
				}
			}
		}
	}
	if quotas != 1 {
		return nil, fmt.Errorf("%s: the queue has %d quotas of GPUs, not one", name, quotas)
	}
	return found, nil
}

// Settings returns the settings of each queue that values of parameters decide, in order of the queues. Limits of
// queues without a cohort have no effect and are left out.
func Settings(values space.Values, c workload.Cluster) ([]Setting, error) {
	for id := range values {
		if _, _, ok := queues.Split(id, kueue.Tunable); !ok {
			return nil, fmt.Errorf("%s: is not a setting of a ClusterQueue", id)
		}
	}
	has := func(id string) bool { _, ok := values[id]; return ok }
	recorded := kueue.Queues(c, space.Config{})
	cohorts := quotas(c)
	var out []Setting
	for i, v := range c.VCs {
		if strings.HasPrefix(v.Tenant, own) {
			continue
		}
		decided := map[string]string{}
		for _, name := range kueue.Tunable {
			id, ok := queues.Param(v.Tenant, name, has)
			if !ok {
				continue
			}
			text := values[id].Text()
			switch name {
			case kueue.BorrowingLimit, kueue.LendingLimit:
				of := v.GPUs
				if v.Cohort == "" {
					continue
				}
				if name == kueue.BorrowingLimit {
					of = cohorts[v.Cohort]
				}
				if limit := kueue.Part(values[id].Float(), of); limit.Set {
					text = strconv.Itoa(limit.GPUs)
				}
			case kueue.Weight:
				text = strconv.FormatFloat(values[id].Float(), 'g', -1, 64)
			}
			decided[name] = text
			out = append(out, Setting{Queue: v.Tenant, Name: name, Value: text})
		}
		// Kueue refuses another policy of borrowing beside this one.
		if _, too := decided[kueue.BorrowPolicy]; decided[kueue.ReclaimWithinCohort] == kueue.Never && !too &&
			recorded[i].Borrow != kueue.Never {
			out = append(out, Setting{Queue: v.Tenant, Name: kueue.BorrowPolicy, Value: kueue.Never})
		}
	}
	return out, nil
}

// quotas are the GPUs of cohorts.
func quotas(c workload.Cluster) map[string]int {
	out := map[string]int{}
	for _, v := range c.VCs {
		out[v.Cohort] += v.GPUs
	}
	return out
}

// Values returns the values of parameters by settings of queues. Settings that are not among them have Kueue's
// defaults. Queues of one group that differ are an error.
func Values(ids []string, settings []Setting, c workload.Cluster) (space.Values, error) {
	now := map[string]map[string]string{}
	for _, s := range settings {
		if now[s.Queue] == nil {
			now[s.Queue] = map[string]string{}
		}
		now[s.Queue][s.Name] = s.Value
	}
	has := func(id string) bool { return slices.Contains(ids, id) }
	out, cohorts := space.Values{}, quotas(c)
	for _, id := range ids {
		group, name, ok := queues.Split(id, kueue.Tunable)
		if !ok {
			return nil, fmt.Errorf("%s: is not a setting of a ClusterQueue", id)
		}
		var of []queueValue
		for _, v := range c.VCs {
			if by, _ := queues.Param(v.Tenant, name, has); by != id || !queues.Of(group, v.Tenant) ||
				strings.HasPrefix(v.Tenant, own) {
				continue
			}
			text, set := now[v.Tenant][name]
			x, err := valueOf(name, text, set, v, cohorts)
			if err != nil {
				return nil, fmt.Errorf("ClusterQueue %s: %s: %w", v.Tenant, name, err)
			}
			of = append(of, x)
		}
		v, ok := common(of)
		if !ok {
			other := slices.IndexFunc(of, func(x queueValue) bool { return !x.is(of[0].value) })
			return nil, fmt.Errorf("%s: ClusterQueues %s and %s differ: give them parameters of their own", id,
				of[0].queue, of[other].queue)
		}
		if !v.IsZero() {
			out[id] = v
		}
	}
	for id := range out { // without effect it is in no configuration
		if group, name, _ := queues.Split(id, kueue.Tunable); name == kueue.BorrowPolicy {
			if v, ok := out[queues.ID(group, kueue.ReclaimWithinCohort)]; ok && v.Text() == kueue.Never {
				delete(out, id)
			}
		}
	}
	return out, nil
}

// queueValue is a setting of a queue as a value of a parameter. Limits are parts of a number of GPUs.
type queueValue struct {
	queue string
	value space.Value
	limit workload.Bound
	of    int // GPUs, -1 for settings that are no limits
}

// is reports whether a value of the parameter is the queue's.
func (x *queueValue) is(v space.Value) bool {
	if x.of < 0 {
		return v.Equal(x.value)
	}
	return kueue.Part(v.Float(), x.of) == x.limit || x.of == 0
}

// common is the value of all queues, the zero one if there is none.
func common(of []queueValue) (space.Value, bool) {
	for i := range of {
		all := true
		for k := range of {
			all = all && of[k].is(of[i].value)
		}
		if all {
			return of[i].value, true
		}
	}
	return space.Value{}, len(of) == 0
}

func valueOf(name, text string, set bool, v workload.VC, cohorts map[string]int) (queueValue, error) {
	x := queueValue{queue: v.Tenant, of: -1}
	switch name {
	case kueue.BorrowingLimit, kueue.LendingLimit:
		if x.of = v.GPUs; name == kueue.BorrowingLimit {
			x.of = cohorts[v.Cohort]
		}
		if v.Cohort == "" {
			x.of = 0
		}
		x.value = space.Num(1)
		if text == "" {
			return x, nil
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return x, fmt.Errorf("%q is not a number of GPUs", text)
		}
		if x.of > 0 && n < x.of {
			x.limit, x.value = workload.BoundOf(n), space.Num(float64(n)/float64(x.of))
		}
		return x, nil
	case kueue.Weight:
		if x.value = space.Num(1); text == "" {
			return x, nil
		}
		w, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(w) {
			return x, fmt.Errorf("%q is not a weight", text)
		}
		x.value = space.Num(w)
		return x, nil
	}
	q := kueue.Defaults(v.Tenant)
	if set && text != "" {
		if err := q.Set(name, text); err != nil {
			return x, err
		}
	}
	x.value = space.Text(q.Text(name))
	return x, nil
}

// InForce are the settings of the queues that are recorded in a cluster.
func InForce(c workload.Cluster) []Setting {
	var out []Setting
	for _, q := range kueue.Queues(c, space.Config{}) {
		if strings.HasPrefix(q.Name, own) {
			continue
		}
		for _, name := range kueue.Tunable {
			text := q.Text(name)
			if limit := q.Limit(name); limit.Set {
				text = strconv.Itoa(limit.GPUs)
			}
			out = append(out, Setting{Queue: q.Name, Name: name, Value: text})
		}
	}
	return out
}

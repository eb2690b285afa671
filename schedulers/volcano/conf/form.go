package conf

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/autosched/autosched/schedulers/volcano"
	"github.com/autosched/autosched/space"
)

// Form is the scheduler's text. The settings of queues, which are not in it, are comments at its end.
type Form struct{}

// valuesOf returns the values of settings: all of volcano.Space but the ones without effect, and the others that differ
// from the defaults.
func valuesOf(s volcano.Settings) space.Values {
	names := make([]string, len(s.Actions))
	for i, a := range s.Actions {
		names[i] = string(a)
	}
	v := space.Values{
		volcano.ActionsID:        space.Text(strings.Join(names, ",")),
		volcano.OvercommitID:     space.Num(s.OvercommitFactor),
		volcano.BinpackWeightID:  space.Int(s.BinpackWeight),
		volcano.LeastRequestedID: space.Int(s.LeastRequested),
		volcano.MostRequestedID:  space.Int(s.MostRequested),
		volcano.SLAID:            space.Num(s.SLAWaitingTime.Seconds()),
	}
	if s.BinpackWeight > 0 {
		v[volcano.BinpackGPUID] = space.Int(s.BinpackGPU)
	}
	if s.SLAWaitingTime > 0 {
		v[volcano.OrderID] = space.Text(volcano.PriorityThenSLA)
		if s.SLAFirst {
			v[volcano.OrderID] = space.Text(volcano.SLAThenPriority)
		}
	}
	d := volcano.Defaults()
	for id, x := range map[string][2]int{volcano.BinpackCPUID: {s.BinpackCPU, d.BinpackCPU},
		volcano.BinpackMemoryID:    {s.BinpackMemory, d.BinpackMemory},
		volcano.BalancedResourceID: {s.BalancedResource, d.BalancedResource}} {
		if x[0] != x[1] {
			v[id] = space.Int(x[0])
		}
	}
	return v
}

// comment begins the line of a setting of queues.
const comment = "# queue "

// Render implements native.Form. The text has known plugins and arguments only, the same bytes for the same values, and
// whole numbers where Volcano wants them.
func (f *Form) Render(values space.Values) ([]byte, error) {
	var groups []string
	for _, id := range slices.Sorted(maps.Keys(values)) {
		p, known := volcano.SiteParam(id)
		switch {
		case !known:
			return nil, fmt.Errorf("%s: is not a parameter of Volcano", id)
		case p.Kind == space.KindInt && values[id].Float() != float64(int(values[id].Float())):
			return nil, fmt.Errorf("%s: %g is not a whole number", id, values[id].Float())
		case isQueues(id):
			groups = append(groups, id)
		}
	}
	has := func(id string) bool { _, ok := values[id]; return ok }
	on := func(id string) bool { return values[id].Float() > 0 }
	number := func(id string) string { return strconv.FormatFloat(values[id].Float(), 'f', -1, 64) }
	var b bytes.Buffer
	plugin := func(name string, arguments ...string) {
		fmt.Fprintf(&b, "  - name: %s\n", name)
		if len(arguments) > 0 {
			fmt.Fprintf(&b, "    arguments:\n      %s\n", strings.Join(arguments, "\n      "))
		}
	}
	arguments := func(ids ...string) (out []string) {
		for _, id := range ids {
			if has(id) {
				out = append(out, id+": "+number(id))
			}
		}
		return out
	}
	list := volcano.Domain()[0].Default.Text()
	if has(volcano.ActionsID) {
		list = values[volcano.ActionsID].Text()
	}
	for a := range strings.SplitSeq(list, ",") {
		if !actions[a] {
			return nil, fmt.Errorf("%s: %q is not an action that is simulated", volcano.ActionsID, a)
		}
	}
	fmt.Fprintf(&b, "actions: %q\ntiers:\n- plugins:\n", strings.ReplaceAll(list, ",", ", "))
	order := []string{"priority", "sla"}
	if values[volcano.OrderID].Text() == volcano.SLAThenPriority {
		slices.Reverse(order)
	}
	for _, name := range order {
		switch {
		case name == "priority":
			plugin(name)
		case on(volcano.SLAID):
			plugin(name, "sla-waiting-time: "+values[volcano.SLAID].Duration().String())
		}
	}
	const whole = "    enablePreemptable: false\n"
	plugin("gang")
	b.WriteString(whole)
	plugin("conformance")
	b.WriteString("- plugins:\n")
	if !has(volcano.OvercommitID) || on(volcano.OvercommitID) {
		plugin("overcommit", arguments(volcano.OvercommitID)...)
	}
	plugin("drf")
	b.WriteString(whole)
	plugin("predicates")
	plugin("proportion")
	plugin("nodeorder", arguments(volcano.LeastRequestedID, volcano.MostRequestedID, volcano.BalancedResourceID)...)
	binpack := arguments(volcano.BinpackWeightID, volcano.BinpackCPUID, volcano.BinpackMemoryID)
	if on(volcano.BinpackGPUID) {
		binpack = append(binpack, "binpack.resources: "+GPU, "binpack.resources."+GPU+": "+number(volcano.BinpackGPUID))
	}
	plugin("binpack", binpack...)
	for _, id := range groups {
		text, err := queueText(id, values[id])
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%s%s=%s\n", comment, id, text)
	}
	return b.Bytes(), nil
}

// Parse implements native.Form. It is strict: a line that Volcano ignores, or takes otherwise than it looks, is an
// error, and so is one that is not simulated.
func (f *Form) Parse(text []byte) (space.Values, error) {
	t, err := ReadText(text)
	if err != nil {
		return nil, err
	}
	var all []error
	for _, finding := range t.Findings {
		if !strings.HasPrefix(finding.Text, "reclaim: ") {
			all = append(all, errors.New(finding.String()))
		}
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		setting, is := strings.CutPrefix(strings.TrimSpace(line), comment)
		if !is {
			continue
		}
		id, value, ok := strings.Cut(setting, "=")
		if v, err := queueValue(id, value); ok && err == nil {
			t.Values[id] = v
		} else {
			all = append(all, fmt.Errorf("line %d: %q is not a setting of queues: %w", number, setting, err))
		}
	}
	return t.Values, errors.Join(all...)
}

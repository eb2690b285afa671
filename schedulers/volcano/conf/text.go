// Package conf has the files of Volcano: the scheduler's text volcano-scheduler.conf, with the settings of queues, and
// the objects of a cluster as kubectl prints them.
package conf

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/autosched/autosched/schedulers/volcano"
	"github.com/autosched/autosched/space"
)

// GPU is the resource whose weight in binpack is a parameter.
const GPU = "nvidia.com/gpu"

// Text is a volcano-scheduler.conf as Volcano takes it.
type Text struct {
	Settings volcano.Settings
	// Values are in force: of the parameters of volcano.Space, and of others of volcano.Domain that differ from the
	// defaults.
	Values space.Values
	// Findings are the lines that Volcano ignores or takes otherwise than they look, and the parts that are not
	// simulated.
	Findings []Finding
}

// Finding is about a line.
type Finding struct {
	Line int
	Text string
	// Simulation says that Volcano does as the line says, but the simulation does not.
	Simulation bool
}

func (f Finding) String() string { return fmt.Sprintf("line %d: %s", f.Line, f.Text) }

// actions are Volcano's, and whether they are simulated.
var actions = map[string]bool{"enqueue": true, "allocate": true, "backfill": true, "preempt": true, "reclaim": true,
	"gangpreempt": false, "gangreclaim": false, "shuffle": false}

// plugins are Volcano's, and whether a text with them is simulated. init in pkg/scheduler/plugins/factory.go.
var plugins = map[string]bool{"priority": true, "gang": true, "conformance": true, "overcommit": true, "drf": true,
	"predicates": true, "proportion": true, "nodeorder": true, "binpack": true, "sla": true, "pdb": false,
	"resourcequota": false, "capacity": false, "cdp": false, "deviceshare": false, "extender": false,
	"network-topology-aware": false, "nodegroup": false, "numa-aware": false, "rescheduling": false,
	"resource-strategy-fit": false, "task-topology": false, "tdm": false, "usage": false}

// integers are the arguments that Volcano reads as whole numbers, by plugin, with their settings; nil for none.
var integers = map[string]map[string]func(*volcano.Settings) *int{
	"binpack": {
		"binpack.weight":           func(s *volcano.Settings) *int { return &s.BinpackWeight },
		"binpack.cpu":              func(s *volcano.Settings) *int { return &s.BinpackCPU },
		"binpack.memory":           func(s *volcano.Settings) *int { return &s.BinpackMemory },
		"binpack.resources." + GPU: func(s *volcano.Settings) *int { return &s.BinpackGPU },
	},
	"nodeorder": {
		"leastrequested.weight":    func(s *volcano.Settings) *int { return &s.LeastRequested },
		"mostrequested.weight":     func(s *volcano.Settings) *int { return &s.MostRequested },
		"balancedresource.weight":  func(s *volcano.Settings) *int { return &s.BalancedResource },
		"nodeaffinity.weight":      nil,
		"podaffinity.weight":       nil,
		"tainttoleration.weight":   nil,
		"imagelocality.weight":     nil,
		"podtopologyspread.weight": nil,
	},
}

// reader reads a text.
type reader struct {
	Text
	plugins []string // in order
	names   bool     // binpack.resources has the GPUs
	weighed bool     // their weight is given
	keeps   bool     // gang keeps whole gangs from preempt
}

// ReadText reads a text. It is an error if Volcano refuses all of it and goes on with the text before.
func ReadText(text []byte) (Text, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return Text{}, fmt.Errorf("is not YAML: %w", err)
	}
	if len(doc.Content) == 0 {
		return Text{}, errors.New("is empty: Volcano finds no action in it")
	}
	r := &reader{}
	r.Settings = volcano.Settings{BinpackCPU: 1, BinpackMemory: 1, SchedulePeriod: volcano.Defaults().SchedulePeriod}
	if err := r.top(doc.Content[0]); err != nil {
		return Text{}, err
	}
	r.check(doc.Content[0].Line)
	r.Values = valuesOf(r.Settings)
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return a.Line - b.Line })
	return r.Text, nil
}

func (r *reader) find(n *yaml.Node, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{Line: n.Line, Text: fmt.Sprintf(format, args...)})
}

func (r *reader) notSimulated(n *yaml.Node, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{n.Line, fmt.Sprintf(format, args...), true})
}

// fields calls f for each field of a mapping.
func fields(n *yaml.Node, f func(key string, k, v *yaml.Node) error) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: is not a mapping", n.Line)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if err := f(n.Content[i].Value, n.Content[i], n.Content[i+1]); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) top(n *yaml.Node) error {
	found := false
	err := fields(n, func(key string, k, v *yaml.Node) error {
		switch key {
		case "actions":
			found = true
			return r.actions(v)
		case "tiers":
			return r.tiers(v)
		case "configurations":
			r.notSimulated(k, "configurations: the arguments of actions are not simulated")
		case "metrics":
			r.notSimulated(k, "metrics: the sources of the nodes' use are not simulated")
		default:
			r.find(k, "%s: Volcano knows no such key, and ignores it", key)
		}
		return nil
	})
	if err == nil && !found {
		return errors.New("actions: is not there: Volcano refuses the text")
	}
	return err
}

func (r *reader) actions(v *yaml.Node) error {
	if v.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: actions: is not a text of names with commas between", v.Line)
	}
	for name := range strings.SplitSeq(v.Value, ",") {
		name = strings.TrimSpace(name)
		simulated, known := actions[name]
		if !known {
			return fmt.Errorf("line %d: actions: %q is none: Volcano refuses the text", v.Line, name)
		}
		if !simulated {
			r.notSimulated(v, "actions: %s is not simulated", name)
			continue
		}
		r.Settings.Actions = append(r.Settings.Actions, volcano.Action(name))
	}
	return nil
}

func (r *reader) tiers(v *yaml.Node) error {
	if v.Kind != yaml.SequenceNode {
		return fmt.Errorf("line %d: tiers: is not a list", v.Line)
	}
	for _, tier := range v.Content {
		proportion, hierarchy := false, false
		err := fields(tier, func(key string, k, v *yaml.Node) error {
			if key != "plugins" {
				r.find(k, "%s: Volcano knows no such key, and ignores it", key)
				return nil
			}
			if v.Kind != yaml.SequenceNode {
				return fmt.Errorf("line %d: plugins: is not a list", v.Line)
			}
			for _, p := range v.Content {
				name, whole, err := r.plugin(p)
				if err != nil {
					return err
				}
				proportion, hierarchy = proportion || name == "proportion", hierarchy || name == "drf" && whole
			}
			return nil
		})
		if err != nil {
			return err
		}
		if proportion && hierarchy {
			return fmt.Errorf("line %d: proportion and drf with enableHierarchy exclude each other: Volcano refuses the text",
				tier.Line)
		}
	}
	return nil
}

// switches are the fields that switch parts of a plugin. conf.PluginOption in pkg/scheduler/conf/scheduler_conf.go.
var switches = []string{"enableJobOrder", "enableHierarchy", "enableJobReady", "enableJobPipelined", "enableTaskOrder",
	"enablePreemptable", "enableReclaimable", "enablePreemptive", "enableQueueOrder", "EnabledClusterOrder",
	"enablePredicate", "enableBestNode", "enableNodeOrder", "enableTargetJob", "enableReservedNodes",
	"enableJobEnqueued", "enabledVictim", "enableJobStarving", "enabledOverused", "enabledAllocatable",
	"enabledHyperNodeOrder", "enabledSubJobReady", "enabledSubJobPipelined", "enabledSubJobOrder",
	"enabledHyperNodeGradient"}

// plugin reads a plugin, and whether it has its hierarchy on.
func (r *reader) plugin(n *yaml.Node) (name string, hierarchy bool, err error) {
	var arguments *yaml.Node
	off := map[string]bool{}
	err = fields(n, func(key string, k, v *yaml.Node) error {
		switch {
		case key == "name":
			name = v.Value
		case key == "arguments":
			arguments = v
		case slices.Contains(switches, key):
			on := true
			if v.ShortTag() != "!!null" && v.Decode(&on) != nil {
				return fmt.Errorf("line %d: %s: is neither true nor false: Volcano refuses the text", v.Line, key)
			}
			hierarchy = hierarchy || key == "enableHierarchy" && on
			off[key] = !on
			switch {
			case key == "enableHierarchy" && !on, key == "enablePreemptable" && !on:
			case key == "enableHierarchy" || !on:
				r.notSimulated(k, "%s: is not simulated", key)
			}
		default:
			r.find(k, "%s: Volcano knows no such key, and ignores it", key)
		}
		return nil
	})
	if err != nil {
		return name, hierarchy, err
	}
	simulated, known := plugins[name]
	switch {
	case !known:
		r.find(n, "%s: Volcano knows no such plugin, and logs that in every session", name)
		return name, hierarchy, nil
	case !simulated:
		r.notSimulated(n, "%s: the plugin is not simulated", name)
		return name, hierarchy, nil
	case slices.Contains(r.plugins, name):
		r.notSimulated(n, "%s: is there twice, which is not simulated", name)
		return name, hierarchy, nil
	}
	r.plugins = append(r.plugins, name)
	r.keeps = r.keeps || name == "gang" && !off["enablePreemptable"]
	return name, hierarchy, r.arguments(name, n, arguments)
}

// arguments reads the arguments of a plugin, which has its defaults without them.
func (r *reader) arguments(plugin string, at, n *yaml.Node) error {
	s, d := &r.Settings, volcano.Defaults()
	switch plugin {
	case "overcommit":
		s.OvercommitFactor = d.OvercommitFactor
	case "nodeorder":
		s.LeastRequested, s.MostRequested, s.BalancedResource = d.LeastRequested, d.MostRequested, d.BalancedResource
	case "binpack":
		s.BinpackWeight = d.BinpackWeight
	case "sla":
		s.SLAFirst = !slices.Contains(r.plugins, "priority")
	}
	named := false
	if n != nil && n.ShortTag() != "!!null" {
		if err := fields(n, func(key string, k, v *yaml.Node) error {
			named = named || key == "sla-waiting-time"
			r.argument(plugin, key, k, v)
			return nil
		}); err != nil {
			return err
		}
	}
	if plugin == "binpack" && !r.names {
		s.BinpackGPU = 0
	}
	if plugin == "sla" && !named {
		r.notSimulated(at, "sla: without sla-waiting-time only jobs with one of their own have one, which is not simulated")
	}
	return nil
}

func (r *reader) argument(plugin, key string, k, v *yaml.Node) {
	s := &r.Settings
	to, known := integers[plugin][key]
	switch {
	case known:
		n, ok := wholeNumber(v)
		switch {
		case !ok:
			r.find(v, "%s: %s is not a whole number: Volcano uses the default", key, literal(v))
		case n < 0 && plugin == "binpack" && key != "binpack.weight":
			r.find(v, "%s: %d is negative: Volcano uses 1", key, n)
			*to(s) = 1
		case to == nil:
			r.notSimulated(k, "%s: is not simulated", key)
		default:
			*to(s) = n
			r.weighed = r.weighed || key == "binpack.resources."+GPU
		}
	case plugin == "binpack" && key == "binpack.resources":
		if v.ShortTag() != "!!str" {
			r.find(v, "%s: %s is not a text: Volcano counts no resource but CPUs and memory", key, literal(v))
			return
		}
		for name := range strings.SplitSeq(v.Value, ",") {
			switch name = strings.TrimSpace(name); name {
			case GPU:
				if r.names = true; !r.weighed {
					s.BinpackGPU = 1
				}
			case "":
			default:
				r.notSimulated(v, "%s: %s is not simulated", key, name)
			}
		}
	case plugin == "binpack" && strings.HasPrefix(key, "binpack.resources."):
		r.notSimulated(k, "%s: is not simulated", key)
	case plugin == "overcommit" && key == "overcommit-factor":
		x := 0.
		switch {
		case v.ShortTag() != "!!int" && v.ShortTag() != "!!float" || v.Decode(&x) != nil:
			r.find(v, "%s: %s is not a number: Volcano uses %g", key, literal(v), s.OvercommitFactor)
		case !(x >= 1):
			r.find(v, "%s: %s is below 1: Volcano uses %g", key, literal(v), s.OvercommitFactor)
		default:
			s.OvercommitFactor = x
		}
	case plugin == "sla" && key == "sla-waiting-time":
		d, err := time.ParseDuration(v.Value)
		if v.ShortTag() != "!!str" || err != nil || d <= 0 {
			r.find(v, "%s: %s is not a time such as 1h30m: Volcano uses none", key, literal(v))
			return
		}
		s.SLAWaitingTime = d
	case plugin == "predicates" && strings.HasPrefix(key, "predicate."):
		r.notSimulated(k, "%s: is not simulated", key)
	default:
		r.find(k, "%s: %s has no such argument, and ignores it", key, plugin)
	}
}

// literal is a value as it is written.
func literal(n *yaml.Node) string {
	switch {
	case n.Kind != yaml.ScalarNode:
		return "a list or mapping"
	case n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		return strconv.Quote(n.Value)
	}
	return n.Value
}

func wholeNumber(n *yaml.Node) (int, bool) {
	x := 0
	ok := n.ShortTag() == "!!int" && n.Decode(&x) == nil
	return x, ok
}

// check notes the plugins that are missing, and actions without effect.
func (r *reader) check(line int) {
	at := &yaml.Node{Line: line}
	for _, name := range []string{"priority", "gang", "predicates", "proportion"} {
		if !slices.Contains(r.plugins, name) {
			r.notSimulated(at, "%s: the simulation has the plugin, the text does not", name)
		}
	}
	if r.keeps && slices.Contains(r.Settings.Actions, volcano.Preempt) {
		r.notSimulated(at, "preempt: the plugin gang keeps gangs whole from it, which is not simulated: set its "+
			"enablePreemptable to false")
	}
	if slices.Contains(r.Settings.Actions, volcano.Enqueue) && r.Settings.OvercommitFactor > 0 &&
		slices.Contains(r.Settings.Actions, volcano.Reclaim) {
		r.Findings = append(r.Findings, Finding{Line: line,
			Text: "reclaim: stops nothing for jobs that are not let in, as while the cluster is full by overcommit-factor"})
	}
}

package kube

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/autosched/autosched/adapter/site"
	"github.com/autosched/autosched/internal/kubejson"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/schedulers/kueue"
	"github.com/autosched/autosched/schedulers/kueue/conf"
	"github.com/autosched/autosched/schedulers/native"
	"github.com/autosched/autosched/space"
)

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patch changes a ClusterQueue, and back.
type patch struct {
	queue      string
	does, undo []operation
}

// Change describes a change of a folder's settings to a configuration: a script of kubectl, to is its path. Each patch
// tests the values before, so that it changes nothing that someone else has changed.
func Change(f site.Folder, after space.Config, to string) (*replay.SettingsChange, error) {
	text, err := os.ReadFile(f.Path(Queues))
	if err != nil {
		return nil, err
	}
	s, err := conf.Read(map[string][]byte{f.Path(Queues): text})
	if err != nil {
		return nil, err
	}
	settings, err := conf.Settings(native.ValuesOf(after), s.Cluster)
	if err != nil {
		return nil, err
	}
	objects := map[string]map[string]any{}
	if err := each(text, func(kind string, raw json.RawMessage) {
		var o map[string]any
		if kind == "ClusterQueue" && json.Unmarshal(raw, &o) == nil { // conf has read it
			objects[kubejson.Of(o).Name()] = o
		}
	}); err != nil {
		return nil, err
	}
	inForce := conf.InForce(s.Cluster)
	var patches []*patch
	diff := ""
	for _, set := range settings {
		if slices.Contains(inForce, set) {
			continue // the same, or its default
		}
		path, err := pathOf(objects[set.Queue], set.Name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", set.Queue, err)
		}
		p := &patch{queue: set.Queue}
		was := p.set(objects[set.Queue], path, set.Value)
		if len(p.does) == 0 {
			continue
		}
		diff += fmt.Sprintf("-%s %s: %s\n+%[1]s %[2]s: %[4]s\n", set.Queue, set.Name, orNone(was), orNone(set.Value))
		if n := len(patches); n > 0 && patches[n-1].queue == p.queue {
			patches[n-1].does = append(patches[n-1].does, p.does...)
			patches[n-1].undo = append(p.undo, patches[n-1].undo...)
			continue
		}
		patches = append(patches, p)
	}
	return &replay.SettingsChange{Text: script(patches, to), Patch: diff,
		Commands: []string{"sh " + to + " --dry-run=server", "sh " + to, "sh " + to + " undo"}}, nil
}

func orNone(value string) string {
	if value == "" {
		return "(none)"
	}
	return value
}

// pathOf is where a ClusterQueue has a setting.
func pathOf(o map[string]any, name string) ([]string, error) {
	if name != kueue.BorrowingLimit && name != kueue.LendingLimit {
		return append([]string{"spec"}, strings.Split(name, ".")...), nil
	}
	var found []string
	for _, g := range kubejson.Of(o).Get("spec", "resourceGroups").Items() {
		for _, flavor := range g.Get("flavors").Items() {
			for _, r := range flavor.Get("resources").Items() {
				if strings.HasSuffix(r.Get("name").Text(), "/gpu") {
					found = append(found, r.At())
				}
			}
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("it has %d quotas of GPUs, and %s is of one", len(found), name)
	}
	at := strings.NewReplacer("[", ".", "]", "").Replace(found[0]) + "." + name
	return strings.Split(at, "."), nil
}

// set gives a field of an object a value, empty for none, adds the operations, and returns the value before.
func (p *patch) set(o map[string]any, path []string, value string) (was string) {
	at := any(o)
	pointer := ""
	for i, name := range path[:len(path)-1] {
		pointer += "/" + name
		next := child(at, name)
		if next == nil {
			if value == "" {
				return ""
			}
			tree := any(value)
			for j := len(path) - 1; j > i; j-- {
				tree = map[string]any{path[j]: tree}
			}
			at.(map[string]any)[name] = tree // elements of lists are there
			p.does = append(p.does, operation{"add", pointer, tree})
			p.undo = append(p.undo, operation{Op: "remove", Path: pointer})
			return ""
		}
		at = next
	}
	name := path[len(path)-1]
	pointer += "/" + name
	old := child(at, name)
	if old != nil {
		was = fmt.Sprint(old)
	}
	switch {
	case was == value:
	case old == nil:
		p.does = append(p.does, operation{"add", pointer, value})
		p.undo = append(p.undo, operation{"test", pointer, value}, operation{Op: "remove", Path: pointer})
	case value == "":
		p.does = append(p.does, operation{"test", pointer, old}, operation{Op: "remove", Path: pointer})
		p.undo = append(p.undo, operation{"add", pointer, old})
	default:
		p.does = append(p.does, operation{"test", pointer, old}, operation{"replace", pointer, value})
		p.undo = append(p.undo, operation{"test", pointer, value}, operation{"replace", pointer, old})
	}
	return was
}

// child is a field of an object, or an element of a list; nil if there is none.
func child(of any, name string) any {
	switch v := of.(type) {
	case map[string]any:
		return v[name]
	case []any:
		var i int
		if _, err := fmt.Sscan(name, &i); err == nil && i >= 0 && i < len(v) {
			return v[i]
		}
	}
	return nil
}

// script is a shell's that applies patches, or takes them back in reverse.
func script(patches []*patch, name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#!/bin/sh\n# Settings of Kueue. \"sh %s --dry-run=server\" checks them, \"sh %[1]s\" puts them in force,\n"+
		"# \"sh %[1]s undo\" takes them back. A patch fails where a value is not the one before.\nset -e\n", name)
	line := func(p *patch, of []operation) {
		text, err := json.Marshal(of)
		if err != nil {
			panic(err) // texts only
		}
		fmt.Fprintf(&b, "\tkubectl patch clusterqueue %s --type=json -p '%s' \"$@\"\n", p.queue, text)
	}
	b.WriteString("if [ \"${1:-}\" = undo ]; then\n\tshift\n")
	for i := range patches {
		p := patches[len(patches)-1-i]
		line(p, p.undo)
	}
	b.WriteString("else\n\t:\n")
	for _, p := range patches {
		line(p, p.does)
	}
	b.WriteString("fi\n")
	return b.String()
}

package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/autosched/autosched/adapter/site"
	"github.com/autosched/autosched/internal/kubejson"
	"github.com/autosched/autosched/internal/lines"
	"github.com/autosched/autosched/replay"
	"github.com/autosched/autosched/space"
)

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// key names an object.
type key struct{ kind, namespace, name string }

// named matches names of objects, which stand in a shell's text.
var named = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)

// resources are the names for kubectl of the kinds that change.
var resources = map[string]string{"ClusterQueue": "clusterqueue", "Queue": "queues.scheduling.volcano.sh",
	"ConfigMap": "configmap"}

func (k key) String() string {
	out := resources[k.kind] + " " + k.name
	if k.namespace != "" {
		out += " -n " + k.namespace
	}
	return out
}

// field is one of an object, with the value that it gets: a text, empty for none, a whole number, or true or false.
type field struct {
	of    key
	name  string
	path  []string
	value any
}

// patch changes an object, and back.
type patch struct {
	of         key
	does, undo []operation
}

// Change describes a change of a folder's settings to a configuration: a script of kubectl, to is its path. Each patch
// tests the values before, so that it changes nothing that someone else has changed.
func (s *Scheduler) Change(f site.Folder, after space.Config, to string) (*replay.SettingsChange, error) {
	text, err := os.ReadFile(f.Path(Queues))
	if err != nil {
		return nil, err
	}
	objects := map[key]map[string]any{}
	if err := each(text, func(kind string, raw json.RawMessage) {
		var o map[string]any
		if resources[kind] != "" && json.Unmarshal(raw, &o) == nil { // s.fields has its errors
			objects[keyOf(kubejson.Of(o))] = o
		}
	}); err != nil {
		return nil, err
	}
	fields, err := s.fields(map[string][]byte{f.Path(Queues): text}, after, objects)
	if err != nil {
		return nil, err
	}
	var patches []*patch
	diff := ""
	for _, x := range fields {
		p := &patch{of: x.of}
		was := p.set(objects[x.of], x.path, x.value)
		if len(p.does) == 0 {
			continue
		}
		if value := fmt.Sprint(x.value); strings.Contains(value, "\n") {
			diff += lines.Diff(x.name+" in force", x.name, []byte(was), []byte(value))
		} else {
			diff += fmt.Sprintf("-%s %s: %s\n+%[1]s %[2]s: %[4]s\n", x.of.name, x.name, orNone(was), orNone(value))
		}
		if n := len(patches); n > 0 && patches[n-1].of == p.of {
			patches[n-1].does = append(patches[n-1].does, p.does...)
			patches[n-1].undo = append(p.undo, patches[n-1].undo...)
			continue
		}
		if !named.MatchString(x.of.name + x.of.namespace) {
			return nil, fmt.Errorf("%s: %q in namespace %q is no name of Kubernetes", f.Path(Queues), x.of.name,
				x.of.namespace)
		}
		patches = append(patches, p)
	}
	return &replay.SettingsChange{Text: script(s.title, patches, to), Patch: diff,
		Commands: []string{"sh " + to + " --dry-run=server", "sh " + to, "sh " + to + " undo"}}, nil
}

func keyOf(o *kubejson.Object) key { return key{o.Kind(), o.Namespace(), o.Name()} }

func orNone(value string) string {
	if value == "" {
		return "(none)"
	}
	return value
}

// set gives a field of an object a value, empty for none, adds the operations, and returns the value before.
func (p *patch) set(o map[string]any, path []string, value any) (was string) {
	at := any(o)
	pointer := ""
	for i, name := range path[:len(path)-1] {
		pointer += "/" + name
		next := child(at, name)
		if next == nil {
			if value == "" {
				return ""
			}
			tree := value
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
	case was == fmt.Sprint(value):
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
func script(title string, patches []*patch, name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#!/bin/sh\n# Settings of %s. \"sh %s --dry-run=server\" checks them, \"sh %[2]s\" puts them in force,\n"+
		"# \"sh %[2]s undo\" takes them back. A patch fails where a value is not the one before.\nset -e\n",
		title, name)
	line := func(p *patch, of []operation) {
		text, err := json.Marshal(of)
		if err != nil {
			panic(err) // plain values only
		}
		text = bytes.ReplaceAll(text, []byte("'"), []byte(`\u0027`))
		fmt.Fprintf(&b, "\tkubectl patch %s --type=json -p '%s' \"$@\"\n", p.of, text)
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

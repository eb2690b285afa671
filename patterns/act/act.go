// Package act renders a site's commands on findings: a file has a command for each action, a program with
// arguments in which placeholders stand for fields of the finding. It runs nothing, and no shell is meant to see
// the rendered words.
package act

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/autosched/autosched/patterns"
)

// maxFile is the size of a file in bytes.
const maxFile = 1 << 20

// Placeholders are the names that may stand between braces in arguments.
var Placeholders = []string{"action", "finding", "gpu", "gpu_hours", "job", "key", "node", "partition", "queue", "rule",
	"scheduler", "tenant", "user", "worker"}

// Commands are a site's, by action.
type Commands struct {
	name     string
	byAction map[string]command
}

type command struct {
	line  int
	words []string
}

// Read reads commands. The error has every fault, with the name of the file and the line. Known returns an
// error for the name of an unknown action.
func Read(text []byte, name string, known func(action string) error) (*Commands, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s: is larger than %d MiB", name, maxFile>>20)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	c := &Commands{name: name, byAction: map[string]command{}}
	var faults []error
	add := func(n *yaml.Node, format string, args ...any) {
		faults = append(faults, fmt.Errorf("%s:%d: %w", name, max(1, n.Line), fmt.Errorf(format, args...)))
	}
	top := &root
	if len(root.Content) > 0 {
		top = root.Content[0]
	}
	version := false
	fields(top, "version: 1 and actions", add, func(key, value *yaml.Node) {
		switch key.Value {
		case "version":
			if version = true; value.Value != "1" {
				add(value, "version: %q is not 1", value.Value)
			}
		case "actions":
			fields(value, "actions with their commands", add, func(key, value *yaml.Node) {
				if err := known(key.Value); err != nil {
					add(key, "%s: %w", key.Value, err)
				}
				words, at, err := read(value)
				if err != nil {
					add(at, "%s: %w", key.Value, err)
				}
				c.byAction[key.Value] = command{key.Line, words}
			})
		default:
			add(key, "%q is neither version nor actions", key.Value)
		}
	})
	if len(faults) == 0 && (!version || len(c.byAction) == 0) {
		add(top, "want version: 1 and actions")
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return c, nil
}

// fields visits the fields of a mapping.
func fields(n *yaml.Node, want string, add func(*yaml.Node, string, ...any), visit func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		add(n, "want %s", want)
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if first := seen[key.Value]; first > 0 {
			add(key, "%s: is in line %d already", key.Value, first)
			continue
		}
		seen[key.Value] = key.Line
		visit(key, n.Content[i+1])
	}
}

var placeholder = regexp.MustCompile(`\{([^{}]*)\}`)

// read reads a command. Its error is about the node at.
func read(n *yaml.Node) (words []string, at *yaml.Node, err error) {
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return nil, n, errors.New("the program is missing: want a list of a program and its arguments")
	}
	for i, one := range n.Content {
		if err := checkWord(i, one); err != nil {
			return nil, one, fmt.Errorf("word %d: %w", i+1, err)
		}
		words = append(words, one.Value)
	}
	return words, nil, nil
}

func checkWord(i int, n *yaml.Node) error {
	word := n.Value
	switch {
	case n.Kind == yaml.MappingNode:
		return errors.New("want text: YAML takes braces at its beginning for a mapping, write quotes around it")
	case n.Kind != yaml.ScalarNode || n.Tag == "!!null":
		return errors.New("want text")
	case strings.ContainsFunc(word, unicode.IsControl):
		return fmt.Errorf("%q has control characters", word)
	case i == 0 && (word == "" || strings.ContainsAny(word, "{}") || word[0] == '-' ||
		strings.Contains(word, "/") && word[0] != '/'):
		return fmt.Errorf("%q is no program: want a name that is found in PATH, or an absolute path", word)
	}
	for _, m := range placeholder.FindAllStringSubmatch(word, -1) {
		if !slices.Contains(Placeholders, m[1]) {
			return fmt.Errorf("%s is unknown: want one of {%s}", m[0], strings.Join(Placeholders, "}, {"))
		}
	}
	if strings.ContainsAny(placeholder.ReplaceAllString(word, ""), "{}") {
		return fmt.Errorf("%q has a brace that belongs to no placeholder", word)
	}
	return nil
}

// Has reports whether there is a command for an action.
func (c *Commands) Has(action string) bool { return c.byAction[action].words != nil }

// Render returns the command for the action of a finding, with values in place of the placeholders.
func (c *Commands) Render(action string, values map[string]string) ([]string, error) {
	cmd, has := c.byAction[action]
	if !has {
		return nil, fmt.Errorf("%s: has no command for the action %s", c.name, action)
	}
	words := slices.Clone(cmd.words)
	for i := range words {
		var fault error
		words[i] = placeholder.ReplaceAllStringFunc(words[i], func(name string) string {
			value, has := values[name[1:len(name)-1]]
			switch err := checkValue(value); {
			case !has:
				fault = fmt.Errorf("the finding has no %s", name)
			case err != nil:
				fault = fmt.Errorf("%s: %w", name, err)
			}
			return value
		})
		if fault != nil {
			return nil, fmt.Errorf("%s:%d: %s: word %d: %w", c.name, cmd.line, action, i+1, fault)
		}
	}
	return words, nil
}

// maxValue is the length of a value in bytes.
const maxValue = 255

var plainValue = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:@+-]*$`)

// checkValue refuses values that a program may take for an option, a list, a range or everything.
func checkValue(v string) error {
	switch {
	case len(v) > maxValue:
		return fmt.Errorf("its value is longer than %d bytes", maxValue)
	case !plainValue.MatchString(v):
		return fmt.Errorf("its value %q has other characters than letters, digits and _ . : @ + -, or begins with one of . : @ + -",
			v)
	case strings.EqualFold(v, "all"):
		return fmt.Errorf("its value %q means everything to some programs", v)
	}
	return nil
}

// Values returns the values of the placeholders that a finding has; groupBy is its rule's, nil if that is unknown.
func Values(f *patterns.Finding, groupBy []string) map[string]string {
	out := map[string]string{"action": f.Action, "rule": f.Rule,
		"gpu_hours": strconv.FormatFloat(f.WastedGPUHours, 'f', 1, 64)}
	set := func(name, value string) {
		if value != "" && slices.Contains(Placeholders, name) {
			out[name] = value
		}
	}
	parts := strings.SplitN(f.Entity.Name, "/", max(1, len(groupBy)))
	if len(groupBy) == len(parts) {
		for i, kind := range groupBy {
			if kind == "gpu" {
				continue // its name has the node
			}
			set(kind, parts[i])
		}
	}
	if at := strings.LastIndexByte(f.Entity.Name, ':'); f.Entity.Kind == "gpu" && at >= 0 {
		set("node", f.Entity.Name[:at])
		set("gpu", f.Entity.Name[at+1:])
	}
	set("job", f.Job)
	set("node", f.Node)
	return out
}

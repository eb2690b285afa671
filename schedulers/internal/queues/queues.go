// Package queues has the parameters of groups of queues, "<group>.<setting>". A group is a queue by its name, or all
// whose names begin with a prefix that ends in "-", as no name in Kubernetes does. A setting without a group is for
// all queues. The most specific parameter decides: that of the name, of the longest prefix, of all.
package queues

import (
	"strconv"
	"strings"

	"github.com/autosched/autosched/space"
)

// MaxID is the longest id of a parameter.
const MaxID = 63

// ID is the parameter of a setting for a group, empty for all queues.
func ID(group, setting string) string {
	if group == "" {
		return setting
	}
	return group + "." + setting
}

// Setting is a setting of a queue, by the name of the scheduler's field. A value that is empty is absent.
type Setting struct{ Queue, Name, Value string }

// Field is the value as the field of the object has it, nil where it is absent. Whole names a setting that is a whole
// number.
func (s Setting) Field(whole string) (any, error) {
	switch {
	case s.Value == "":
		return nil, nil
	case s.Name == whole:
		return strconv.ParseInt(s.Value, 10, 64)
	case s.Value == "true" || s.Value == "false":
		return s.Value == "true", nil
	}
	return s.Value, nil
}

// Split takes an id of one of the settings apart. ok is false for other ids.
func Split(id string, settings []string) (group, setting string, ok bool) {
	for _, s := range settings {
		if id == s {
			return "", s, true
		}
		if g, of := strings.CutSuffix(id, "."+s); of && g != "" && len(id) <= MaxID {
			return g, s, true
		}
	}
	return "", "", false
}

// Of reports whether a group has a queue.
func Of(group, queue string) bool {
	return group == queue || group == "" || strings.HasSuffix(group, "-") && strings.HasPrefix(queue, group)
}

// Param returns the parameter that decides a setting of a queue, by a function that knows the ones there are.
func Param(queue, setting string, has func(id string) bool) (id string, ok bool) {
	if id = ID(queue, setting); has(id) {
		return id, true
	}
	for n := len(queue) - 1; n > 0; n-- {
		if queue[n-1] != '-' {
			continue
		}
		if id = ID(queue[:n], setting); has(id) {
			return id, true
		}
	}
	return setting, has(setting)
}

// Value returns the value of a setting of a queue in a configuration. ok is false if it has none.
func Value(c space.Config, queue, setting string) (v space.Value, ok bool) {
	id, ok := Param(queue, setting, c.Has)
	return c.Get(id), ok
}

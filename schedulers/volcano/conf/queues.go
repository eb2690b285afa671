package conf

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/autosched/autosched/schedulers/internal/queues"
	"github.com/autosched/autosched/schedulers/volcano"
	"github.com/autosched/autosched/space"
)

// Setting is a setting of a Queue: weight or reclaimable, by the name of its field.
type Setting = queues.Setting

// Names are the names of settings.
func Names() []string { return []string{volcano.Weight, volcano.Reclaimable} }

// isQueues reports whether a parameter is a setting of queues.
func isQueues(id string) bool {
	_, _, ok := queues.Split(id, Names())
	return ok && !slices.Contains([]string{volcano.BinpackWeightID, volcano.LeastRequestedID, volcano.MostRequestedID,
		volcano.BalancedResourceID}, id)
}

// Settings returns the settings of queues that parameters stand for, in order of queue and name. Other parameters have
// none.
func Settings(values space.Values, names []string) ([]Setting, error) {
	has := func(id string) bool { return isQueues(id) && !values[id].IsZero() }
	var out []Setting
	for _, q := range slices.Sorted(slices.Values(names)) {
		for _, name := range Names() {
			id, ok := queues.Param(q, name, has)
			if !ok {
				continue
			}
			text, err := queueText(id, values[id])
			if err != nil {
				return nil, err
			}
			out = append(out, Setting{Queue: q, Name: name, Value: text})
		}
	}
	return out, nil
}

// Values returns the values of parameters of queues by their settings. It is an error if queues that share one differ.
func Values(ids []string, settings []Setting) (space.Values, error) {
	out, from := space.Values{}, map[string]string{}
	has := func(id string) bool { return slices.Contains(ids, id) && isQueues(id) }
	for _, s := range settings {
		id, ok := queues.Param(s.Queue, s.Name, has)
		if !ok {
			continue
		}
		v, err := queueValue(id, s.Value)
		if err != nil {
			return nil, fmt.Errorf("queue %s: %w", s.Queue, err)
		}
		if was, is := out[id]; is && !was.Equal(v) {
			return nil, fmt.Errorf("%s: queue %s has %s, queue %s has %s", id, from[id], was, s.Queue, v)
		}
		out[id], from[id] = v, s.Queue
	}
	return out, nil
}

// queueText is a value as the field of a Queue has it.
func queueText(id string, v space.Value) (string, error) {
	p, _ := volcano.SiteParam(id)
	switch n := v.Float(); {
	case p.Kind == space.KindBool:
		return strconv.FormatBool(v.Bool()), nil
	case n != float64(int(n)) || n < p.Min || n > p.Max:
		return "", fmt.Errorf("%s: %g is not a whole number from %g to %g", id, n, p.Min, p.Max)
	default:
		return strconv.Itoa(int(n)), nil
	}
}

// queueValue is the inverse of queueText. An empty text is the default of Queues.
func queueValue(id, text string) (space.Value, error) {
	p, known := volcano.SiteParam(id)
	if !known || !isQueues(id) {
		return space.Value{}, fmt.Errorf("%s: is not a parameter of queues", id)
	}
	switch {
	case text == "":
		return p.Default, nil
	case p.Kind == space.KindBool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return space.Value{}, fmt.Errorf("%s: %q is neither true nor false", id, text)
		}
		return space.Bool(b), nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || float64(n) < p.Min || float64(n) > p.Max {
		return space.Value{}, fmt.Errorf("%s: %q is not a whole number from %g to %g", id, text, p.Min, p.Max)
	}
	return space.Int(n), nil
}

// InText reports whether a parameter is in the scheduler's text; others are settings of queues.
func InText(id string) bool { return !isQueues(id) }
